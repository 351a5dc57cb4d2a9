"""`crosslet params` against the sizes that Ding et al. 2022 print, from the encoders' published shapes."""

from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from transformers import BertConfig, DistilBertConfig, XLMRobertaConfig

from training.ablation.paper import MODELS
from training.ablation.spec import load_spec, read_cells
from training.config.parsing import build
from training.config.run import RunConfig
from training.pipeline.params import main, sizes

CONFIGS = Path(__file__).parents[3] / "training/configs"
MINIMAL = {"name": "x", "languages": ["de"], "corpus": {"sources": {"news": {}}}, "stages": []}
XLM_R = XLMRobertaConfig(vocab_size=250_002, max_position_embeddings=514, type_vocab_size=1)
MINILM = BertConfig(  # microsoft/Multilingual-MiniLM-L12-H384
    vocab_size=250_037, hidden_size=384, intermediate_size=1_536, num_attention_heads=12, max_position_embeddings=512
)
MBERT, DISTILMBERT = BertConfig(vocab_size=119_547), DistilBertConfig(vocab_size=119_547)
BASES = {"XLM-R": XLM_R, "MiniLM": MINILM, "mBERT": MBERT, "DistilmBERT": DISTILMBERT}
ASSISTANTS = {"XLM-R": 192.40, "MiniLM": 96.21, "mBERT": 92.20}  # millions of embedding parameters in the paper


@pytest.mark.parametrize("base", BASES)
def test_papers_students_are_as_large_as_printed(base: str) -> None:
    cells = {}
    for path in (CONFIGS / "table-1-2.yaml", CONFIGS / "table-7-8.yaml"):
        cells |= {cell.name: cell.config for cell in read_cells(load_spec(path), path)}
    students = {name: own for name, own in cells.items() if name.removeprefix("student ").startswith(base)}
    assert len(students) == {"XLM-R": 6, "MiniLM": 5, "mBERT": 2, "DistilmBERT": 1}[base]
    for name, own in students.items():
        counts = sizes(own, BASES[base])
        depth = own.student.unit_layers * own.student.recurrences
        assert depth == BASES[base].num_hidden_layers
        assert counts["student"].layers * own.student.recurrences == counts["assistant"].layers
        if name in MODELS:
            printed = MODELS[name]
            assert counts["student"].layers / 1e6 == pytest.approx(printed.encoder_millions, abs=0.01)
            without_positions = base == "MiniLM" and own.student.bottleneck_size is not None
            embedding = counts["student"].words if without_positions else counts["student"].embedding
            assert embedding / 1e6 == pytest.approx(printed.embedding_millions, abs=0.01)
        if base in ASSISTANTS:
            assert counts["assistant"].embedding / 1e6 == pytest.approx(ASSISTANTS[base], abs=0.01)


def test_a_new_vocabulary_has_the_configured_size() -> None:
    student = {"bottleneck_size": None, "unit_layers": 12, "recurrences": 1}
    config = build(RunConfig, {**MINIMAL, "tokenizer": {"kind": "new"}, "student": student}, where="test")
    counts = sizes(config, XLM_R)
    assert counts["student"].words == 32_000 * 768


def test_the_command_prints_both_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    XLM_R.save_pretrained(tmp_path)
    assert main([str(CONFIGS / "paper-xlmr-b128-ru3.yaml"), "--base", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:4] == ["assistant", "192.40", "85.05", "277.45"]
    assert lines[2] == ["student", "32.49", "21.26", "53.76", "32.10", "+", "0.39"]


def test_an_unknown_base_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    assert main([str(path), "--base", str(tmp_path / "none")]) == 2
    assert "is neither a folder nor a model the hub could provide" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [(OSError("the disk is gone"), 2, "error: the disk is gone\n"), (KeyboardInterrupt(), 130, "stopped\n")],
)
def test_system_errors_and_ctrl_c_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: BaseException, status: int, said: str
) -> None:
    monkeypatch.setattr("training.pipeline.params.load_config", Mock(side_effect=fault))
    assert main(["run.yaml"]) == status
    assert capsys.readouterr().err == said
