"""`crosslet adapt`: from a model and a file of pairs to a better model of the same kind."""

import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, XLMRobertaTokenizerFast

from export.__main__ import main as export
from export.adapt import main, unfinished_folder
from export.evaluation.models import load_model
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.tokenizer import Tokenizer as ServiceTokenizer
from tests.artifacts import build_artifact
from tests.export.checkpoints import PARITY_TEXTS, save_student, write_record
from tests.training.alignment.files import IN_GREEK, PAIRS, write_pairs
from tests.vocabularies import unigram
from training.adaptation.trainer import Settings
from training.alignment.pairs import read_pairs, split_file
from training.evaluation.bitext import score_bitext
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.optimisation import loop

QUICK = ["--epochs", "3", "--learning-rate", "0.01", "--force"]
TEST = PAIRS[200:]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random student with its record; read-only for tests."""
    folder = tmp_path_factory.mktemp("student")
    texts = [text for texts in PARITY_TEXTS.values() for text in texts]
    save_student(folder, layers=2, width=32, record={"calibration_texts": texts})
    return folder


@pytest.fixture(scope="module")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in int8, words in 4 bits; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / "student"
    assert export(["--checkpoint", str(checkpoint), "--out", str(out), "--word-bits", "4"]) == 0
    return out


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "en-de.tsv", PAIRS[:200])


def served(folder: Path) -> dict[str, float]:
    model = load_model(str(folder))
    return score_bitext(*(model.encode(list(side)) for side in zip(*TEST, strict=True)))


def test_artifact_finds_more_translations_in_the_same_form(
    artifact: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, test = tmp_path / "out", write_pairs(tmp_path / "test.tsv", TEST)
    assert main([str(artifact), "--pairs", str(pairs), "--test", str(test), "--out", str(out), *QUICK]) == 0
    before, after = load_manifest(artifact), load_manifest(out / "model")
    facts = after.evaluation["adaptation"]
    assert facts["scores"] == {"before": served(artifact), "after": served(out / "model")}
    assert facts["scores"]["after"]["p1"] > facts["scores"]["before"]["p1"] + 10
    assert facts["before"] == before.fingerprint != after.fingerprint
    assert (facts["languages"], facts["pairs"], facts["test_pairs"]) == ("en-de", 180, 100)
    assert (after.precision, after.activations, after.parameters) == ("int8", "static", before.parameters)
    sizes = [manifest.files["model.onnx"].size_bytes for manifest in (before, after)]
    assert abs(sizes[1] - sizes[0]) < 0.1 * sizes[0]
    assert after.data_licences[-1].pairs == 180
    assert load_encoder(out / "model").encode_all(["Der Arzt kauft das Brot."])
    report = (out / "report.md").read_text(encoding="utf-8")
    for part in ("## Translations found", "| before |", "## Strengths that were tried", "pieces a word", "## Every"):
        assert part in report
    assert {path.name for path in out.iterdir()} == {"model", "report.md", "figures"}
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert "Trained further for en-de on 180 pairs" in card
    shown = capsys.readouterr()
    assert "en-de, 100 test pairs: P@1 " in shown.out
    bars = [line.partition(":")[0] for line in re.split(r"[\r\n]+", shown.err) if "| 0/" in line]
    assert list(dict.fromkeys(bars)) == ["scores before", "what must stay", "labels", "adapt", "scores after"]


def test_a_stopped_training_goes_on_to_the_same_model(
    checkpoint: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    options = [str(checkpoint), "--pairs", str(pairs), *QUICK]
    assert main([*options, "--out", str(whole)]) == 0
    monkeypatch.setattr("training.adaptation.trainer.SAVED_EVERY", 0.0)
    steps, accumulate = 0, loop._accumulate

    def interrupted(*arguments: Any, **others: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return accumulate(*arguments, **others)

    monkeypatch.setattr(loop, "_accumulate", interrupted)
    assert main([*options, "--out", str(out)]) == 130
    assert "stopped; the same command goes on" in capsys.readouterr().err
    assert [path.name[:10] for path in out.iterdir()] == [".training."]
    assert main([*options, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"model", "report.md", "figures"}
    left, right = (load_sentence_encoder(folder / "model").state_dict() for folder in (whole, out))
    assert all(tensor.equal(right[name]) for name, tensor in left.items())


def test_pairs_said_to_be_of_other_languages_start_anew(pairs: Path, tmp_path: Path) -> None:
    folders = []
    for languages in (("en", "de"), ("en", "gsw"), ("en", "de")):
        known = read_pairs(pairs, languages=languages)
        options = Namespace(out=tmp_path, new_pieces=0)
        folders.append(unfinished_folder(options, known, split_file(known, None, seed=0), Settings(), "a revision"))
    assert folders[0] == folders[2] != folders[1]  # the languages say which side is the label


def test_checkpoint_stays_one_and_frozen_parts_stay(checkpoint: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main([str(checkpoint), "--pairs", str(pairs), "--out", str(out), "--unfreeze", "words", *QUICK]) == 0
    before, after = (load_sentence_encoder(folder).state_dict() for folder in (checkpoint, out / "model"))
    changed = {name for name, tensor in before.items() if not tensor.equal(after[name])}
    assert changed == {"encoder.body.embeddings.word_embeddings.table.weight"}
    record = json.loads((out / "model" / "crosslet.json").read_text(encoding="utf-8"))
    assert set(record["evaluation"]) == {"adaptation"}
    assert record["name"] == "tiny-student-en-de"


def test_model_without_gain_is_refused_and_leaves_its_report(
    checkpoint: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [str(checkpoint), "--pairs", str(pairs), "--out", str(tmp_path / "out"), "--epochs", "1"]
    assert main([*options, "--learning-rate", "1e-12"]) == 1
    assert "refused: nothing gained on dev" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.md", "figures"}


def test_refusal_is_one_sentence_and_writes_nothing(
    checkpoint: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_artifact(tmp_path / "tiny")
    given, ours = ["--pairs", str(pairs)], str(checkpoint)
    for options, sentence in (
        ([str(tmp_path / "none"), *given], "there is no folder"),
        ([str(tmp_path / "tiny"), *given], "restore supports only mean-pooled bi-encoders"),
        ([ours, *given, "--data", str(tmp_path)], "has no stsb/dev and no eval/stsb/dev"),
        ([ours, *given, "--learning-rate", "1e30"], "training diverged at rate 1e+30; lower --learning-rate"),
    ):
        assert main([*options, "--out", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("error: ")
        assert sentence in error
        assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def english_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random student with a Unigram vocabulary of the English sides alone, in int8, words in 4 bits."""
    folder = tmp_path_factory.mktemp("unigram")
    backend = unigram(english for english, _ in PAIRS)
    tokenizer = XLMRobertaTokenizerFast(tokenizer_object=backend)
    torch.manual_seed(0)
    base = BertConfig(
        vocab_size=len(tokenizer), pad_token_id=1, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=512, max_position_embeddings=64,
    )  # fmt: skip
    encoder = CrossletEncoder(CrossletConfig(base=shape_of(base), bottleneck_size=32))
    torch.nn.init.normal_(encoder.get_input_embeddings().table.weight)
    save_sentence_encoder(SentenceEncoder(encoder, normalized=True), tokenizer, folder / "checkpoint", max_length=32)
    texts = [english for english, _ in PAIRS[:50]]
    write_record(folder / "checkpoint", languages=["en"], calibration_texts=texts, parity_texts={"en": texts[:3]})
    out = folder / "artifact"
    options = ["--checkpoint", str(folder / "checkpoint"), "--out", str(out), "--word-bits", "4", "--fold-text"]
    assert export(options) == 0
    return out


def test_new_pieces_are_trained_exported_and_served(
    english_artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, test = write_pairs(tmp_path / "en-el.tsv", IN_GREEK[:200]), write_pairs(tmp_path / "t.tsv", IN_GREEK[200:])
    options = [str(english_artifact), "--pairs", str(pairs), "--test", str(test), "--epochs", "2", "--force"]
    assert main([*options, "--out", str(tmp_path / "none")]) == 2
    assert re.search(r"\d\d % of the pieces of column 2 \(el\);.* --new-pieces 1000 adds", capsys.readouterr().err)
    out = tmp_path / "out"
    assert main([*options, "--out", str(out), "--learning-rate", "0.003", "--new-pieces", "150"]) == 0
    before, after = load_manifest(english_artifact), load_manifest(out / "model")
    facts = after.evaluation["adaptation"]
    assert 20 < facts["new_pieces"] <= 150
    assert after.parameters == before.parameters + 32 * facts["new_pieces"]
    assert (after.precision, after.fingerprint) != (before.precision, before.fingerprint)
    assert after.folds_text
    assert facts["scores"]["after"]["p1"] > facts["scores"]["before"]["p1"] + 5
    cut = [ServiceTokenizer(one / "tokenizer.json", max_length=32) for one in (english_artifact, out / "model")]
    assert cut[1].highest_id == cut[0].highest_id + facts["new_pieces"]
    for english, greek in IN_GREEK[200:]:
        assert cut[1].tokenise(english) == cut[0].tokenise(english)
        assert 3 not in cut[1].tokenise(greek).input_ids
    assert load_encoder(out / "model").encode_all([IN_GREEK[0][1]])
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "| el, new pieces |" in report
    assert f"The vocabulary has {facts['new_pieces']} new pieces." in report
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert f"{facts['new_pieces']} new pieces" in card


def test_new_pieces_that_cannot_be_added_are_one_sentence(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, pairs, sentence in (
        (
            "en-el.tsv",
            IN_GREEK,
            "the model's vocabulary is WordPiece; pieces can be added to Unigram alone; leave --new",
        ),
        ("en-de.tsv", PAIRS, "--new-pieces is for languages that the model was not taught; it was taught both"),
    ):
        options = [str(checkpoint), "--pairs", str(write_pairs(tmp_path / name, pairs)), "--out", str(tmp_path)]
        assert main([*options, "--new-pieces", "9"]) == 2
        assert sentence in capsys.readouterr().err
