"""A word loss for the tiny corpus: a small random teacher, and links at random."""

import tempfile
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import models
from transformers import BertConfig, BertTokenizerFast

from tests.training.bases import BERT_SPECIALS, save_base, wordpiece
from tests.training.tiny import HIDDEN_SIZE
from training.corpora.corpus import Corpus
from training.stages.words import WordTeacher
from training.tokens import TokenStore
from training.word_links import WordLinks


def tiny_teacher(texts: list[str]) -> SentenceTransformer:
    """Mean pooling over a random body as wide as the tiny student; each word of these texts is a token."""
    words = sorted({word for text in texts for word in text.split()})  # a trainer might number them anew each time
    tokenizer = wordpiece([])
    tokenizer.model = models.WordPiece({word: i for i, word in enumerate([*BERT_SPECIALS, *words])}, unk_token="[UNK]")
    config = BertConfig(hidden_size=HIDDEN_SIZE, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    with tempfile.TemporaryDirectory() as folder:
        return SentenceTransformer(str(save_base(Path(folder), config, tokenizer, BertTokenizerFast)), device="cpu")


def tiny_word_teacher(corpus: Corpus, tokens: TokenStore, *, weight: float = 1.0) -> WordTeacher:
    """Up to three links a pair: words of one or two tokens; "text 7" has tokens 1 and 2 of the teacher's."""
    generator = np.random.default_rng(4)
    counts = generator.integers(0, 4, size=len(corpus))
    other = np.repeat(corpus.other, counts)
    first = generator.integers(0, tokens.lengths_of(other) - 1)
    english = generator.integers(1, 3, size=len(other))
    links = np.stack([first, first + generator.integers(1, 3, size=len(other)), english, english + 1], axis=1)
    stored = WordLinks(links.astype(np.uint16), np.cumsum(counts) - counts, counts.astype(np.uint16))
    return WordTeacher(tiny_teacher(list(corpus.texts)), corpus, stored, max_length=16, weight=weight)
