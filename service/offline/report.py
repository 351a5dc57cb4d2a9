"""Measures a store by queries made of its own documents: some words of a text should find that text.

Q queries, S sampled documents, D dims, L languages, K nearest
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from service.documents.document import Rows, Vectors
from service.documents.report_file import Summary
from service.documents.search import nearest
from service.documents.store.store import Snapshot
from service.documents.vectors.index import VectorIndex
from service.errors import InferenceFailed, StartError
from service.model.encoder import Encoder
from service.offline.embedding import Engine
from service.offline.mining import Neighbours
from service.offline.report_sample import (
    OTHER,
    Sample,
    draw,
    exact_nearest,
    grouped,
    languages_of,
    made_query,
    rarity_of,
    scores_of,
)

Floats = npt.NDArray[np.floating]
Advance = Callable[[int], object]

NEAREST = 10
ROUNDING = 1e-5  # of a score
BATCH = 256
ABOVE = 0.001  # share of unrelated documents that should score above a threshold
ABOVE_PAIR = 0.01  # the same for a pair of languages, which has fewer scores
LEAST_SCORES = 300  # of a language or a pair; with fewer, it has no figures
HUB_SHARE, HUB_TIMES = 0.05, 5  # a hub is near to 5 % of the queries, and to 5 times as many as chance gives
LISTED = 10
ALL = "all"  # queries of any language
FAR = 0.1  # between two thresholds
NORMAL = NormalDist()


@dataclass(frozen=True)
class Threshold:
    """A score that 1 in 1,000 unrelated documents exceeds, by `tail`.

    kept: share of queries whose own document reaches it.  above: share of the documents drawn by chance that do.
    """

    score: float
    kept: float
    above: float
    queries: int


@dataclass(frozen=True)
class Pairs:
    """By language of query and document, (L, L); nan where too few were drawn.

    level_LL: median score of documents drawn by chance.  threshold_LL: what 1 in 100 exceeds, by `tail`.
    lift_LL: share of the ten nearest, over the language's share of the documents.
    """

    languages: list[str]
    level_LL: Floats
    threshold_LL: Floats
    lift_LL: Floats

    @property
    def bias(self) -> float:
        """The most that a document's language alone adds to a score: the widest row of `level_LL`; 0: one language."""
        rows = [row[np.isfinite(row)] for row in self.level_LL]
        return max((float(np.ptp(row)) for row in rows if len(row)), default=0.0)


@dataclass(frozen=True)
class Hub:
    """A document that is often near. share: of the queries, among whose ten nearest it is."""

    id: str
    share: float
    is_hub: bool


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


def headline(summary: Summary) -> dict[str, str]:
    """Return the figures to read first, by what they say."""
    least = summary.min_scores.get(ALL)
    suggested = "too few documents" if least is None else f"{least:.2f}"
    if least is not None and summary.model_min_score is not None:
        apart = abs(least - summary.model_min_score)
        suggested += f"; the model's own is {summary.model_min_score:.2f}"
        if apart > FAR:
            suggested += ", far from it: trust neither, use min_confidence"
    return {
        "documents": f"{summary.documents:,}, of which {summary.sampled:,} drawn",
        "recall of the index": f"{summary.recall:.1%}",
        "document of a made query in the first ten": f"{summary.found:.1%}",
        "suggested min_score": suggested,
        "widest bias by language": f"{summary.language_bias:.3f}",
        "hubs": str(summary.hubs),
        "documents cut": f"{summary.cut:.1%}",
    }


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
    query_places, query_QD = _queries(sample, engine)
    own_rows_Q = sample.rows_S[query_places]
    near = exact_nearest(snapshot, query_QD, NEAREST + 1, advance=advance)
    others = near.without(own_rows_Q)
    scores_QS = np.hstack([scores for _, scores in scores_of(snapshot, sample.rows_S.tolist(), query_QD)])
    own_Q = scores_QS[np.arange(len(query_places)), query_places]
    scores_QS[np.arange(len(query_places)), query_places] = np.nan
    rows = np.unique(others.rows_NK[others.rows_NK >= 0]).tolist()
    of_query = [sample.languages[place] for place in query_places.tolist()]
    by_language = thresholds(own_Q, scores_QS, of_query)
    compared = pairs(scores_QS, of_query, sample.languages, others.rows_NK, languages_of(snapshot, rows, field=field))
    nearest_often = hubs(others.rows_NK, snapshot.count(), snapshot.ids_of(rows))
    lengths_S, max_length = _lengths(sample, encoder), encoder.manifest.max_length
    summary = Summary(
        fingerprint=fingerprint,
        revision=snapshot.revision,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        documents=snapshot.count(),
        sampled=len(sample.ids),
        recall=round(_recall(snapshot, index, query_QD, near), 4),
        found=round(float((near.rows_NK[:, :NEAREST] == own_rows_Q[:, None]).any(axis=1).mean()), 4),
        min_scores={name: round(threshold.score, 3) for name, threshold in by_language.items()},
        model_min_score=encoder.manifest.min_scores.get(ALL),
        language_bias=round(compared.bias, 3),
        cut=round(float((lengths_S > max_length).mean()), 4),
        hubs=sum(hub.is_hub for hub in nearest_often),
    )
    return Report(
        model=encoder.manifest.name,
        max_length=max_length,
        backend=index.backend,
        languages={name: sample.languages.count(name) for name in compared.languages},
        own_Q=own_Q,
        other_Q=others.cosines_NK[:, 0],
        random=scores_QS[np.isfinite(scores_QS)],
        thresholds=by_language,
        pairs=compared,
        hubs=nearest_often,
        lengths_S=lengths_S,
        longest=[
            (sample.ids[place], int(lengths_S[place])) for place in np.argsort(-lengths_S, kind="stable")[:NEAREST]
        ],
        summary=summary,
    )


def _queries(sample: Sample, engine: Engine) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Vectors]:
    """Return the sample's positions of documents that make a query, and the queries' vectors."""
    rarity = rarity_of(sample.texts)
    texts = {place: query for place, text in enumerate(sample.texts) if (query := made_query(text, rarity))}
    if len(texts) < 2:
        raise StartError("a report needs two documents of 8 characters or more; load them with `crosslet index build`")
    queries = list(texts.values())
    embedded = list(engine(queries[start : start + BATCH] for start in range(0, len(queries), BATCH)))
    for batch in embedded:
        for error in batch.failed.values():
            raise InferenceFailed(f"words of a document cannot be embedded: {error}")
    return np.array(list(texts), np.int64), np.concatenate([batch.vectors_ND for batch in embedded])


def _recall(snapshot: Snapshot, index: VectorIndex, query_QD: Vectors, near: Neighbours) -> float:
    """Return the share of the exact ten nearest that the index finds; a tie with the tenth counts."""
    if index.is_exact:
        return 1.0
    shares = []
    for query_D, scores_K in zip(query_QD, near.cosines_NK[:, :NEAREST], strict=True):
        wanted = int(np.isfinite(scores_K).sum())
        hits = nearest(snapshot, index, query_D, top_k=wanted, among=None)
        shares.append(sum(score >= scores_K[wanted - 1] - ROUNDING for score, _ in hits) / wanted)
    return float(np.mean(shares))


def _lengths(sample: Sample, encoder: Encoder) -> Floats:
    """Return the tokens of each document's longest passage, prompt and special tokens included."""
    prompt = encoder.prompts.document
    passages = (
        [prompt + text[start:stop] for start, stop in spans]
        for text, spans in zip(sample.texts, sample.spans, strict=True)
    )
    return np.array([max(ids.full_length for ids in encoder.tokenise(texts)) for texts in passages], np.float64)


def tail(scores: Floats, above: float) -> float:
    """Return the score that a share of normal scores exceeds, from their median and 90th percentile.

    Chance also draws translations and near-copies: few, but they would be the top of any sample.
    """
    median, upper = np.quantile(scores, [0.5, 0.9]).tolist()
    return min(1.0, float(median + (upper - median) / NORMAL.inv_cdf(0.9) * NORMAL.inv_cdf(1 - above)))


def thresholds(own_Q: Floats, unrelated_QS: Floats, languages: Sequence[str]) -> dict[str, Threshold]:
    """Return thresholds for `all` queries and by language. unrelated_QS: nan for a query's own document."""
    of_Q = np.array(languages)
    groups = {ALL: np.ones(len(of_Q), bool)} | {name: of_Q == name for name in grouped(languages) if name != OTHER}
    by_language = {}
    for name, chosen_Q in groups.items():
        scores = unrelated_QS[chosen_Q]
        scores = scores[np.isfinite(scores)]
        if len(scores) < LEAST_SCORES:
            continue
        score = tail(scores, ABOVE)
        kept, above = float((own_Q[chosen_Q] >= score).mean()), float((scores >= score).mean())
        by_language[name] = Threshold(score, kept, above, int(chosen_Q.sum()))
    return by_language


def pairs(
    unrelated_QS: Floats, of_query: Sequence[str], of_document: Sequence[str], near_QK: Rows, of_row: Mapping[int, str]
) -> Pairs:
    """Compare languages. near_QK: the ten nearest of each query besides its own document.  of_row: their languages."""
    names = grouped(of_document)
    place = {name: number for number, name in enumerate(names)}

    def numbered(languages: Sequence[str]) -> Rows:
        return np.array([place.get(name, place.get(OTHER, -1)) for name in languages], np.int64)

    query_Q, document_S, count = numbered(of_query), numbered(of_document), len(names)
    level_LL, threshold_LL, lift_LL = (np.full((count, count), np.nan) for _ in range(3))
    share_L = np.bincount(document_S, minlength=count) / len(document_S)
    for query in range(count):
        is_query_Q = query_Q == query
        rows = near_QK[is_query_Q]
        near_languages = numbered([of_row[row] for row in rows[rows >= 0].tolist()])
        if len(near_languages) >= LEAST_SCORES:
            lift_LL[query] = (
                np.bincount(near_languages[near_languages >= 0], minlength=count) / len(near_languages) / share_L
            )
        for document in range(count):
            scores = unrelated_QS[is_query_Q][:, document_S == document]
            scores = scores[np.isfinite(scores)]
            if len(scores) >= LEAST_SCORES:
                level_LL[query, document] = np.median(scores)
                threshold_LL[query, document] = tail(scores, ABOVE_PAIR)
    return Pairs(names, level_LL, threshold_LL, lift_LL)


def hubs(near_QK: Rows, documents: int, ids: Mapping[int, str]) -> list[Hub]:
    """Return the documents that are near most often, and all hubs. ids: by row."""
    queries, k = near_QK.shape
    times = Counter(near_QK[near_QK >= 0].tolist())
    by_chance = min(k, documents) / documents
    listed: list[Hub] = []
    for row, count in sorted(times.items(), key=lambda item: (-item[1], item[0])):
        share = count / queries
        is_hub = share >= HUB_SHARE and share >= HUB_TIMES * by_chance
        if len(listed) >= LISTED and not is_hub:
            break
        listed.append(Hub(ids[row], share, is_hub))
    return listed
