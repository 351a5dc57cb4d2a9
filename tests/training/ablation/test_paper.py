"""The paper's configurations with small random models of each base's and teacher's class and a small corpus."""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import (
    BertConfig,
    BertTokenizerFast,
    DistilBertConfig,
    DistilBertTokenizerFast,
    PretrainedConfig,
    RobertaConfig,
    RobertaTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaTokenizerFast,
)

from tests.parallel_text import write_data_folder
from tests.training.models.bases import SIZES, save_base
from tests.vocabularies import byte_level_bpe, unigram, wordpiece
from training.__main__ import main
from training.ablation.spec import load_spec, read_cells
from training.config.run import RunConfig
from training.corpora.readers import read_tsv_pairs
from training.models.encoder import parameter_counts

TABLES = Path(__file__).parents[3] / "training/configs/table-1-2.yaml"
SHAPE = {**SIZES, "max_position_embeddings": 130}
WIDE, NARROW = {**SHAPE, "hidden_size": 144}, {**SHAPE, "hidden_size": 132}
DEEP = {"num_hidden_layers": 12}
ROBERTA = RobertaConfig, byte_level_bpe, RobertaTokenizerFast


@dataclass(frozen=True)
class Case:
    """A model of the paper, and what stands for its base and its teacher."""

    cell: str
    base: PretrainedConfig
    tokenizer: Callable[[list[str]], Tokenizer]
    tokenizer_class: Callable
    teacher: tuple[Callable, Callable[[list[str]], Tokenizer], Callable] = ROBERTA
    width: int = 144


CASES = {
    "XLM-R": Case("student XLM-R, B=128, M=3", XLMRobertaConfig(**WIDE | DEEP), unigram, XLMRobertaTokenizerFast),
    "mBERT": Case(
        "mBERT ← SBERT-nli-stsb",
        BertConfig(**WIDE | DEEP),
        wordpiece,
        BertTokenizerFast,
        teacher=(BertConfig, wordpiece, BertTokenizerFast),
    ),
    "MiniLM": Case(
        "student MiniLM, B=128, M=12",
        BertConfig(**NARROW | DEEP),
        unigram,
        XLMRobertaTokenizerFast,
        teacher=(BertConfig, wordpiece, BertTokenizerFast),
        width=132,
    ),
    "DistilmBERT": Case(
        "DistilmBERT ← SBERT-paraphrases",
        DistilBertConfig(n_layers=6, dim=264, n_heads=4, hidden_dim=64, max_position_embeddings=130),
        wordpiece,
        DistilBertTokenizerFast,
    ),
}


def write_data(folder: Path, sources: list[str]) -> tuple[Path, list[str]]:
    """A small corpus spread over the paper's, a dev set in the place of its own; and all of its sentences."""
    data = write_data_folder(folder, pairs_per_language=60)
    sentences = data / "parallel/sentences"
    texts = [side for path in sorted(sentences.iterdir()) for pair in read_tsv_pairs(path) for side in pair]
    for number, source in enumerate(sources):
        (data / "parallel" / source).mkdir()
        for path in sentences.iterdir():
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            part = b"".join(lines[number :: len(sources)])
            (data / "parallel" / source / path.name).write_bytes(gzip.compress(part))
    shutil.copytree(data / "eval/stsb/dev", data / "eval/STS2017-extended")
    return data, texts


def shortened(config: RunConfig, *, teacher: Path, base: Path) -> RunConfig:
    """An epoch a stage, with these models."""
    short = {"epochs": 1.0, "batch_size": 16}
    validate = {"validate_pairs": 20} if config.contrastive.validate_pairs else {}
    changes = {
        "teacher": str(teacher),
        "base": str(base),
        "languages": ["de", "es"],
        "assistant": config.assistant.model_copy(update=short),
        "bottleneck": config.bottleneck.model_copy(update=short),
        "student_stage": config.student_stage.model_copy(update=short),
        "contrastive": config.contrastive.model_copy(update=short | validate),
    }
    return config.model_copy(update=changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_papers_configurations_run_every_stage(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    paper = {cell.name: cell.config for cell in read_cells(load_spec(TABLES), TABLES)}[case.cell]
    data, texts = write_data(tmp_path / "data", list(paper.corpus.sources))
    teacher_config, teacher_tokenizer, teacher_class = case.teacher
    shape = {**SHAPE, "hidden_size": case.width}
    teacher = save_base(tmp_path / "teacher", teacher_config(**shape), teacher_tokenizer(texts), teacher_class)
    base = save_base(tmp_path / "base", case.base, case.tokenizer(texts), case.tokenizer_class)
    config, path = shortened(paper, teacher=teacher, base=base), tmp_path / "paper.yaml"
    path.write_text(yaml.safe_dump(config.model_dump()), encoding="utf-8")
    assert main(["--config", str(path), "--data", str(data), "--out", str(tmp_path / "out")]) == 0
    student = SentenceTransformer(str(tmp_path / "out/final/checkpoint"), device="cpu")
    encoder, size = student[0].auto_model, config.student
    assert (encoder.config.bottleneck_size, encoder.config.recurrences) == (size.bottleneck_size, size.recurrences)
    vocabulary, width, narrow = encoder.config.vocab_size, encoder.config.hidden_size, size.bottleneck_size
    words = vocabulary * width if narrow is None else vocabulary * narrow + narrow * width
    assert parameter_counts(encoder).words == words
    summary = json.loads((tmp_path / "out/final/checkpoint/crosslet.json").read_text())
    assert list(summary["pairs_seen"]) == config.stages
    assert student.encode(["Der Lehrer kauft ein Buch."]).shape == (1, case.width)
    if config.contrastive.validate_pairs:
        dev = [json.loads(line) for line in (tmp_path / "out/contrastive/dev.jsonl").read_text().splitlines()]
        assert [list(line["by_pair"]) for line in dev] == [["en-de", "en-es"]] * len(dev)
