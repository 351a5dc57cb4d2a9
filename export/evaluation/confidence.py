"""Fits and measures an artifact's confidence: how likely the first result of a search answers the query.

Each question is asked as served; what is found also counts as if the documents that answer it, in any language, were
not there. So any share of the questions may count as unanswerable.

`confidence_corpora` says on what; all of it once more beside distractors.

Shapes: Q searches, F features.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from export.bundle import rewrite_card
from export.evaluation.confidence_corpora import (
    MODES,
    RERANKED,
    Corpus,
    crowded,
    fitted_on,
    measured_on,
    read_distractors,
    with_few,
)
from export.evaluation.models import load_model
from export.evaluation.typed_queries import collection_of
from service.blending import with_reranker
from service.documents.collections import Collection
from service.documents.interface import Match, Query, ResultOptions
from service.errors import ArtifactError
from service.model.artifact import load_manifest
from service.model.confidence import (
    VERSION,
    ConfidenceModel,
    Evidence,
    Weights,
    calibration_error,
    clipped,
    features,
    reliability,
    with_products,
)
from service.model.reranker import Reranker
from service.offline.report_questions import evidence_without
from training.errors import EvaluationError
from training.evaluation.encoders import Model
from training.evaluation.report import MetricScores
from training.evaluation.vectors import each_text_once, unit_rows

logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]
MOST_CROWDED, MOST_RERANKED = 60, 50  # questions of a corpus to fit on beside distractors; to re-rank for
BESIDE_WEIGHT = 0.5  # of all that is asked beside distractors
FIT_SHARE = 6  # every so manieth distractor is fitted with, the others are measured with
RERANK_K, RERANK_WEIGHT = 20, 0.2  # of hybrid searches, as a service does
DIFFERENT = (0.7, 0.75, 0.8, 0.85, 0.9)
TOP_K = 50  # results: there are more than RERANK_K without an answer and its translations
OPTIONS = ResultOptions(metadata=False, passage=False, compared=RERANK_K)
PENALTY = 100.0  # of the squared coefficients
UNANSWERABLE = (0.1, 0.3, 0.5)
PLOTTED = 0.3
SURE = 0.8

Curves = dict[str, dict[str, list[tuple[float, float, float]]]]  # mode -> corpus -> mass, mean and share of bins


@dataclass(frozen=True)
class Searches:
    """What the searches of a corpus found, in one mode.

    feature_QF: by the limit of `ConfidenceModel.different`; limits that half of the searches lack are left out.
    """

    corpus: Corpus
    mode: str
    cosine_Q: Floats
    feature_QF: dict[float, Floats]
    is_right_Q: NDArray[np.bool_]
    is_answerable_Q: NDArray[np.bool_]

    def weights(self, unanswerable: float) -> Floats:
        """Weights that sum to 1, of which a share is of searches without an answer."""
        has_Q = self.is_answerable_Q
        weight_Q: Floats = np.where(
            has_Q, (1 - unanswerable) / max(1, has_Q.sum()), unanswerable / max(1, (~has_Q).sum())
        )
        return weight_Q


@dataclass(frozen=True)
class PairReader:
    """Scores each pair of query and passage once. queries: most of a corpus to read for."""

    reranker: Reranker
    queries: int
    scores: dict[tuple[str, str], float] = field(default_factory=dict)

    def __call__(self, query: str, match: Match) -> float:
        """Return the score of a query and the best passage of a document."""
        pair = query, match.document.text if match.passage is None else match.passage.text
        if pair not in self.scores:
            self.scores[pair] = self.reranker.score(self.reranker.tokenize(*pair))
        return self.scores[pair]

    def reranked(self, matches: Sequence[Match], evidence: Evidence) -> Evidence:
        """Return the evidence of matches after the first of them are re-ranked."""
        read = matches[:RERANK_K]
        own_K = np.array([self(evidence.query, match) for match in read])
        score_K = with_reranker(np.array([match.score for match in read], np.float64), own_K, RERANK_WEIGHT)
        first = read[int(score_K.argmax())]
        return replace(evidence, first=evidence.rows_N.index(first.row), text=first.document.text)


def calibrate(
    model: Model, data: Path, *, reranker: Reranker | None = None, queries: int | None = None, distractors: int = 0
) -> tuple[ConfidenceModel, MetricScores, Curves]:
    """Return the confidence of a model that is served, how good it is, by corpus, and how reliable.

    reranker: re-ranked searches are measured, too, for at most so many queries of a corpus.
    distractors: so many sentences of DIR/mono lie beside the documents of further searches.

    Raises: EvaluationError: there is no question set, or a set is malformed.
    """
    query, document = each_text_once(model.encode_query), each_text_once(model.encode_document)
    model = replace(model, encode_query=query, encode_document=document)
    sentences = read_distractors(data, distractors)
    corpora = [*with_few(fitted_on(data))]
    measured = [*with_few(measured_on(data, model.languages or ()))]  # read before the fit, which takes long
    beside = [corpus.spaced(MOST_CROWDED) for corpus in crowded(corpora, sentences[::FIT_SHARE])]
    confidence = fit([found for found in ask(model, [*corpora, *beside]) if found.feature_QF])
    reader = None if reranker is None else PairReader(reranker, queries or MOST_RERANKED)
    scores: MetricScores = {}
    curves: Curves = {}
    del sentences[::FIT_SHARE]
    for found in ask(model, [*measured, *crowded(measured, sentences)], reader):
        if confidence.different not in found.feature_QF or len({*found.is_right_Q.tolist()}) < 2:
            logger.warning("not measured, since searches are all right, all wrong or alike: %s", found.corpus.name)
            continue
        for metric, value in measure(confidence, found).items():
            scores.setdefault(f"confidence_{found.mode}_{metric}", {})[found.corpus.name] = value
        if RERANKED in found.corpus.modes and found.mode != RERANKED:  # of many questions, not of a single language
            said_Q, weight_Q = probabilities(confidence, found, PLOTTED), found.weights(PLOTTED)
            curves.setdefault(found.mode, {})[found.corpus.name] = reliability(said_Q, found.is_right_Q, weight_Q)
    return confidence, scores, curves


def recalibrate(
    folder: Path,
    data: Path,
    plot: Path | None = None,
    *,
    reranker: Path | None = None,
    queries: int | None = None,
    distractors: int = 0,
) -> MetricScores:
    """Fit the confidence of an artifact, write it into the manifest, and return how good it is.

    plot: SVG file for what was said and what was right.  reranker: an artifact.  queries, distractors: as `calibrate`.

    Raises: EvaluationError: a folder is no artifact of its kind, or what `calibrate` raises.
    """
    try:
        load_manifest(folder)
        reads = None if reranker is None else Reranker.load(reranker)
    except ArtifactError as exc:
        raise EvaluationError(f"--calibrate needs artifacts, which `python -m export` makes: {exc}") from exc
    model = load_model(str(folder))
    confidence, scores, curves = calibrate(model, data, reranker=reads, queries=queries, distractors=distractors)
    manifest = load_manifest(folder)  # as it is now: it may have been edited
    if manifest.fingerprint != model.revision:
        raise EvaluationError(f"{folder} holds another model than at the start: calibrate that one")
    rewrite_card(folder, replace(manifest, confidence=confidence))
    if plot is not None and curves:
        draw(curves, plot)
    return scores


def draw(curves: Curves, path: Path) -> None:
    """Plot the share of right first documents over the confidence, a panel a mode."""
    from matplotlib import rc_context  # here: it writes a cache of fonts when imported
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axis, (mode, of_corpora) in zip(panels, curves.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        colors: dict[str, str] = {}  # of corpora, whose collections of other sizes have other lines
        for name, bins in of_corpora.items():
            corpus = name.removesuffix("_few").removesuffix("_large")
            line = "-" if corpus == name else ":" if name.endswith("_few") else "--"
            color = colors.setdefault(corpus, f"C{len(colors)}")
            axis.plot(
                [said for _, said, _ in bins], [true for *_, true in bins], line, color=color, marker=".", label=name
            )
        axis.set(title=mode, xlabel="confidence", ylabel="share that is right")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "confidence"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def ask(model: Model, corpora: Iterable[Corpus], reader: PairReader | None = None) -> Iterator[Searches]:
    """Yield what the questions of corpora find. Corpora in a row that share their documents share a collection."""
    for _, group in groupby(corpora, key=lambda corpus: id(corpus.documents)):
        same = [*group]
        with collection_of(same[0].documents, model.encode_document, model.split) as collection:
            for corpus in same:
                for mode in corpus.modes:
                    if mode != RERANKED:
                        yield searches(model, collection, corpus, mode)
                    elif reader is not None:
                        yield searches(model, collection, corpus.spaced(reader.queries), mode, reader)
                logger.info("asked %s: %d questions", corpus.name, len(corpus.questions))


def searches(
    model: Model, collection: Collection, corpus: Corpus, mode: str, reader: PairReader | None = None
) -> Searches:
    """Ask every question of a corpus as a service would, with and without its answers."""
    query_QD = unit_rows(model.encode_query([question.text for question in corpus.questions]))
    topic_of = {document.id: str(document.metadata["topic"]) for document in corpus.documents}
    options = OPTIONS if reader is None else replace(OPTIONS, passage=True)
    filters = corpus.filters()
    kept: list[tuple[float, list[Floats | None], bool, bool]] = []
    for question, vector_D in zip(corpus.questions, query_QD, strict=True):
        asked = Query(vector_D, None if mode == "dense" else question.text, text=question.text)
        (whole,) = collection.search_all([asked], top_k=TOP_K, filter_=next(filters), options=options)
        ids = frozenset(match.document.id for match in whole if topic_of[match.document.id] in question.topics)
        rest = [match for match in whole if match.document.id not in ids]
        for matches, has_answer in ((whole, True), (rest, False)) if question.topics else ((whole, False),):
            evidence = whole.evidence if has_answer else evidence_without(whole, ids)
            if evidence is not None and reader is not None:
                evidence = reader.reranked(matches, evidence)
            found = [] if evidence is None else [features(evidence, different=limit) for limit in DIFFERENT]
            if evidence is not None and found[-1] is not None:
                first = next(match.document.id for match in matches if match.row == evidence.rows_N[evidence.first])
                cosine = float(evidence.cosine_N[evidence.first])
                kept.append((cosine, found, has_answer and first in ids, has_answer))
    places = range(len(DIFFERENT))  # what has features at a limit has them at higher ones, too
    most = [place for place in places if 2 * sum(found[place] is not None for _, found, *_ in kept) > len(kept)]
    kept = [row for row in kept if row[1][most[0]] is not None]
    by_limit = {DIFFERENT[place]: np.array([found[place] for _, found, *_ in kept]) for place in most}
    cosine_Q, is_right_Q, is_answerable_Q = (np.array([row[column] for row in kept]) for column in (0, 2, 3))
    return Searches(corpus, mode, cosine_Q, by_limit, is_right_Q, is_answerable_Q)


def fit(every: Sequence[Searches]) -> ConfidenceModel:
    """Return the model of the limit that is best on what it is fitted on.

    Raises: EvaluationError: in a mode, the searches are all right or all wrong, or there is none.
    """
    of_mode = {mode: [found for found in every if found.mode == mode] for mode in MODES}
    for mode, of_corpora in of_mode.items():
        if len({is_right for one in of_corpora for is_right in one.is_right_Q.tolist()}) < 2:
            raise EvaluationError(
                f"no confidence fits {mode} searches: all are right, all wrong, or documents are alike"
            )
    limits = [limit for limit in DIFFERENT if all(limit in one.feature_QF for one in every)]
    losses = {limit: sum(_fit(of_mode[mode], limit)[1] for mode in MODES) for limit in limits}
    limit = min(losses, key=lambda one: losses[one])
    weight_Q = np.concatenate(_corpus_weights(of_mode["hybrid"]))
    is_right_Q, has_Q = (
        np.concatenate([getattr(one, name) for one in of_mode["hybrid"]]) for name in ("is_right_Q", "is_answerable_Q")
    )
    return ConfidenceModel(
        version=VERSION,
        different=limit,
        right=float(np.average(is_right_Q, weights=weight_Q)),
        found=float(np.average(is_right_Q[has_Q], weights=weight_Q[has_Q])),
        dense=_fit(of_mode["dense"], limit)[0],
        hybrid=_fit(of_mode["hybrid"], limit)[0],
    )


def _corpus_weights(of_corpora: Sequence[Searches]) -> list[Floats]:
    kinds = [(one.corpus.is_multilingual, one.corpus.is_beside) for one in of_corpora]
    return [
        one.weights(0.5) * (BESIDE_WEIGHT if one.corpus.is_beside else 1) / kinds.count(kind)
        for one, kind in zip(of_corpora, kinds, strict=True)
    ]


def _fit(of_corpora: Sequence[Searches], limit: float) -> tuple[Weights, float]:
    """Return the weights, and their loss."""
    feature_QF = np.concatenate([one.feature_QF[limit] for one in of_corpora])
    is_right_Q = np.concatenate([one.is_right_Q for one in of_corpora])
    weight_Q = np.concatenate(_corpus_weights(of_corpora))
    weight_Q = weight_Q / weight_Q.mean()
    mean_F = np.average(feature_QF, axis=0, weights=weight_Q)
    deviation_F = np.sqrt(np.average((feature_QF - mean_F) ** 2, axis=0, weights=weight_Q)) + 1e-6
    input_QP = np.stack([with_products(row_F) for row_F in clipped((feature_QF - mean_F) / deviation_F)])
    fitted = LogisticRegression(C=1 / PENALTY, max_iter=5000).fit(input_QP, is_right_Q, sample_weight=weight_Q)
    probability_Q = fitted.predict_proba(input_QP)[:, 1]
    loss = -float(np.average(np.log(np.where(is_right_Q, probability_Q, 1 - probability_Q)), weights=weight_Q))
    rounded = [tuple(round(float(value), 5) for value in row) for row in (mean_F, deviation_F, fitted.coef_[0])]
    return Weights(round(float(fitted.intercept_[0]), 5), *rounded), loss


def probabilities(confidence: ConfidenceModel, found: Searches, unanswerable: float) -> Floats:
    """Return the confidence of each search at a share of questions without an answer."""
    feature_QF = found.feature_QF[confidence.different]
    return np.array([confidence.of(feature_F, answerable=1 - unanswerable) for feature_F in feature_QF])


def measure(confidence: ConfidenceModel, found: Searches) -> dict[str, float]:
    """Return measures x 100 of one corpus, at shares of questions without an answer.

    auc: how often a right first document has the higher confidence than a wrong one; auc_cosine: by its cosine.
    error: the expected calibration error.  right: of what reaches SURE.  answered: of what is found first.
    """
    values: dict[str, float] = {}
    cosine_Q, is_right_Q = found.cosine_Q, found.is_right_Q
    for share in UNANSWERABLE:
        weight_Q = found.weights(share)
        probability_Q = probabilities(confidence, found, share)
        sure_Q = probability_Q >= SURE
        right, sure = float(weight_Q @ is_right_Q), float(weight_Q @ sure_Q)
        measured = {
            "auc": roc_auc_score(is_right_Q, probability_Q, sample_weight=weight_Q),
            "auc_cosine": roc_auc_score(is_right_Q, cosine_Q, sample_weight=weight_Q),
            "error": calibration_error(probability_Q, is_right_Q, weight_Q),
            "right": float(weight_Q @ (sure_Q & is_right_Q)) / max(sure, 1e-9),
            "answered": float(weight_Q @ (sure_Q & is_right_Q)) / right,
        }
        values |= {f"{name}_{100 * share:.0f}": round(100 * float(value), 1) for name, value in measured.items()}
    return values
