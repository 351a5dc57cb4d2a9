"""The paper's configuration with a small random XLM-R and a small corpus: every stage runs."""

import gzip
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from sentence_transformers import SentenceTransformer
from transformers import RobertaConfig, RobertaTokenizerFast, XLMRobertaConfig, XLMRobertaTokenizerFast

from tests.parallel_text import write_data_folder
from tests.training.bases import SIZES, byte_level_bpe, save_base, unigram
from training.__main__ import main
from training.config import load_config
from training.corpora.readers import read_tsv_pairs
from training.model import parameter_counts

PAPER = Path(__file__).parents[2] / "training/configs/paper-xlmr-b128-ru3.yaml"
SHAPE = {**SIZES, "hidden_size": 144, "max_position_embeddings": 130}


@pytest.mark.slow
def test_the_papers_configuration_runs_every_stage(tmp_path: Path) -> None:
    data = write_data_folder(tmp_path / "data", pairs_per_language=60)
    sentences = data / "parallel/sentences"
    texts = [side for path in sorted(sentences.iterdir()) for pair in read_tsv_pairs(path) for side in pair]
    paper = load_config(PAPER)
    for number, source in enumerate(paper.corpus.sources):
        (data / "parallel" / source).mkdir()
        for path in sentences.iterdir():
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            part = b"".join(lines[number :: len(paper.corpus.sources)])
            (data / "parallel" / source / path.name).write_bytes(gzip.compress(part))
    teacher = save_base(tmp_path / "teacher", RobertaConfig(**SHAPE), byte_level_bpe(texts), RobertaTokenizerFast)
    base = save_base(
        tmp_path / "base",
        XLMRobertaConfig(**{**SHAPE, "num_hidden_layers": 12}),
        unigram(texts),
        XLMRobertaTokenizerFast,
    )
    short = {"epochs": 1.0, "batch_size": 16}
    config = replace(
        paper,
        teacher=str(teacher),
        base=str(base),
        languages=["de", "es"],
        assistant=replace(paper.assistant, **short),
        bottleneck=replace(paper.bottleneck, **short),
        student_stage=replace(paper.student_stage, **short),
        contrastive=replace(paper.contrastive, **short),
    )
    path = tmp_path / "paper.yaml"
    path.write_text(yaml.safe_dump(asdict(config)), encoding="utf-8")
    assert main(["--config", str(path), "--data", str(data), "--out", str(tmp_path / "out")]) == 0
    student = SentenceTransformer(str(tmp_path / "out/final/checkpoint"), device="cpu")
    encoder = student[0].auto_model
    assert (encoder.config.bottleneck_size, encoder.config.recurrences) == (128, 4)
    words = encoder.config.vocab_size * 128 + 128 * 144
    assert parameter_counts(encoder).words == words
    summary = json.loads((tmp_path / "out/final/checkpoint/crosslet.json").read_text())
    assert list(summary["pairs_seen"]) == ["assistant", "bottleneck", "student", "contrastive"]
    assert student.encode(["Der Lehrer kauft ein Buch."]).shape == (1, 144)
