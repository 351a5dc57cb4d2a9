"""Questions with most of their words in another language, by a dictionary, where nobody has translated them.

After Litschko et al. 2023, "Boosting Zero-shot Cross-lingual Retrieval by Training on Artificially Code-Switched Data".
Pure: one seed, one result.

Differs: only the question is switched, into one language, and some of its negatives are replaced by passages in that
language. Otherwise the passages of a question are all in one language, and nothing says that the right one may be in
another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from training.reranking.lexicon import UNSPACED, WORD, Lexicon, pieces_of
from training.reranking.mixing import TextPair

MIN_KNOWN = 0.5  # of a question's words; with fewer it stays as it is


def switched(
    text: str, source: str, target: str, lexicon: Lexicon, *, words: float, generator: np.random.Generator
) -> str:
    """The text with a share `words` of its words in the target language, each by chance; other words stay.

    A text of which less than half is known comes back as it is.
    """
    known = total = changed = 0
    parts: list[str] = []
    end = 0
    for run in WORD.finditer(text):
        parts.append(text[end : run.start()])
        end = run.end()
        needs_spaces = UNSPACED.match(run[0])
        for piece in pieces_of(run[0], lexicon.split):
            translation = lexicon.translation(piece, source, target)
            total += 1
            known += translation is not None
            if translation is None or generator.random() >= words:
                parts.append(piece)
            else:
                changed += 1
                parts.append(f" {translation} " if needs_spaces else translation)
    if not changed or known < MIN_KNOWN * total:
        return text
    return " ".join("".join([*parts, text[end:]]).split())


def code_switch(
    pairs: Sequence[TextPair],
    languages: Sequence[str],
    lexicon: Lexicon,
    *,
    share: float,
    words: float,
    foreign: float,
    seed: int,
) -> list[TextPair]:
    """As many pairs; a `share` of the questions is in another language, drawn by chance, before all its passages.

    Args:
        words: of a switched question, the share that is translated where it can be.
        foreign: of its negatives, the share that becomes passages in the question's new language.
    """
    generator = np.random.default_rng((seed, 9))
    passages: dict[str, list[str]] = defaultdict(list)
    answers: dict[int | None, set[str]] = defaultdict(set)  # of a question, in all languages
    for pair in pairs:
        passages[pair.languages[1]].append(pair.passage)
        if pair.label:
            answers[pair.question].add(pair.passage)
    found: list[TextPair] = []
    new: dict[tuple[str, str], tuple[str, str] | None] = {}
    for pair in pairs:
        key = (pair.query, pair.languages[0])
        if key not in new:
            new[key] = _drawn(pair, languages, lexicon, share, words, generator)
        changed = new[key]
        if changed is not None:
            query, language = changed
            pair = replace(pair, query=query, languages=(language, pair.languages[1]))
            others = passages[language]
            if not pair.label and others and generator.random() < foreign:
                passage = others[int(generator.integers(len(others)))]
                if passage not in answers[pair.question]:
                    pair = replace(pair, passage=passage, languages=(language, language))
        found.append(pair)
    return found


def _drawn(
    pair: TextPair,
    languages: Sequence[str],
    lexicon: Lexicon,
    share: float,
    words: float,
    generator: np.random.Generator,
) -> tuple[str, str] | None:
    """The question in another language, and which; None: it stays."""
    source = pair.languages[0]
    others = [language for language in languages if language != source]
    if generator.random() >= share or not others:
        return None
    target = others[int(generator.integers(len(others)))]
    query = switched(pair.query, source, target, lexicon, words=words, generator=generator)
    return None if query == pair.query else (query, target)
