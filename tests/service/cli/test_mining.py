import json
import subprocess
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest

from service.documents.readers.jsonl import Lines
from service.errors import InvalidInput
from service.settings import BUNDLED_MODEL
from tests.artifacts import TEXTS
from tests.parallel_text import OBJECTS, SUBJECTS, VERBS, sentence
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import COMMAND

pytestmark = pytest.mark.usefixtures("local")

TRANSLATIONS = Path(__file__).parents[2] / "e2e" / "translations.tsv"


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def repeats(tmp_path: Path) -> Path:
    """A file of two equal lines."""
    return write(tmp_path / "a.txt", ["ok", "ok"])


def bundled(crosslet: Crosslet, *arguments: object) -> list[str]:
    """The lines that a command with the bundled model prints."""
    return crosslet(*arguments, "--model", BUNDLED_MODEL).out.splitlines()


def grouped_lines(crosslet: Crosslet, *arguments: object) -> list[list[int]]:
    """The line numbers of each group that `dedup` prints."""
    return [json.loads(line)["lines"] for line in crosslet("dedup", *arguments).out.splitlines()]


def real_pairs() -> tuple[list[str], list[str]]:
    """English and German: 40 sentences of every day, and 108 of a grammar, which differ by a word or two."""
    everyday = [line.split("\t")[:2] for line in TRANSLATIONS.read_text(encoding="utf-8").splitlines()]
    choices = list(product(range(len(SUBJECTS)), range(len(VERBS)), range(len(OBJECTS))))[::12]
    grammar = [[sentence(choice, "en"), sentence(choice, "de")] for choice in choices]
    english, german = zip(*everyday, *grammar, strict=True)
    return list(english), list(german)


def test_mine_finds_translations_among_lines_that_have_none(crosslet: Crosslet, tmp_path: Path) -> None:
    english, german = real_pairs()
    left, right = english[:30], german[10:40]  # 20 pairs; the translations of 10 lines of each file are left out
    gold = set(zip(english[10:30], german[10:30], strict=True))
    a, b = write(tmp_path / "a.txt", left), write(tmp_path / "b.txt", right[::-1])
    out, err = crosslet("mine", a, b, "--model", BUNDLED_MODEL)
    rows = [line.split("\t") for line in out.splitlines()]
    found = {(x, y) for _, x, y in rows}
    margins = [float(margin) for margin, _, _ in rows]
    precision, recall = len(found & gold) / len(found), len(found & gold) / len(gold)
    print(f"\nmine, 20 pairs among 30 and 30 lines: precision {precision:.3f}, recall {recall:.3f}")
    assert margins == sorted(margins, reverse=True)
    assert min(margins) >= 1.2
    assert precision >= 0.8
    assert recall >= 0.8
    assert "neighbours: 100%" in err


def test_mine_tells_sentences_apart_that_differ_by_a_word(crosslet: Crosslet, tmp_path: Path) -> None:
    english, german = real_pairs()
    a, b = write(tmp_path / "a.txt", english), write(tmp_path / "b.txt", german[::-1])
    out, _ = crosslet("mine", a, b, "--model", BUNDLED_MODEL, "--threshold", "0", "--out", tmp_path / "out.tsv")
    assert out == ""
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    right = sum((x, y) in set(zip(english, german, strict=True)) for _, x, y in rows)
    print(f"\nmine, {len(english)} pairs: {right} right of {len(rows)}")
    assert right >= 0.65 * len(english)


def test_the_threshold_cuts_the_same_list(crosslet: Crosslet, tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.txt", list(TEXTS)), write(tmp_path / "b.txt", [text + " x" for text in TEXTS])
    every = crosslet("mine", a, b, "--threshold", "0")[0].splitlines()
    assert len(every) > 5
    middle = every[4].split("\t")[0]
    kept = [line for line in every if float(line.split("\t")[0]) >= float(middle)]
    cut = crosslet("mine", a, b, "--threshold", str(float(middle) - 5e-5))[0].splitlines()
    assert cut[: len(kept)] == kept
    assert len(cut) < len(every)


@pytest.mark.parametrize("options", [[], ["--margin", "0", "--threshold", "0.8"]])
def test_dedup_groups_translations_and_keeps_the_first(crosslet: Crosslet, tmp_path: Path, options: list[str]) -> None:
    rows = [line.split("\t")[:2] for line in TRANSLATIONS.read_text(encoding="utf-8").splitlines()]
    lines = [row[0] for row in rows] + [row[1] for row in rows[:20]]
    path = write(tmp_path / "a.txt", lines)
    out, err = crosslet("dedup", path, "--model", BUNDLED_MODEL, *options)
    groups = [json.loads(line) for line in out.splitlines()]
    assert all([lines[number - 1] for number in group["lines"]] == group["texts"] for group in groups)
    gold = {(number, 40 + number) for number in range(1, 21)}
    found = {tuple(group["lines"]) for group in groups}
    precision, recall = len(found & gold) / len(found), len(found & gold) / len(gold)
    assert precision >= 0.9
    assert recall >= 0.3
    assert "pairs: 100%" in err
    kept = bundled(crosslet, "dedup", path, *options, "--keep", "first")
    repeats = {number for group in groups for number in group["lines"][1:]}
    assert kept == [line for number, line in enumerate(lines, start=1) if number not in repeats]
    print(f"\ndedup {options}, 20 translations among 60 lines: precision {precision:.3f}, recall {recall:.3f}")


def test_dedup_keeps_the_lines_of_a_jsonl_file_byte_by_byte(crosslet: Crosslet, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, second = b'{"id":  "1", "text": "hallo guitar", "x": [1]}', b'{"text":"stock market"}'
    path.write_bytes(first + b"\r\n\n" + b'{"id": "2", "text": "hallo guitar"}\n' + second)
    out, _ = crosslet("dedup", path, "--threshold", "0.999", "--keep", "first")
    assert out.encode() == first + b"\r\n" + second + b"\n"
    groups = crosslet("dedup", path, "--threshold", "0.999")[0]
    assert json.loads(groups) == {"lines": [1, 3], "texts": ["hallo guitar", "hallo guitar"]}


def test_dedup_finds_words_with_white_space_at_their_ends(crosslet: Crosslet, tmp_path: Path) -> None:
    words = ["Sarei", "guitar", "kůň", "Straße", "año", "été", "लड़का", "図書館", "안녕", "ışık"]
    texts = [text for word in words for text in (word, f"{word}\n")]
    path = write(tmp_path / "a.jsonl", [json.dumps({"text": text}) for text in texts])
    lines = grouped_lines(crosslet, path, "--model", BUNDLED_MODEL)
    assert lines == [[number, number + 1] for number in range(1, 20, 2)]


def test_lines_are_read_by_row_and_blank_ones_only_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("eins\r\n\n  \n zwei \nдрей".encode())
    with Lines(path) as lines:
        assert [(lines.number(row), lines.text(row)) for row in (2, 0, 1)] == [(5, "дрей"), (1, "eins"), (4, " zwei ")]
        assert len(lines) == 3
        assert lines.raw(0) == b"eins\r\n"


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", b"ok\n\xff\n", "a.txt line 2 is not valid UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"id": 1}\n', "a.jsonl line 2 is not a JSON object with a text"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "T\xfcr"}\n', "a.jsonl line 2 is not valid UTF-8"),
        ("a.txt", "a\n".encode("utf-16"), "a.txt is UTF-16 by its byte-order mark; save it as UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\\ud83d"}\n', "a.jsonl line 2: text has half a surrogate pair"),
        ("a.jsonl", b"[]\n", "a.jsonl line 1 is not a JSON object with a text"),
        ("a.jsonl", b'{"text": 5}\n', "a.jsonl line 1 is not a JSON object with a text"),
        ("a.txt", b"x" * 200, "a.txt line 1 has 200 characters; the limit is 100 (CROSSLET_MAX_TEXT_CHARS)"),
    ],
)
def test_a_line_that_is_no_text_is_one_sentence(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, complaint: str
) -> None:
    monkeypatch.setenv("CROSSLET_MAX_TEXT_CHARS", "100")
    (tmp_path / name).write_bytes(content)
    assert complaint in crosslet("dedup", tmp_path / name, status=2)[1]


def test_a_line_that_the_model_fails_on_is_named(crosslet: Crosslet, tmp_path: Path, failing_model: Path) -> None:
    path = write(tmp_path / "a.txt", [*(f"line {number}" for number in range(300)), "", "kaputt", "kaputt too"])
    error = crosslet("dedup", path, "--model", failing_model, status=2)[1]
    assert error.splitlines()[-1].startswith(f"crosslet: {path} line 302: the model gave no finite vector")


def test_files_that_cannot_be_compared_are_one_sentence(crosslet: Crosslet, tmp_path: Path) -> None:
    full, empty = write(tmp_path / "a.txt", ["x"]), write(tmp_path / "b.txt", ["", " "])
    assert "b.txt has no line with a text" in crosslet("mine", full, empty, status=2)[1]
    assert "no.txt cannot be read" in crosslet("mine", full, tmp_path / "no.txt", status=2)[1]
    assert "is not a regular file" in crosslet("dedup", tmp_path, status=2)[1]
    assert crosslet("dedup", empty)[0] == ""
    assert not list(tmp_path.glob("*.part"))


def test_endless_line_is_refused_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.documents.readers.jsonl.MAX_LINE_BYTES", 10)
    with pytest.raises(InvalidInput, match="line 2 has more than 10 bytes"):
        Lines(write(tmp_path / "a.txt", ["x", "y" * 50]))


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        (".", "Is a directory"),
        ("no/x", "cannot be written (there is no folder no; make it first)"),
        ("/dev/fd/987654", "crosslet: /dev/fd/987654 cannot be written (Bad file descriptor)"),
    ],
)
def test_refused_output_is_said_before_any_work(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\n")  # would be the complaint of the work
    assert complaint in crosslet("dedup", "a.txt", "--out", out, status=2).err


@pytest.mark.parametrize("out", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_output_that_is_open_keeps_what_others_wrote(tmp_path: Path, out: str, repeats: Path) -> None:
    """Into a pipe, and into a file, in which a shell goes on to write."""
    command = [*COMMAND, "dedup", str(repeats), "--out", out]
    piped = subprocess.run(command, capture_output=True, check=False)
    assert (piped.returncode, json.loads(piped.stdout)["lines"]) == (0, [1, 2]), piped.stderr
    with (tmp_path / "log").open("wb", buffering=0) as log:
        log.write(b"first\n")
        subprocess.run(command, stdout=log, check=True)
        log.write(b"last\n")
    first, middle, last = (tmp_path / "log").read_text().splitlines()
    assert (first, json.loads(middle)["lines"], last) == ("first", [1, 2], "last")


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    contents = {"a.txt": "ok\nok\n", "a.jsonl": '{"text": "ok"}\n{"text": "ok"}\n', "blank.txt": "\nok\nok\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8-sig")
        with Lines(tmp_path / name) as lines:
            assert [lines.text(row) for row in range(len(lines))] == ["ok", "ok"]


def test_a_pair_is_one_line_whatever_its_texts_hold(crosslet: Crosslet, tmp_path: Path) -> None:
    left, right = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    left.write_text(json.dumps({"text": "one\ttwo\r\nthree\u2028four"}) + "\n")
    right.write_text(json.dumps({"text": "five"}) + "\n")
    (line,) = crosslet("mine", left, right, "--threshold", "-9")[0].splitlines()
    assert line.split("\t")[1:] == ["one two three four", "five"]


@pytest.mark.parametrize("margin", ["0", "1.2"])
@pytest.mark.parametrize("times", [2, 9])
def test_equal_lines_are_found_at_a_threshold_of_one(
    crosslet: Crosslet, tmp_path: Path, margin: str, times: int
) -> None:
    path = write(tmp_path / "a.txt", [*TEXTS] * times)
    lines = grouped_lines(crosslet, path, "--threshold", "1", "--margin", margin)
    assert lines == [[number + len(TEXTS) * n for n in range(times)] for number in range(1, len(TEXTS) + 1)]


def test_an_interruption_is_one_sentence(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repeats: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "no"))  # no temporary folder is needed
    monkeypatch.setattr("service.documents.readers.jsonl.Lines.text", Mock(side_effect=KeyboardInterrupt))
    for files in (["mine", repeats, repeats], ["dedup", repeats]):
        assert crosslet(*files, status=2)[1].endswith("crosslet: stopped\n")


def test_a_standard_output_without_room_is_one_sentence(repeats: Path) -> None:
    for arguments in (["dedup", str(repeats)], ["embed", "ok"], ["info"]):
        with Path("/dev/full").open("wb") as full:
            command = [*COMMAND, *arguments]
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        last = ended.stderr.splitlines()[-1]
        assert last.startswith("crosslet: standard output cannot be written completely (No space")
        assert ended.returncode == 2
