"""What words alone find: BM25 over words, cosines of character n-grams, and the service's keywords. Knows no model.

Shapes: Q queries, N documents, T terms.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from service.documents.store.store import Document, DocumentStore
from service.errors import CrossletError
from training.errors import EvaluationError

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


def service_scores(queries: list[str], documents: list[str]) -> NDArray[np.float64]:
    """The service's keyword scores, in [0, 1): (Q, N). Keywords are kept in a store of their own while this runs.

    Raises: EvaluationError: the temporary folder has no room for them.
    """
    try:
        with TemporaryDirectory() as folder:
            return _scores_in(Path(folder), queries, documents)
    except CrossletError as exc:
        raise EvaluationError(f"{gettempdir()} has no room for the keywords; TMPDIR names another folder") from exc


def _scores_in(folder: Path, queries: list[str], documents: list[str]) -> NDArray[np.float64]:
    score_QN = np.zeros((len(queries), len(documents)))
    with closing(DocumentStore(folder / "documents.sqlite3", fingerprint="none", dim=1)) as store:
        with store.transaction() as transaction:
            named = [Document(str(number), text, {}) for number, text in enumerate(documents)]
            transaction.upsert(named, np.ones((len(named), 1), np.float32))
            rows = transaction.rows_of([document.id for document in named])
            transaction.commit()
        place = {row: number for number, row in enumerate(rows)}
        for score_N, query in zip(score_QN, queries, strict=True):
            hits = store.with_keywords(query)
            score_N[[place[row] for row in hits.rows.tolist()]] = hits.scores
    return score_QN


def character_scores(queries: list[str], documents: list[str]) -> NDArray[np.float32]:
    """Cosine of TF-IDF over n-grams of two to four characters within words: (Q, N)."""
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)
    document_NT = vectorizer.fit_transform(documents)
    found: NDArray[np.float32] = (vectorizer.transform(queries) @ document_NT.T).toarray().astype(np.float32)
    return found


def _words(text: str) -> list[str]:
    """Split into words; scripts without spaces into character bigrams, like Lucene's CJK analyser."""
    words: list[str] = []
    for run in RUN.findall(text.lower()):
        is_unspaced = re.match(f"[{UNSPACED}]", run) and len(run) > 1
        words += [run[start : start + 2] for start in range(len(run) - 1)] if is_unspaced else [run]
    return words
