"""Fits and measures an artifact's confidence: how likely the first result of a search answers the query.

Each question is asked twice, as served: of all documents, and of those that do not answer it, in any language. So both
have the same questions, and any share of them may count as unanswerable.

Fitted on: the search set's dev, the held-out passages of question sets, bitcoin.org's FAQ, also with each answer in one
language alone. Corpora in one language together weigh as much as those in several.
Measured on: the search set's test, XQuAD's odd questions, BiPaR.

Shapes: Q searches, F features.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from export.bundle import rewrite_card
from export.evaluation.models import load_model
from export.evaluation.typed_queries import collection_of
from service.blending import with_reranker
from service.documents.document import Document
from service.documents.interface import Match, Query, ResultOptions
from service.errors import ArtifactError
from service.model.artifact import load_manifest
from service.model.confidence import (
    VERSION,
    ConfidenceModel,
    Weights,
    calibration_error,
    clipped,
    features,
    reliability,
    with_products,
)
from service.model.reranker import Reranker
from training.corpora.leakage import clean_passage, is_held_out
from training.errors import EvaluationError
from training.evaluation.encoders import Model
from training.evaluation.lines import find_file, read_json_lines
from training.evaluation.report import MetricScores
from training.evaluation.search import BUNDLED, read_search
from training.evaluation.vectors import each_text_once, unit_rows
from training.reranking.collection import evenly_spaced
from training.reranking.readers import find_collection, read_collection

logger = logging.getLogger(__name__)

QUESTION_SETS = (
    *("arcd", "boolq_part", "cmrc2018", "covid_qa_deepset", "drcd", "faquad", "idk_mrc", "jaquad", "jsquad"),
    *("medquad", "nq_qed_dev", "pubmedqa_l", "tydiqa_goldp"),
)

Floats = NDArray[np.float64]
Score = Callable[[str, str], float]
FAQ, FAQ_IDS = "faq_multilingual", "bitcoin"
DRAWS = 3  # of a language for each answer
MOST_QUESTIONS, MOST_PASSAGES = 400, 500  # of a corpus to fit on
SMALL, FEW = 240, 5  # documents of corpora that are also asked with a filter, and topics that it leaves
MODES = ("hybrid", "dense")
RERANKED, RERANK_K, RERANK_WEIGHT = "reranked", 20, 0.2  # of hybrid searches, as a service does
DIFFERENT = (0.7, 0.75, 0.8, 0.85, 0.9)
OPTIONS = ResultOptions(text=False, metadata=False, compared=20)
PENALTY = 100.0  # of the squared coefficients
UNANSWERABLE = (0.1, 0.3, 0.5)
PLOTTED = 0.3
SURE = 0.8

Curves = dict[str, dict[str, list[tuple[float, float, float]]]]  # mode -> corpus -> mass, mean and share of bins


@dataclass(frozen=True)
class Asked:
    """A question, and the topics of the documents that answer it."""

    text: str
    topics: frozenset[str]


@dataclass(frozen=True)
class Corpus:
    """Documents with a topic each, which translations share, and questions about them.

    few: each search is filtered to so many topics, drawn by chance, and what answers; 0: to nothing.
    """

    name: str
    documents: Sequence[Document]
    questions: Sequence[Asked]
    is_multilingual: bool = True
    few: int = 0

    def filters(self, question: Asked, draw: random.Random) -> Iterator[tuple[dict[str, object], bool]]:
        """Yield the filter of each search for a question, and whether it leaves an answer."""
        others = sorted({str(document.metadata["topic"]) for document in self.documents} - question.topics)
        if self.few:
            others = draw.sample(others, min(self.few, len(others)))
        if question.topics:
            yield ({"topic": {"in": [*sorted(question.topics), *others]}} if self.few else {}), True
        yield {"topic": {"in": others}} if self.few else {"not": {"topic": {"in": [*question.topics, ""]}}}, False


@dataclass(frozen=True)
class Searches:
    """What the searches of a corpus found, in one mode.

    feature_QF: by the limit of `ConfidenceModel.different`.
    """

    corpus: Corpus
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


def calibrate(
    model: Model, data: Path, *, score: Score | None = None, queries: int | None = None
) -> tuple[ConfidenceModel, MetricScores, Curves]:
    """Return the confidence of a model that is served, how good it is, by corpus, and how reliable.

    score: of a re-ranker: re-ranked searches are measured, too, for at most so many queries of a corpus.

    Raises: EvaluationError: there is no question set, or a set is malformed.
    """
    query, document = each_text_once(model.encode_query), each_text_once(model.encode_document)
    model = replace(model, encode_query=query, encode_document=document)
    fitted_on: dict[str, list[Searches]] = {mode: [] for mode in MODES}
    for corpus in _with_few(_fitted_on(data)):
        for mode in MODES:
            fitted_on[mode].append(searches(model, corpus, mode))
        logger.info("asked %s: %d questions, %d documents", corpus.name, len(corpus.questions), len(corpus.documents))
    confidence = fit(fitted_on)
    scores: MetricScores = {}
    curves: Curves = {}
    for corpus in _with_few(_measured_on(data)):
        for mode in MODES:
            found = searches(model, corpus, mode)
            for metric, value in measure(confidence, found).items():
                scores.setdefault(f"confidence_{mode}_{metric}", {})[corpus.name] = value
            said_Q, weight_Q = probabilities(confidence, found, PLOTTED), found.weights(PLOTTED)
            curves.setdefault(mode, {})[corpus.name] = reliability(said_Q, found.is_right_Q, weight_Q)
        if score is not None:
            kept = evenly_spaced(len(corpus.questions), queries or len(corpus.questions))
            some = replace(corpus, questions=[corpus.questions[row] for row in kept])
            for metric, value in measure(confidence, searches(model, some, RERANKED, score)).items():
                scores.setdefault(f"confidence_{RERANKED}_{metric}", {})[corpus.name] = value
        logger.info("measured %s", corpus.name)
    return confidence, scores, curves


def recalibrate(
    folder: Path, data: Path, plot: Path | None = None, *, reranker: Path | None = None, queries: int | None = None
) -> MetricScores:
    """Fit the confidence of an artifact, write it into the manifest, and return how good it is.

    plot: SVG file for what was said and what was right.  reranker: an artifact; with queries as `calibrate` has them.

    Raises: EvaluationError: the folder is no artifact of an encoder, or what `calibrate` raises.
    """
    try:
        manifest = load_manifest(folder)
    except ArtifactError as exc:
        raise EvaluationError(f"--calibrate needs an artifact, which `python -m export` makes: {exc}") from exc
    score = None if reranker is None else _score_of(reranker)
    confidence, scores, curves = calibrate(load_model(str(folder)), data, score=score, queries=queries)
    rewrite_card(folder, replace(manifest, confidence=confidence))
    if plot is not None:
        draw(curves, plot)
    return scores


def draw(curves: Curves, path: Path) -> None:
    """Plot the share of right first documents over the confidence, a panel a mode."""
    from matplotlib import rc_context  # here: it writes a cache of fonts when imported
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axis, (mode, of_corpora) in zip(panels, curves.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        for name, bins in of_corpora.items():
            axis.plot([said for _, said, _ in bins], [true for *_, true in bins], marker="o", label=name)
        axis.set(title=mode, xlabel="confidence", ylabel="share that is right")
        axis.legend(fontsize="small")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "confidence"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _score_of(folder: Path) -> Score:
    """Return what scores query and passage. Raises: EvaluationError: the folder is no artifact of a re-ranker."""
    try:
        reranker = Reranker.load(folder)
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc
    return cache(lambda query, passage: float(reranker.score(reranker.tokenize(query, passage))))


def searches(model: Model, corpus: Corpus, mode: str, score: Score | None = None) -> Searches:
    """Ask every question of a corpus as a service would, with and without its answers. score: of a re-ranker."""
    query_QD = unit_rows(model.encode_query([question.text for question in corpus.questions]))
    topic_of = {document.id: document.metadata["topic"] for document in corpus.documents}
    rows: list[tuple[list[Floats], bool, bool]] = []
    draw = random.Random(0)  # noqa: S311 - no secret
    with collection_of(corpus.documents, model.encode_document, model.split) as collection:
        for question, vector_D in zip(corpus.questions, query_QD, strict=True):
            asked = Query(vector_D, None if mode == "dense" else question.text, text=question.text)
            for filter_, is_answerable in corpus.filters(question, draw):
                top_k, options = (1, OPTIONS) if score is None else (RERANK_K, replace(OPTIONS, text=True))
                (matches,) = collection.search_all([asked], top_k=top_k, filter_=filter_, options=options)
                if matches.evidence is None:
                    continue
                first, evidence = matches[0], matches.evidence
                if score is not None:
                    first = max(matches, key=lambda match: _reranked(question.text, match, score))
                    place = evidence.rows_N.index(first.row)
                    evidence = replace(evidence, first=place, text=first.document.text)
                found = [features(evidence, different=limit) for limit in DIFFERENT]
                if all(feature_F is not None for feature_F in found):
                    is_right = topic_of[first.document.id] in question.topics and is_answerable
                    rows.append(([one for one in found if one is not None], is_right, is_answerable))
    features_LQF = np.stack([np.stack(found) for found, _, _ in rows], axis=1)
    return Searches(
        corpus,
        dict(zip(DIFFERENT, features_LQF, strict=True)),
        np.array([is_right for _, is_right, _ in rows]),
        np.array([is_answerable for _, _, is_answerable in rows]),
    )


def _reranked(query: str, match: Match, score: Score) -> float:
    passage = match.document.text if match.passage is None else match.passage.text
    return with_reranker(match.score or 0.0, score(query, passage), RERANK_WEIGHT)


def fit(fitted_on: dict[str, list[Searches]]) -> ConfidenceModel:
    """Return the model of the limit that is best on what it is fitted on."""
    weight_Q = {mode: np.concatenate(_corpus_weights(of_mode)) for mode, of_mode in fitted_on.items()}
    losses = {limit: sum(_fit(fitted_on[mode], weight_Q[mode], limit)[1] for mode in MODES) for limit in DIFFERENT}
    limit = min(losses, key=lambda one: losses[one])
    is_right_Q, has_Q = (
        np.concatenate([getattr(one, name) for one in fitted_on["hybrid"]])
        for name in ("is_right_Q", "is_answerable_Q")
    )
    return ConfidenceModel(
        version=VERSION,
        different=limit,
        right=float(np.average(is_right_Q, weights=weight_Q["hybrid"])),
        found=float(np.average(is_right_Q[has_Q], weights=weight_Q["hybrid"][has_Q])),
        **{mode: _fit(fitted_on[mode], weight_Q[mode], limit)[0] for mode in MODES},
    )


def _corpus_weights(of_corpora: Sequence[Searches]) -> list[Floats]:
    kinds = [one.corpus.is_multilingual for one in of_corpora]
    return [one.weights(0.5) / kinds.count(kind) for one, kind in zip(of_corpora, kinds, strict=True)]


def _fit(of_corpora: Sequence[Searches], weight_Q: Floats, limit: float) -> tuple[Weights, float]:
    """Return the weights, and their loss."""
    feature_QF = np.concatenate([one.feature_QF[limit] for one in of_corpora])
    is_right_Q = np.concatenate([one.is_right_Q for one in of_corpora])
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
    cosine_Q, is_right_Q = found.feature_QF[confidence.different][:, 0], found.is_right_Q
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


def _fitted_on(data: Path) -> Iterator[Corpus]:
    yield _search_set(is_dev=True)
    folder = data / "qa"
    names = [name for name in QUESTION_SETS if find_file(folder / f"{name}.jsonl")]
    if not names:
        raise EvaluationError(f"{folder} has none of the question sets: {', '.join(QUESTION_SETS)}")
    for name in names:
        if (corpus := _held_out(folder / f"{name}.jsonl", name)).questions:
            yield corpus
    if (path := find_file(folder / f"{FAQ}.jsonl")) is not None:
        faq = _faq(path)
        yield faq
        for seed in range(DRAWS):
            yield replace(faq, name=f"{faq.name}_{seed}", documents=_one_a_topic(faq.documents, seed))


def _measured_on(data: Path) -> Iterator[Corpus]:
    yield _search_set(is_dev=False)
    if (data / "eval" / "xquad").is_dir():
        every = _translated(data / "eval" / "xquad", "xquad", step=2)
        yield replace(every, name="xquad_mixed", documents=_one_a_topic(every.documents, 0))
        yield replace(every, name="xquad_translated")
    if (data / "eval" / "bipar" / "test").is_dir():
        bipar = _translated(data / "eval" / "bipar" / "test", "bipar", step=1)
        yield replace(bipar, documents=_one_a_topic(bipar.documents, 0))


def _with_few(corpora: Iterable[Corpus]) -> Iterator[Corpus]:
    """Yield corpora, and those in which every search is filtered to few documents."""
    for corpus in corpora:
        yield corpus
        if len(corpus.documents) <= SMALL:
            yield replace(corpus, name=f"{corpus.name}_few", few=FEW)


def _search_set(*, is_dev: bool) -> Corpus:
    found = read_search(BUNDLED / "search")
    assert found is not None  # noqa: S101 - bundled
    documents = [_document(str(row), text) for row, text in enumerate(found.documents)]
    questions = [
        Asked(query.text, frozenset() if query.document is None else frozenset({str(query.document)}))
        for query in found.queries
        if query.is_dev == is_dev
    ]
    return Corpus(f"search_{'dev' if is_dev else 'test'}", documents, questions)


def _held_out(path: Path, name: str) -> Corpus:
    """Return the passages of a question set that no model has seen, evenly spaced, and their questions."""
    collection = read_collection(path, "jsonl")
    asked: dict[str, set[str]] = {}
    passages: dict[str, None] = {}
    for question in collection.questions:
        for language, text in question.texts.items():
            for index in question.positives:
                passage = clean_passage(collection.passages[index].get(language, ""))
                if passage and is_held_out(passage):
                    passages[passage] = None
                    asked.setdefault(" ".join(text.lstrip("- ").split()), set()).add(passage)
    kept = [[*passages][row] for row in evenly_spaced(len(passages), MOST_PASSAGES)] if passages else []
    topic_of = {passage: str(number) for number, passage in enumerate(kept)}
    questions = [
        Asked(text, frozenset(topic_of[passage] for passage in answers))
        for text, answers in asked.items()
        if answers <= topic_of.keys()
    ]
    documents = [_document(topic, passage) for passage, topic in topic_of.items()]
    return Corpus(name, documents, _spaced(questions), is_multilingual=False)


def _faq(path: Path) -> Corpus:
    rows = [row for row in read_json_lines(path, ("query", "positive")) if str(row.get("id")).startswith(FAQ_IDS)]
    documents = [_document(row["id"], row["positive"], number) for number, row in enumerate(rows)]
    return Corpus(FAQ_IDS, documents, _spaced([Asked(row["query"], frozenset({row["id"]})) for row in rows]))


def _translated(folder: Path, name: str, *, step: int) -> Corpus:
    """Return all passages in all languages, and every so manieth question, from the second, each in one language."""
    collection = find_collection(folder)
    if collection is None:
        raise EvaluationError(f"{folder} has no questions and passages")
    draw = random.Random(0)  # noqa: S311 - no secret
    documents = [
        _document(str(topic), text, f"{topic}/{language}")
        for topic, texts in enumerate(collection.passages)
        for language, text in sorted(texts.items())
    ]
    questions = [
        Asked(
            draw.choice([text for _, text in sorted(question.texts.items())]), frozenset(map(str, question.positives))
        )
        for question in collection.questions[step - 1 :: step]
    ]
    return Corpus(name, documents, questions)


def _one_a_topic(documents: Sequence[Document], seed: int) -> list[Document]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    by_topic: dict[str, list[Document]] = {}
    for document in documents:
        by_topic.setdefault(str(document.metadata["topic"]), []).append(document)
    return [draw.choice(translations) for translations in by_topic.values()]


def _spaced(questions: Sequence[Asked]) -> list[Asked]:
    return [questions[row] for row in evenly_spaced(len(questions), MOST_QUESTIONS)] if questions else []


def _document(topic: str, text: str, id_: object = None) -> Document:
    return Document(topic if id_ is None else str(id_), text, {"topic": topic})
