"""Measures a store by queries made of its own documents: the opening of a text should find that text.

Q queries, S sampled documents, D dims
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from service.documents.document import Vectors
from service.documents.report_file import Summary
from service.documents.search import nearest
from service.documents.store.store import Snapshot
from service.documents.vectors.index import VectorIndex
from service.errors import InferenceFailed, StartError
from service.model.encoder import Encoder
from service.offline.embedding import Engine
from service.offline.report.figures import Floats, Hub, Pairs, Threshold, hubs, pairs, thresholds
from service.offline.report.nearest import Nearest, exact_nearest, scores_of
from service.offline.report.sample import Sample, draw, languages_of, opening

NEAREST = 10
ROUNDING = 1e-5  # of a score
BATCH = 256

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Report:
    """All that the page shows. Scores are cosines; shares are in [0, 1].

    own_Q: of a query with its own document.  other_Q: with the best other one.  random: with documents drawn by chance.
    lengths_S: tokens of the sampled documents' longest passages.  longest: their ids and tokens, longest first.
    """

    model: str
    max_length: int
    backend: str
    languages: dict[str, int]
    own_Q: Floats
    other_Q: Floats
    random: Floats
    thresholds: dict[str, Threshold]
    pairs: Pairs
    hubs: list[Hub]
    lengths_S: Floats
    longest: list[tuple[str, int]]
    summary: Summary


def measure(
    snapshot: Snapshot,
    index: VectorIndex,
    encoder: Encoder,
    engine: Engine,
    *,
    fingerprint: str,
    most: int,
    field: str,
    advance: Advance,
) -> Report:
    """Measure one state of a collection.

    Args:   index: what a service searches.  engine: embeds queries.  fingerprint: of the store's vectors.
            most: documents to draw.  field: of the metadata, with the language.
            advance: called with further documents compared.
    Raises: StartError: fewer than two documents have a text to ask with.  Damaged.  InferenceFailed.
    """
    sample = draw(snapshot, most=most, field=field)
    asked, query_QD = _queries(sample, engine)
    own_rows_Q = sample.rows_S[asked]
    near = exact_nearest(snapshot, query_QD, NEAREST + 1, advance=advance)
    others = near.without(own_rows_Q)
    _, scores_QS = scores_of(snapshot, sample.rows_S.tolist(), query_QD)
    own_Q = scores_QS[np.arange(len(asked)), asked]
    scores_QS[np.arange(len(asked)), asked] = np.nan
    rows = np.unique(others.rows_QK[others.rows_QK >= 0]).tolist()
    of_query = [sample.languages[place] for place in asked.tolist()]
    by_language = thresholds(own_Q, scores_QS, of_query)
    compared = pairs(scores_QS, of_query, sample.languages, others, languages_of(snapshot, rows, field=field))
    often = hubs(others, snapshot.count(), snapshot.ids_of(rows))
    lengths_S = _lengths(sample, encoder)
    is_cut_S = lengths_S > encoder.manifest.max_length
    longest = [(sample.ids[place], int(lengths_S[place])) for place in np.argsort(-lengths_S, kind="stable")[:NEAREST]]
    return Report(
        model=encoder.manifest.name,
        max_length=encoder.manifest.max_length,
        backend=index.backend,
        languages={name: sample.languages.count(name) for name in compared.languages},
        own_Q=own_Q,
        other_Q=others.scores_QK[:, 0],
        random=scores_QS[np.isfinite(scores_QS)],
        thresholds=by_language,
        pairs=compared,
        hubs=often,
        lengths_S=lengths_S,
        longest=longest,
        summary=Summary(
            fingerprint=fingerprint,
            revision=snapshot.revision,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            documents=snapshot.count(),
            sampled=len(sample.ids),
            recall=round(_recall(snapshot, index, query_QD, near), 4),
            found=round(float((near.rows_QK[:, :NEAREST] == own_rows_Q[:, None]).any(axis=1).mean()), 4),
            min_scores={name: round(one.score, 3) for name, one in by_language.items()},
            language_bias=round(compared.bias, 3),
            cut=round(float(is_cut_S.mean()), 4),
            hubs=sum(one.is_hub for one in often),
        ),
    )


def _queries(sample: Sample, engine: Engine) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Vectors]:
    """Return the sample's positions of documents with an opening, and the openings' vectors."""
    texts = {place: start for place, text in enumerate(sample.texts) if (start := opening(text))}
    if len(texts) < 2:
        raise StartError("a report needs two documents of 8 characters or more; load them with `crosslet index build`")
    asked = list(texts.values())
    embedded = list(engine(asked[start : start + BATCH] for start in range(0, len(asked), BATCH)))
    for one in embedded:
        for error in one.failed.values():
            raise InferenceFailed(f"the beginning of a document cannot be embedded: {error}")
    return np.array(list(texts), np.int64), np.concatenate([one.vectors_ND for one in embedded])


def _recall(snapshot: Snapshot, index: VectorIndex, query_QD: Vectors, near: Nearest) -> float:
    """Return the share of the exact ten nearest that the index finds; a tie with the tenth counts."""
    if index.is_exact:
        return 1.0
    shares = []
    for query_D, scores_K in zip(query_QD, near.scores_QK[:, :NEAREST], strict=True):
        wanted = int(np.isfinite(scores_K).sum())
        found = nearest(snapshot, index, query_D, top_k=wanted, among=None)
        shares.append(sum(score >= scores_K[wanted - 1] - ROUNDING for score, _ in found) / wanted)
    return float(np.mean(shares))


def _lengths(sample: Sample, encoder: Encoder) -> Floats:
    """Return the tokens of each document's longest passage, prompt and special tokens included."""
    prompt = encoder.prompts.document
    passages = (
        [prompt + text[start:stop] for start, stop in spans]
        for text, spans in zip(sample.texts, sample.spans, strict=True)
    )
    return np.array([max(ids.full_length for ids in encoder.tokenise(texts)) for texts in passages], np.float64)
