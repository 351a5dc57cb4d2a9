from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from tests.training.models.bases import FAMILIES, save_family
from tests.training.reranking.small import TEXTS, a_ranking_set
from training.errors import ConfigError, EvaluationError
from training.evaluation.vectors import unit_rows
from training.models.cross_encoder import CrossEncoder, load_base, segment_ids
from training.reranking.checkpoint import is_cross_encoder, load_cross_encoder, save_cross_encoder
from training.reranking.pair_tokens import PairTokenizer
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, bm25

Base = tuple[CrossEncoder, PreTrainedTokenizerBase]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return load_base(str(save_family("bert", tmp_path_factory.mktemp("bert"), TEXTS)), attention="eager")


@pytest.mark.parametrize("family", FAMILIES)
def test_any_family_scores_pairs_and_comes_back_the_same(family: str, tmp_path: Path) -> None:
    base = save_family(family, tmp_path / "base", TEXTS)
    model, tokenizer = load_base(str(base), attention="eager")
    assert model.has_segments == (family != "distilbert")
    scorer = CrossEncoderScorer(model, tokenizer, max_length=32)
    expected = scorer.scores(TEXTS[:4], TEXTS[4:8])
    save_cross_encoder(model, tokenizer, tmp_path / "saved", name="x", languages=["en", "de"], max_length=32)
    assert is_cross_encoder(tmp_path / "saved")
    again, tokenizer, facts = load_cross_encoder(tmp_path / "saved")
    assert (facts.kind, facts.max_length, facts.segment_ids) == ("cross-encoder", 32, model.has_segments)
    np.testing.assert_array_equal(
        CrossEncoderScorer(again, tokenizer, max_length=32).scores(TEXTS[:4], TEXTS[4:8]), expected
    )


def test_scores_do_not_depend_on_company(bert: Base) -> None:
    model, tokenizer = bert
    scorer = CrossEncoderScorer(model, tokenizer, max_length=64)
    together = scorer.scores(TEXTS[:6], [text * (index + 1) for index, text in enumerate(TEXTS[6:12])])
    alone = [scorer.scores([TEXTS[i]], [TEXTS[6 + i] * (i + 1)])[0] for i in range(6)]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_segments_follow_the_first_separator() -> None:
    ids_BL = torch.tensor([[2, 7, 3, 8, 9, 3, 0], [2, 7, 3, 3, 8, 3, 3]])
    mask_BL = torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1] * 7])
    expected = [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]
    assert segment_ids(ids_BL, mask_BL, sep_id=3).tolist() == expected


def test_segments_are_those_of_berts_own_tokenizer(bert: Base) -> None:
    _, tokenizer = bert
    theirs = tokenizer(TEXTS[:5], TEXTS[5:10], padding=True, return_tensors="pt")
    ids_BL, mask_BL = PairTokenizer(tokenizer, max_length=64).batch(TEXTS[:5], TEXTS[5:10])
    assert torch.equal(ids_BL, theirs["input_ids"])
    assert torch.equal(segment_ids(ids_BL, mask_BL, sep_id=tokenizer.sep_token_id), theirs["token_type_ids"])


def test_only_the_passage_is_cut(bert: Base) -> None:
    _, tokenizer = bert
    pairs = PairTokenizer(tokenizer, max_length=24)
    query = TEXTS[0]
    whole = tokenizer(query, add_special_tokens=False)["input_ids"]
    ids = pairs.store([query], [" ".join(TEXTS)]).ids.tolist()
    assert len(ids) == 24
    assert ids[1 : 1 + len(whole)] == whole
    long = pairs.store([" ".join(TEXTS)], [" ".join(TEXTS)]).ids.tolist()  # a query that would leave no room
    assert len(long) == 24
    assert long.count(tokenizer.sep_token_id) == 2
    assert pairs.store([""], [""]).ids.tolist() == [2, 3, 3]


def test_a_length_without_room_is_refused(bert: Base) -> None:
    _, tokenizer = bert
    with pytest.raises(ConfigError, match="max_length is 8; a pair needs at least 16"):
        PairTokenizer(tokenizer, max_length=8)


def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reranker.json").write_text("{}")
    with pytest.raises(EvaluationError, match="is no whole cross-encoder"):
        load_cross_encoder(tmp_path)


def test_baselines_score_each_querys_own_candidates() -> None:
    found = a_ranking_set()

    def encode(texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("e") + 1] for text in texts], dtype=np.float32)

    cosines = BiEncoderScorer(encode, encode)(found)
    for query, row, scores in zip(found.queries, found.candidates, cosines, strict=True):
        expected = unit_rows(encode([found.passages[index] for index in row])) @ unit_rows(encode([query]))[0]
        np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert [len(scores) for scores in bm25(found)] == [len(row) for row in found.candidates]
