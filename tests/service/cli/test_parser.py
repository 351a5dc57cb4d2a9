import subprocess

import pytest

from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import COMMAND


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["serach", "x"], "'serach' is no command; did you mean search?"),
        (["evalute", "x"], "'evalute' is no command; did you mean evaluate?"),
        (["--verison"], "--verison is no option of `crosslet`; did you mean --version?"),
        (["--verison", "search"], "--verison is no option of `crosslet`; did you mean --version?"),
        (["index", "--hlep"], "--hlep is no option of `crosslet index`; did you mean --help?"),
        (["zzzzzz"], "'zzzzzz' is no command; one of serve, embed, "),
        (["index", "bulid"], "'bulid' is no command; did you mean build?"),
        (["search", "--topk", "3", "x"], "--topk is no option of `crosslet search`; did you mean --top-k?"),
        (["rerank", "--topk=3"], "--topk is no option of `crosslet rerank`; did you mean --top-k?"),
        (["index", "build", "--on-badline", "skip"], "did you mean --on-bad-line?"),
        (["search", "x", "--zzz"], "--zzz is no option of `crosslet search`\n"),
        (["search", "x", "--mode", "hybird"], "argument --mode: 'hybird' is no choice; did you mean hybrid?"),
        (["search", "x", "--filter", "{"], """not valid JSON; write it like '{"lang": "de"}'"""),
        (["search", "x", "--filter", r'{"lang": "\ud83d"}'], "--filter: lang has half a surrogate pair"),
        (["search", "x", "--filter", '{"lang": "T\udcfcr"}'], "--filter: lang is not valid UTF-8"),
        *(
            (["search", "x", option, "T\udcfcr"], f"{option}: not valid UTF-8")
            for option in ("--collection", "--facets", "--include", "--sort", "--prompt-name", "--url")
        ),
        (["index", "build", "x", "--url", "T\udcfcr"], "--url: not valid UTF-8"),
    ],
)
def test_a_typo_is_named_with_what_is_near(crosslet: Crosslet, arguments: list[str], complaint: str) -> None:
    assert complaint in crosslet(*arguments, status=2).err


def test_wrong_usage_is_exit_code_2(crosslet: Crosslet) -> None:
    of_index = ("index", "index nope", "index build", "index build x.csv --engine x")
    of_search = ("search", "search x --filter [1]", "search x --top-k -5")
    for command in ("", "nope", "mine a b --threshold nan", *of_index, *of_search):
        crosslet(*command.split(), status=2)


def test_text_like_an_option_is_a_text_behind_two_dashes() -> None:
    for arguments in (["--", "--topk"], ["--topk is no option"], ["--model", "models/default", "--", "--x"]):
        done = subprocess.run([*COMMAND, "embed", *arguments], capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) == 1


def test_an_option_may_be_shortened(crosslet: Crosslet) -> None:
    assert crosslet("similarity", "a", "a", "--js").out


def test_the_help_of_crosslet_fits_one_screen(crosslet: Crosslet) -> None:
    help_ = crosslet("--help").out
    assert len(help_.splitlines()) <= 40
    assert max(map(len, help_.splitlines())) <= 80
