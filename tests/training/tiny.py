"""Small real parts that several training tests need: a random body, a token store, a corpus."""

import numpy as np
import torch
from transformers import BertConfig

from training.corpora.corpus import Corpus
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder
from training.vocabulary.tokens import TokenStore

VOCAB_SIZE, HIDDEN_SIZE = 60, 16


def tiny_encoder(
    *,
    layers: int = 2,
    recurrences: int = 1,
    bottleneck_size: int | None = None,
    hidden_size: int = HIDDEN_SIZE,
    seed: int = 0,
) -> CrossletEncoder:
    torch.manual_seed(seed)
    base = BertConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    config = CrossletConfig(base=shape_of(base), recurrences=recurrences, bottleneck_size=bottleneck_size)
    return CrossletEncoder(config).eval()


def tiny_sentence_encoder(**options: int) -> SentenceEncoder:
    return SentenceEncoder(tiny_encoder(**options), normalized=True).eval()


def corpus_of(english: list[str], other: list[str], *languages: str) -> Corpus:
    """Text i of English is pair i's source; the languages of the others take turns."""
    pair = np.arange(len(english), dtype=np.int32)
    language_code, source_code = (pair % len(languages)).astype(np.uint16), np.zeros(len(pair), dtype=np.uint16)
    ends = pair, pair + len(pair)
    return Corpus([*english, *other], len(pair), *ends, list(languages), ["news"], language_code, source_code)


def tiny_corpus(pairs: int = 40, *, seed: int = 0) -> tuple[Corpus, TokenStore]:
    """`pairs` pairs of two languages with random token ids of 3 to 9 tokens; text i of English is pair i's source."""
    generator = np.random.default_rng(seed)
    rows = [generator.integers(5, VOCAB_SIZE, size=generator.integers(3, 10)) for _ in range(2 * pairs)]
    tokens = TokenStore(
        ids=np.concatenate(rows).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        pad_id=0,
    )
    texts = [f"text {index}" for index in range(2 * pairs)]
    return corpus_of(texts[:pairs], texts[pairs:], "de", "fr"), tokens


class Rounds:
    """A plan of several rounds, each all 40 pairs in its own order."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __len__(self) -> int:
        return 40 * self.rounds

    def round(self, index: int) -> np.ndarray:
        return np.random.default_rng(index).permutation(40)
