"""What words alone find: BM25 over words, or over character bigrams where a script has no spaces.

Shapes: Q queries, N documents, T terms.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

K1, B = 1.2, 0.75  # BM25's, as Lucene has them
UNSPACED = r"\u3040-\u30ff\u4e00-\u9fff"  # kana and Han: words run together
RUN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")


def bm25_scores(queries: list[str], documents: list[str]) -> NDArray[np.float32]:
    """Okapi BM25 (Robertson & Zaragoza 2009) over lower-case words: (Q, N)."""
    counter = CountVectorizer(analyzer=_words)
    count_NT = counter.fit_transform(documents).astype(np.float64)
    documents_T = np.bincount(count_NT.indices, minlength=count_NT.shape[1])
    idf_T = np.log1p((len(documents) - documents_T + 0.5) / (documents_T + 0.5))
    length_N = np.asarray(count_NT.sum(axis=1)).ravel()
    norm_N = K1 * (1 - B + B * length_N / length_N.mean())
    rows = np.repeat(np.arange(len(documents)), np.diff(count_NT.indptr))
    count_NT.data = count_NT.data * (K1 + 1) / (count_NT.data + norm_N[rows]) * idf_T[count_NT.indices]
    found: NDArray[np.float32] = (counter.transform(queries) @ count_NT.T).toarray().astype(np.float32)
    return found


def _words(text: str) -> list[str]:
    """Split into words; scripts without spaces into character bigrams, like Lucene's CJK analyser."""
    words: list[str] = []
    for run in RUN.findall(text.lower()):
        is_unspaced = re.match(f"[{UNSPACED}]", run) and len(run) > 1
        words += [run[start : start + 2] for start in range(len(run) - 1)] if is_unspaced else [run]
    return words
