from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from export.align import main
from tests.artifacts import build_artifact
from tests.export.checkpoints import MINILM
from tests.skeleton.project import ROOT
from tests.training.alignment.files import PAIRS, write_pairs
from training.alignment.study import StudyRow, TableName, layer_vectors, paragraphs, read_spec, verdict
from training.errors import ConfigError

MANY = 10**9  # sentences: no chance in them
SPEC = """
title: A study
model: {model}
pairs: {{train: en-de.tsv, test: test.tsv, languages: [en, de]}}
tables: [head, settings, structures, distances, negatives, closed form, sizes, documents, others]
seeds: [0, 1]
epochs: 1
sizes: [50, 100, 5000]
others:
  en-fr: {{train: en-de.tsv, test: test.tsv, languages: [en, de]}}
"""


def test_every_table_stands_beside_the_papers_rows(tmp_path: Path) -> None:
    build_artifact(tmp_path / "tiny")
    write_pairs(tmp_path / "en-de.tsv", PAIRS[:150])
    write_pairs(tmp_path / "test.tsv", PAIRS[150:])
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(model=tmp_path / "tiny"), encoding="utf-8")
    assert main(["--study", str(spec), "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    for row, paper in (("siamese head", "78.5"), ("two-tanh", "52.9"), ("manhattan", "59.9"), ("average", "57.3")):
        assert rows[row].endswith(f"| {paper} |  |"), row
    assert "| 63.1 | 81.7 |" in "".join(lines)
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {"before.svg", "after.svg"}
    assert {"50", "100", "the paper's, random start", "whitening, both sides, best on dev"} <= set(rows)
    assert "5000" not in rows
    assert sum(line.startswith("The paper: ") for line in lines) == 7


def test_layers_are_means_over_real_tokens() -> None:
    texts = ["A man is playing a guitar.", "Snow.", "The library opens at nine o'clock in the morning."]
    found = layer_vectors(str(MINILM), texts)
    assert list(found) == ["1", "2", "3", "4", "5", "6", "all", "cls"]
    last = found["6"] / np.linalg.norm(found["6"], axis=1, keepdims=True)
    expected = SentenceTransformer(str(MINILM), device="cpu").encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(last, expected, atol=1e-5)
    np.testing.assert_allclose(found["all"], np.mean([found[str(n)] for n in range(1, 7)], axis=0), atol=1e-5)


def test_paragraphs_have_thirty_to_fifty_words() -> None:
    pairs = [(f"我们第{number}天", " ".join(["từ"] * 12)) for number in range(7)] + [("长", "dài " * 60)]
    found = paragraphs(pairs)
    assert [len(right.split()) for _, right in found] == [36, 36]
    assert found[0][0] == "我们第0天 我们第1天 我们第2天"


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([StudyRow("linear", 60, 80, MANY), StudyRow("tanh", 50, 70, MANY)], "It holds here."),
        (
            [StudyRow("linear", 60, 80, MANY, 1), StudyRow("tanh", 61, 70, MANY, 0.5)],
            "tanh is ahead by no more than chance.",
        ),
        (
            [StudyRow("linear", 60, 80, MANY, 1), StudyRow("tanh", 59, 70, MANY, 1)],
            "It holds here, by no more than chance beside tanh.",
        ),
        # 100 sentences: each share has a standard error of 4.9 points
        ([StudyRow("linear", 60, 80, 100), StudyRow("tanh", 65, 70, 100)], "ahead by no more than chance."),
        (
            [StudyRow("linear", 60, 80, MANY), StudyRow("tanh", 65, 70, MANY)],
            "It does not hold here: tanh is 5.0 points better.",
        ),
        ([StudyRow("tanh", 65, 70, MANY)], "there is no row linear."),
    ],
)
def test_a_finding_holds_where_its_row_is_best(rows: list[StudyRow], sentence: str) -> None:
    assert verdict("structures", rows).endswith(sentence)


def test_shipped_study_has_every_table_an_artifact_can() -> None:
    spec = read_spec(ROOT / "training" / "configs" / "alignment-tables.yaml")
    layers = read_spec(ROOT / "training" / "configs" / "alignment-layers.yaml")
    assert set(get_args(TableName)) - {*spec.tables, *layers.tables} == {"others"}
    assert len(spec.sizes) == 7


def test_a_wrong_specification_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    text = SPEC.format(model="m")
    for changed, sentence in (
        (text + "epoch: 3\n", "unknown key 'epoch'"),
        (text.replace("[en, de]", "[en]", 1), r"languages are \['en'\]; a pair has two"),
        (text.replace("[0, 1]", "[]"), "at least one of tables and of seeds"),
    ):
        path.write_text(changed, encoding="utf-8")
        with pytest.raises(ConfigError, match=sentence):
            read_spec(path)
