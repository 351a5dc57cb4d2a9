"""What a new vocabulary's word embeddings begin with, by the text they are regressed on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from training.config.run import LexicalConfig, TokenizerConfig
from training.corpora.corpus import Corpus
from training.pipeline.steps import lexical_embeddings
from training.vocabulary.tokenizer import train_tokenizer, wrap_tokenizer
from training.vocabulary.tokens import TokenStore, build_token_store

ENGLISH = ["a man plays a guitar", "two dogs run", "the woman reads a book"]
GERMAN = ["ein mann spielt gitarre", "zwei hunde rennen", "die frau liest ein buch"]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """What the start reads of a run whose vocabulary is new, and its base's the same one."""
    pairs = np.arange(len(ENGLISH), dtype=np.int32)
    codes = np.zeros_like(pairs)
    corpus = Corpus([*ENGLISH, *GERMAN], len(ENGLISH), pairs, pairs + len(ENGLISH), ["de"], ["news"], codes, codes)
    tokenizer = train_tokenizer(corpus, TokenizerConfig(vocab_size=90), seed=1)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    build_token_store(corpus.texts, tokenizer, tmp_path, max_length=32, pad_id=0)
    return SimpleNamespace(
        config=SimpleNamespace(corpus=SimpleNamespace(texts=None), lexical=LexicalConfig(pairs=3)),
        corpus=corpus,
        plan=lambda *_, **__: SimpleNamespace(whole=lambda: pairs),
        tokenizer=wrap_tokenizer(tmp_path / "tokenizer.json", max_length=32),
        tokens=TokenStore.load(tmp_path),
    )


def moved(run: Any, table_VH: Tensor) -> Tensor:
    """How far each piece that a German text has, and no English one, begins from the base's own."""
    english, german = (
        {token for text in texts for token in run.tokenizer.encode(text, add_special_tokens=False)}
        for texts in (ENGLISH, GERMAN)
    )
    embeddings_VH = lexical_embeddings(run, run.tokenizer, table_VH)
    return (embeddings_VH - table_VH)[sorted(german - english)].norm(dim=1)


def test_foreign_pieces_move_towards_their_english_meaning(run: Any) -> None:
    table_VH = torch.randn(len(run.tokenizer), 8, generator=torch.Generator().manual_seed(0))
    assert moved(run, table_VH).min() > 0.01
