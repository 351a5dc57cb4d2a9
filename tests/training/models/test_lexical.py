"""Lexical regression: against dense linear algebra, and as the start of a new vocabulary."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from transformers import PreTrainedTokenizerFast

from tests.training.tiny import VOCAB_SIZE, corpus_of, tiny_corpus
from training.config.run import LexicalConfig, TokenizerConfig
from training.models.lexical import prior_embeddings, solve_ridge, text_bags
from training.pipeline.steps import lexical_embeddings
from training.vocabulary.tokenizer import train_tokenizer, wrap_tokenizer
from training.vocabulary.tokens import TokenStore, build_token_store

ENGLISH = ["a man plays a guitar", "two dogs run", "the woman reads a book"]
GERMAN = ["ein mann spielt gitarre", "zwei hunde rennen", "die frau liest ein buch"]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """What the start reads of a run whose vocabulary is new, and its base's the same one."""
    corpus = corpus_of(ENGLISH, GERMAN, "de")
    tokenizer = train_tokenizer(corpus, TokenizerConfig(vocab_size=90), seed=1)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    build_token_store(corpus.texts, tokenizer, tmp_path, max_length=32, pad_id=0)
    return SimpleNamespace(
        config=SimpleNamespace(corpus=SimpleNamespace(texts=None), lexical=LexicalConfig(pairs=3)),
        corpus=corpus,
        plan=lambda *_, **__: SimpleNamespace(all_rounds=lambda: np.arange(len(ENGLISH))),
        tokenizer=wrap_tokenizer(tmp_path / "tokenizer.json", max_length=32),
        tokens=TokenStore.load(tmp_path),
    )


def test_foreign_pieces_move_towards_their_english_meaning(run: Any) -> None:
    english, german = (
        {token for text in texts for token in run.tokenizer.encode(text, add_special_tokens=False)}
        for texts in (ENGLISH, GERMAN)
    )
    table_VH = torch.randn(len(run.tokenizer), 8, generator=torch.Generator().manual_seed(0))
    moved_VH = lexical_embeddings(run, run.tokenizer, table_VH) - table_VH
    assert moved_VH[sorted(german - english)].norm(dim=1).min() > 0.01


def test_a_bag_averages_the_tokens_between_the_specials() -> None:
    _, tokens = tiny_corpus(2)
    dense = text_bags(tokens, np.array([1, 3], dtype=np.int32), VOCAB_SIZE).toarray()
    for row, text in zip(torch.from_numpy(dense), (1, 3), strict=True):
        inner = tokens.ids[tokens.offsets[text] + 1 : tokens.offsets[text + 1] - 1]
        expected = torch.bincount(torch.from_numpy(inner.astype(np.int64)), minlength=VOCAB_SIZE) / len(inner)
        torch.testing.assert_close(row, expected.float())


def test_the_ridge_solution_is_that_of_the_normal_equations() -> None:
    generator = torch.Generator().manual_seed(0)
    _, tokens = tiny_corpus(60)
    bags = text_bags(tokens, np.arange(120, dtype=np.int32), VOCAB_SIZE)
    target, prior = torch.randn(120, 5, generator=generator), torch.randn(VOCAB_SIZE, 5, generator=generator)
    solved = solve_ridge(bags, target, prior, ridge=0.5, iterations=200)
    dense = torch.from_numpy(bags.toarray()).double()
    penalty = 0.5 * np.square(bags.data, dtype=np.float64).mean()
    left = dense.T @ dense + penalty * torch.eye(VOCAB_SIZE, dtype=torch.float64)
    expected = torch.linalg.solve(left, dense.T @ target.double() + penalty * prior.double())
    torch.testing.assert_close(solved.double(), expected, atol=1e-4, rtol=1e-3)


def test_a_token_that_no_sentence_holds_stays_at_its_prior() -> None:
    _, tokens = tiny_corpus(10)
    bags = text_bags(tokens, np.arange(20, dtype=np.int32), VOCAB_SIZE)
    prior = torch.randn(VOCAB_SIZE, 4)
    solved = solve_ridge(bags, torch.randn(20, 4), prior, ridge=1.0, iterations=30)
    unseen = torch.from_numpy(bags.toarray()).sum(dim=0) == 0
    assert unseen.any()
    torch.testing.assert_close(solved[unseen], prior[unseen])


def test_prior_embeddings_reuse_what_the_teacher_knows(small_tokenizer) -> None:
    table = torch.arange(len(small_tokenizer) * 2, dtype=torch.float32).reshape(-1, 2)
    ids = small_tokenizer.get_vocab()
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "▁guitar": 5, "▁": 6}
    prior = prior_embeddings(vocabulary, small_tokenizer, table)
    assert prior[2].tolist() == table[ids["[CLS]"]].tolist()
    parts = small_tokenizer.encode("guitar", add_special_tokens=False)
    torch.testing.assert_close(prior[5], table[parts].mean(dim=0))
    torch.testing.assert_close(prior[6], table.mean(dim=0))  # a bare mark says nothing


def test_inner_piece_is_a_continuation_unless_han() -> None:
    pieces = {"[UNK]": 0, "中": 1, "##中": 2, "s": 3, "##s": 4, ".": 5, "##.": 6}
    wordpiece = Tokenizer(WordPiece(pieces, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = BertPreTokenizer()
    teacher = PreTrainedTokenizerFast(tokenizer_object=wordpiece, unk_token="[UNK]")
    table = torch.eye(len(pieces))
    prior = prior_embeddings({"中": 0, "s": 1, "▁s": 2, "▁.": 3}, teacher, table)
    assert prior.argmax(dim=1).tolist() == [1, 4, 3, 5]


def test_word_is_read_with_the_space_before_it() -> None:
    pieces = {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġa": 5, "Ġab": 6, "ł": 7, "Å": 8, "Ĥ": 9, "ÅĤ": 10}
    bpe = Tokenizer(BPE(pieces, [("Ġ", "a"), ("a", "b"), ("Ġa", "b"), ("Å", "Ĥ")], unk_token="<unk>"))
    bpe.pre_tokenizer = ByteLevel(add_prefix_space=False)
    teacher = PreTrainedTokenizerFast(tokenizer_object=bpe, unk_token="<unk>")
    prior = prior_embeddings({"▁ab": 0, "ab": 1, "▁a": 2, "ł": 3}, teacher, torch.eye(len(pieces)))
    assert prior.argmax(dim=1).tolist() == [6, 3, 5, 10]  # the piece `ł` is a byte of other letters
