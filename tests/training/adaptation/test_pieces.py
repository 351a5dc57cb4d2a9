"""`--new-pieces`: rows of the word table, the bundled vocabulary, and a model from command to service."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, XLMRobertaTokenizerFast

from export.__main__ import main as export
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.tokenizer import Tokenizer as ServiceTokenizer
from tests.export.checkpoints import write_record
from tests.skeleton.project import ROOT
from tests.training.alignment.files import PAIRS, write_pairs
from tests.training.tiny import tiny_encoder, tiny_sentence_encoder
from tests.vocabularies import unigram
from training.adaptation.__main__ import main
from training.adaptation.lesson import kept_texts
from training.adaptation.pieces import RIDGE, add_rows, fit_rows
from training.adaptation.trainer import copy_state, keep_rows, mover
from training.alignment.probe import read_probe
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder, save_sentence_encoder
from training.vocabulary.extension import extended, new_pieces

GREEK = str.maketrans("abdefghiklmnoprstuvwz", "αβδεφγηικλμνοπρστυωχζ")
IN_GREEK = [(english, german.lower().translate(GREEK)) for english, german in PAIRS]


@pytest.mark.parametrize("bottleneck_size", [None, 8])
def test_a_new_row_is_the_mean_of_the_rows_that_it_replaces(bottleneck_size: int | None) -> None:
    encoder = tiny_encoder(bottleneck_size=bottleneck_size)
    words = encoder.get_input_embeddings()
    table = words.table if bottleneck_size else words
    before = table.weight.detach().clone()
    add_rows(encoder, [[7, 9], [], [5]])
    assert table.weight[:60].equal(before)
    torch.testing.assert_close(table.weight[60:], torch.stack([before[[7, 9]].mean(0), before.mean(0), before[5]]))
    assert encoder.config.vocab_size == table.num_embeddings == 63
    assert encoder(torch.tensor([[62, 60]]), torch.ones(1, 2)).last_hidden_state.shape == (1, 2, 16)


@pytest.mark.parametrize("bottleneck_size", [None, 8])
def test_new_rows_are_as_trained_at_any_strength_and_all_else_goes_part_of_the_way(bottleneck_size: int | None) -> None:
    model = tiny_sentence_encoder(**({"bottleneck_size": bottleneck_size} if bottleneck_size else {}))
    before = copy_state(model)
    after = {name: tensor + 1 for name, tensor in before.items()}
    words = next(name for name in before if re.search(r"word_embeddings\.(table\.)?weight$", name))
    start = before[words].clone()
    keep_rows(before, after, 5)
    mover(model, before, after)(0.25)
    moved = model.state_dict()
    torch.testing.assert_close(moved[words], torch.cat([start[:-5] + 0.25, start[-5:] + 1]))
    rest = before.keys() - {words}
    torch.testing.assert_close({name: moved[name] for name in rest}, {name: before[name] + 0.25 for name in rest})


def test_new_rows_are_fitted_to_the_translations() -> None:
    """Against a dense ridge regression by numpy, as if the last pieces of a vocabulary were new."""
    pairs, added = PAIRS[:60], 5
    fast = XLMRobertaTokenizerFast(tokenizer_object=unigram(german for _, german in pairs))
    size = len(fast)
    generator = np.random.default_rng(0)
    table_VW = generator.standard_normal((size, 8)).astype(np.float32)

    def bags(side: int) -> np.ndarray:
        rows = fast([pair[side] for pair in pairs], add_special_tokens=False)["input_ids"]
        return np.stack([np.bincount(row, minlength=size) / len(row) for row in rows])

    own_NV, other_NV = bags(1), bags(0)
    new_NP, prior_PW = own_NV[:, -added:], table_VW[-added:]
    penalty = RIDGE * np.mean(new_NP[new_NP > 0] ** 2)
    rest_NW = other_NV @ table_VW - own_NV @ table_VW
    step_PW = np.linalg.solve(new_NP.T @ new_NP + penalty * np.eye(added), new_NP.T @ rest_NW)
    fitted_VW = torch.from_numpy(table_VW.copy())
    fit_rows(fitted_VW, fast, pairs, 1, added)
    np.testing.assert_allclose(fitted_VW[-added:], prior_PW + step_PW, atol=1e-3)
    assert fitted_VW[:-added].equal(torch.from_numpy(table_VW[:-added]))
    assert np.abs(step_PW).max() > 0.1


@pytest.mark.parametrize("letters", [GREEK, str.maketrans("aeiou", "äêîöű")], ids=["greek", "latin"])
def test_the_probe_is_cut_as_before_by_the_bundled_vocabulary_with_new_pieces(letters: dict[int, int]) -> None:
    bundled = Tokenizer.from_file(str(ROOT / "models/default/tokenizer.json"))
    texts = [german.lower().translate(letters) for _, german in PAIRS]
    kept = [*kept_texts(None), *(text for column in read_probe().values() for text in column)]
    pieces = new_pieces(bundled, texts, 300, others=kept, languages=18)
    after = extended(bundled, pieces)
    own = [sum(len(row.ids) for row in one.encode_batch(texts)) for one in (bundled, after)]
    assert own[1] < 0.6 * own[0]
    assert [row.ids for row in after.encode_batch(kept)] == [row.ids for row in bundled.encode_batch(kept)]


@pytest.fixture(scope="module")
def unigram_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    assert export(["--checkpoint", str(folder / "checkpoint"), "--out", str(out), "--word-bits", "4"]) == 0
    return out


def test_new_pieces_are_trained_exported_and_served(
    unigram_artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, test = write_pairs(tmp_path / "en-el.tsv", IN_GREEK[:200]), write_pairs(tmp_path / "t.tsv", IN_GREEK[200:])
    options = [str(unigram_artifact), "--pairs", str(pairs), "--test", str(test), "--epochs", "2", "--force"]
    assert main([*options, "--out", str(tmp_path / "none")]) == 2
    assert re.search(r"\d\d % of the pieces of column 2 \(el\);.* --new-pieces 1000 adds", capsys.readouterr().err)
    out = tmp_path / "out"
    assert main([*options, "--out", str(out), "--learning-rate", "0.003", "--new-pieces", "150"]) == 0
    before, after = load_manifest(unigram_artifact), load_manifest(out / "model")
    facts = after.evaluation["adaptation"]
    assert 20 < facts["new_pieces"] <= 150
    assert after.parameters == before.parameters + 32 * facts["new_pieces"]
    assert (after.precision, after.fingerprint) != (before.precision, before.fingerprint)
    assert facts["scores"]["after"]["p1"] > facts["scores"]["before"]["p1"] + 5
    cut = [ServiceTokenizer(one / "tokenizer.json", max_length=32) for one in (unigram_artifact, out / "model")]
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
