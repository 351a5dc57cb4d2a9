"""`--new-pieces`: rows of the word table, the bundled vocabulary, and a model from command to service."""

import re
from copy import deepcopy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import XLMRobertaTokenizerFast

from tests.skeleton.project import ROOT
from tests.training.alignment.files import GREEK, PAIRS
from tests.training.tiny import tiny_encoder, tiny_sentence_encoder
from tests.vocabularies import unigram
from training.adaptation.lesson import kept_texts
from training.adaptation.pieces import RIDGE, add_rows, fit_rows, with_new_pieces
from training.adaptation.start import Start
from training.adaptation.trainer import keep_rows, move_weights
from training.alignment.scores import read_probe
from training.models.encoder import word_table
from training.vocabulary.extension import extended, new_pieces


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
def test_new_rows_stay_as_trained_at_any_strength(bottleneck_size: int | None) -> None:
    model = tiny_sentence_encoder(**({"bottleneck_size": bottleneck_size} if bottleneck_size else {}))
    before = deepcopy(model.state_dict())
    after = {name: tensor + 1 for name, tensor in before.items()}
    words = next(name for name in before if re.search(r"word_embeddings\.(table\.)?weight$", name))
    start = before[words].clone()
    keep_rows(before, after, 5)
    move_weights(model, before, after, 0.25)
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
def test_new_pieces_leave_the_cut_of_kept_texts_as_it_was(letters: dict[int, int]) -> None:
    bundled = Tokenizer.from_file(str(ROOT / "models/default/tokenizer.json"))
    texts = [german.lower().translate(letters) for _, german in PAIRS]
    kept = kept_texts(None)
    pieces = new_pieces(bundled, texts, 300, others=kept, languages=18)
    after = extended(bundled, pieces)
    own = [sum(len(row.ids) for row in one.encode_batch(texts)) for one in (bundled, after)]
    assert own[1] < 0.6 * own[0]
    assert [row.ids for row in after.encode_batch(kept)] == [row.ids for row in bundled.encode_batch(kept)]


def test_the_probe_can_be_cut_by_new_pieces() -> None:
    """Otherwise it could not show that they harm a language."""
    bundled = Tokenizer.from_file(str(ROOT / "models/default/tokenizer.json"))
    start = Start(tiny_sentence_encoder(), XLMRobertaTokenizerFast(tokenizer_object=bundled), {"languages": ["en"]})
    word_table(start.model.encoder).weight = torch.nn.Parameter(torch.ones(bundled.get_vocab_size(), 16))
    german = 3 * read_probe()["de"]
    _, added = with_new_pieces(start, [("Good day", text) for text in german], [1], 50)
    assert added > 25
