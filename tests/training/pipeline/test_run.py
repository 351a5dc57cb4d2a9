from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from tests.training.files import write
from tests.training.tiny import tiny_sentence_encoder
from training.config.run import RunConfig
from training.evaluation.sts import DevScore
from training.pipeline.run import Run
from training.pipeline.runner import fingerprints
from training.pipeline.steps import steps_of

CONFIG = {"languages": ["de"], "corpus": {"sources": {"news": {}}}, "student": {"max_length": 64}, "stages": []}


@pytest.mark.parametrize(("assistant", "bf16"), [(True, True), (False, False)])
def test_scores_are_float32_where_every_stage_is(
    small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, assistant: bool, bf16: bool
) -> None:
    stages = {"assistant": {"pairs": 2, "bf16": assistant}, "contrastive": {"pairs": 2, "bf16": False}}
    config = RunConfig.model_validate({**CONFIG, **stages, "stages": list(stages)})
    small_tokenizer.save_pretrained(tmp_path / "tokenizer")
    assert config.bf16 == bf16
    assert Run(config, tmp_path, tmp_path).text_encoder(tiny_sentence_encoder()).bf16 == bf16


@pytest.mark.parametrize(("rows", "read"), [({}, 150), ({"dev_rows": 7}, 7), ({"dev_rows": None}, 160)])
def test_dev_scores_read_as_many_rows_as_configured(
    small_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: dict[str, int | None],
    read: int,
) -> None:
    write(tmp_path / "eval/stsb/dev/en-de.tsv", *(f"{index % 5}\ta{index}\tb{index}" for index in range(160)))
    small_tokenizer.save_pretrained(tmp_path / "tokenizer")
    run = Run(RunConfig.model_validate({**CONFIG, "evaluation": rows}), tmp_path, tmp_path)
    sizes = []
    monkeypatch.setattr(DevScore, "by_pair", lambda score, _: sizes.append(len(score.pairs["en-de"][0])))
    run.validation(tiny_sentence_encoder())()
    assert sizes == [read]


def identities(config: dict[str, object], data: Path) -> dict[str, str]:
    run = Run(RunConfig.model_validate({**CONFIG, **config}), data, data / "out")
    return fingerprints(steps_of(run), data_fingerprint=run.data_fingerprint())


def test_a_tokenizer_is_of_its_checkpoint_and_of_monolingual_text(tmp_path: Path) -> None:
    pruned = {"tokenizer": {"kind": "pruned", "mono": ["talk"]}, "base": "base"}
    first = identities(pruned, tmp_path)
    write(tmp_path / "mono/talk/de.txt", "ein Satz")
    assert identities(pruned, tmp_path)["tokenizer"] != first["tokenizer"]
    kept = {
        "tokenizer": {"kind": "kept"},
        "base": "base",
        "stages": ["passages"],
        "passages": {"max_length": 64, "sets": {"arcd": {}}},
    }
    for name in ("one", "other"):
        write(tmp_path / name / "weights", name)
    one, other = (identities(kept | {"continue_from": str(tmp_path / name)}, tmp_path) for name in ("one", "other"))
    assert one["corpus"] == other["corpus"]
    assert one["tokenizer"] != other["tokenizer"]


STUDENT = {"stages": ["assistant"], "assistant": {"pairs": 8}}
FITTED = {**STUDENT, "head": "fitted"}
FIRST = {"stages": ["passages"], "continue_from": "student", "passages": {"max_length": 64, "sets": {"arcd": {}}}}


@pytest.mark.parametrize(
    ("config", "changes", "step", "is_same"),
    [
        (FITTED, {"assistant": {"pairs": 8, "seed": 7}}, "start", False),  # the head is fitted on pairs of stage 1
        (FITTED, {"assistant": {"pairs": 8, "warmup": 0.5}}, "start", True),
        (STUDENT, {"assistant": {"pairs": 8, "seed": 7}}, "start", True),
        (FIRST, {"base": "changed"}, "passages", False),  # it gives positions for passages
        (FIRST, {"evaluation": {"dev_rows": 9}}, "passages", False),  # dev chooses how far to go
        (FIRST, {"evaluation": {"sts_rows": 9}}, "passages", True),
    ],
)
def test_a_steps_identity_has_all_that_it_reads(
    config: dict, changes: dict, step: str, is_same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("base", "changed", "student"):
        write(tmp_path / name / "weights", name)
    config = {"base": "base", **config}
    before, after = identities(config, tmp_path), identities(config | changes, tmp_path)
    assert (before[step] == after[step]) == is_same
