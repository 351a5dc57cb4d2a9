"""Chooses the texts of the loads, by length in tokens, from folders of parallel text."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving.sentences import SENTENCES
from training.corpora.readers import find_pair_file, read_pair_file

LANGUAGES = ("en", "de", "es", "fr", "it", "pt", "tr")  # Latin script: the peers' model has tokens for no other
SHORT_TOKENS = (6, 40)  # one sentence
MIXED_TOKENS = (5, 120)  # sentences are joined up to each of these lengths in turn
TEXTS = 512  # more than clients, so that no two texts in flight are equal
SENTENCES_READ = 1500  # a language
SEED = 0

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class Sample:
    """Distinct texts and their source."""

    texts: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Texts:
    """short: for requests of one text.  mixed: for batches."""

    short: Sample
    mixed: Sample


def choose_texts(data: Path | None, count_tokens: CountTokens) -> Texts:
    """Choose texts from the parallel text under `data`; None: from the bundled sentences."""
    by_language = read_sentences(data) if data else {code: list(given) for code, given in SENTENCES.items()}
    source = "parallel text of `make bench`" if data else "the sentences of benchmarks/serving/sentences.py"
    draw = random.Random(SEED)
    short = _interleaved([_single(given, draw, count_tokens) for given in by_language.values()])
    mixed = _joined(by_language, count_tokens)
    return Texts(Sample(tuple(short[:TEXTS]), source), Sample(tuple(mixed), source))


def read_sentences(data: Path) -> dict[str, list[str]]:
    """Sentences of each language from every source that has it; English comes from pairs with the first language.

    Raises: ValueError: none of the languages has parallel text.
    """
    folder = data / "parallel"
    sources = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    pairs = {code: _read_language(folder, sources, code) for code in LANGUAGES if code != "en"}
    first = next((found for found in pairs.values() if found), None)
    if first is None:
        raise ValueError(
            f"{folder} has no pairs of English and one of {', '.join(LANGUAGES[1:])}; see docs/guide/corpora.md"
        )
    english = {"en": [side for side, _ in first]}
    return english | {code: [side for _, side in found] for code, found in pairs.items() if found}


def _read_language(folder: Path, sources: Sequence[str], code: str) -> list[tuple[str, str]]:
    """Equally many pairs from each source, so that no source dominates."""
    paths = [path for source in sources if (path := find_pair_file(folder, source, code))]
    share = -(-SENTENCES_READ // len(paths)) if paths else 0
    return [pair for path in paths for pair in itertools.islice(_usable(path, code), share)]


def _usable(path: Path, code: str) -> Iterator[tuple[str, str]]:
    pairs = read_pair_file(path, code, on_bad_line="skip")
    return ((english.strip(), other.strip()) for english, other in pairs if english.strip() and other.strip())


def _single(sentences: Sequence[str], draw: random.Random, count_tokens: CountTokens) -> list[str]:
    shortest, longest = SHORT_TOKENS
    fitting = [one for one in dict.fromkeys(sentences) if shortest <= count_tokens(one) <= longest]
    draw.shuffle(fitting)
    return fitting


def _interleaved(by_language: Sequence[list[str]]) -> list[str]:
    rows = itertools.zip_longest(*by_language)
    return list(dict.fromkeys(text for row in rows for text in row if text is not None))


def _joined(by_language: dict[str, list[str]], count_tokens: CountTokens) -> list[str]:
    """Texts of up to each length of `MIXED_TOKENS` in turn, in alternating languages; shuffled."""
    draw = random.Random(SEED)
    shortest, longest = MIXED_TOKENS
    languages = itertools.cycle(by_language.values())
    texts: dict[str, None] = {}
    for attempt in range(TEXTS * 50):
        if len(texts) == TEXTS:
            break
        wanted = shortest + (len(texts) * 37 + attempt // TEXTS) % (longest - shortest + 1)
        text = _up_to(wanted, next(languages), draw, count_tokens)
        if shortest <= count_tokens(text) <= longest:
            texts[text] = None
    ordered = list(texts)
    draw.shuffle(ordered)
    return ordered


def _up_to(wanted: int, sentences: Sequence[str], draw: random.Random, count_tokens: CountTokens) -> str:
    """Join consecutive sentences from a random position, up to `wanted` tokens; at least one."""
    start = draw.randrange(len(sentences))
    text = sentences[start]
    for following in sentences[start + 1 :]:
        longer = f"{text} {following}"
        if count_tokens(longer) > wanted:
            break
        text = longer
    return text
