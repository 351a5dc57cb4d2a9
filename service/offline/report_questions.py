"""Measures the confidence of a collection's searches by its users' questions, and recalibrates it.

Q questions, N candidates
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.documents.interface import DocumentIndex, Matches, Query, ResultOptions
from service.documents.readers.jsonl import read_jsonl
from service.documents.readers.records import open_file
from service.documents.recalibration import MAX_SCALE, MAX_SHIFT, MIN_SCALE, Recalibration
from service.errors import InferenceFailed, InvalidInput, StartError
from service.model.artifact import Manifest
from service.model.confidence import MAX_LOGIT, ConfidenceModel, Evidence, calibration_error, features, reliability
from service.offline.embedding import Engine

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Advance = Callable[[int], object]

BATCH = 64
OPTIONS = ResultOptions(metadata=False, passage=False, compared=20)  # as many as the service compares
TOP_K = 20  # results among which answers are looked for
LEAST_QUESTIONS, LEAST_OF_A_KIND = 50, 10  # to learn from: all, and of the right and of the wrong
SCALE_SPREAD = 0.5  # standard deviation of a scale around 1 before any question is asked; of a shift around 0: 1
FOLDS, ROUNDS = 5, 50
DIGITS = 4  # of a share
SURE = 0.8
THRESHOLDS = (0.5, 0.6, 0.7, SURE, 0.9, 0.95)
LEAST_SHARE, MOST_SHARE = 0.02, 0.98  # of questions that have an answer


def logistic_each(odds_Q: Floats) -> Floats:
    """Return the probability of each log odds."""
    said_Q: Floats = 1 / (1 + np.exp(-odds_Q.clip(-MAX_LOGIT, MAX_LOGIT)))
    return said_Q


@dataclass(frozen=True)
class Question:
    """What a user asked. ids: of the documents that answer; empty: none does; None: nobody has said."""

    text: str
    ids: frozenset[str] | None


@dataclass(frozen=True)
class Coverage:
    """What a `min_confidence` does. answered: share of questions.  right: share of those; None: nobody has said."""

    min_confidence: float
    answered: float
    right: float | None


@dataclass(frozen=True)
class QuestionReport:
    """Shares are in [0, 1].

    questions, labelled: all, and those with ids.
    answerable: share of questions that have an answer.  is_estimated: from confidences alone.
    is_learnt: whether the questions say so.
    right: share of labelled questions whose first result is right.
    error, recalibrated_error: expected difference of confidence and share right; each fold by what the others fit.
    bins: mass, mean confidence and share right of ten bins, recalibrated if it was.
    reason: why there is no recalibration.
    """

    questions: int
    labelled: int
    answerable: float
    is_estimated: bool
    is_learnt: bool
    right: float | None = None
    error: float | None = None
    recalibrated_error: float | None = None
    coverage: Sequence[Coverage] = ()
    bins: Sequence[tuple[float, float, float]] = ()
    recalibration: Recalibration | None = None
    reason: str | None = None


@dataclass
class Searches:
    """What questions found: the model's log odds, without a prior; of labelled ones also whether the first is right.

    labelled: odds, whether right, and weight of each search.  hits: whether right, of each labelled question.
    """

    labelled: list[tuple[float, bool, float]] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)
    unlabelled: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Labelled:
    """Searches whose right results are known. odds_Q: log odds by the model, with the expected share of answers."""

    odds_Q: Floats
    is_right_Q: Flags
    weight_Q: Floats

    def error(self, said_Q: Floats) -> float:
        """Return the expected difference of what was said and the share that is right."""
        return _rounded(calibration_error(said_Q, self.is_right_Q, self.weight_Q))


def read_questions(path: Path, readable: Callable[[str, str], str]) -> list[Question]:
    """Read lines of JSON: {"query": "...", "ids": ["..."]}. readable: returns a text, by its name, or refuses it.

    Raises: InvalidInput: a line is something else, or there is none.
    """
    questions = []
    with closing(open_file(path)) as file:
        for record in read_jsonl(file):
            where = f"{path} line {record.line}"
            text, ids = record.fields.get("query"), record.fields.get("ids")
            is_listed = ids is None or (isinstance(ids, list) and all(isinstance(id_, str) for id_ in ids))
            if record.fault or not isinstance(text, str) or not is_listed:
                fault = record.fault or 'is no question: {"query": "...", "ids": ["..."]}; without an answer "ids": []'
                raise InvalidInput(f"{where} {fault}")
            questions.append(Question(readable(text, where), None if ids is None else frozenset(ids)))
    if not questions:
        raise InvalidInput(f"{path} has no question")
    return questions


def measure_questions(
    index: DocumentIndex,
    questions: Sequence[Question],
    manifest: Manifest,
    engine: Engine,
    *,
    with_words: bool,
    answerable: float,
    advance: Advance,
) -> QuestionReport:
    """Ask a collection questions, without a re-ranker.

    Questions with an answer are asked again without it, unless some are labelled as having none.

    Args:   engine: embeds queries.  with_words: whether words count, too, as in mode hybrid.
            answerable: share expected to have an answer.
            advance: called with the number of further questions.
    Raises: StartError: the model has no confidence.  InvalidInput: an id is unknown.  InferenceFailed.
    """
    model = manifest.confidence
    if model is None:
        raise StartError(f"model {manifest.name} was not calibrated (`crosslet evaluate --calibrate`)")
    _check_ids(index, questions)
    labels = [question.ids for question in questions if question.ids is not None]
    has_unanswerable = not all(labels)
    results = _results(index, questions, engine, with_words=with_words)
    searches = _ask(questions, results, model, advance, asked_twice=None if has_unanswerable else answerable)
    is_counted = has_unanswerable and len(labels) >= LEAST_QUESTIONS
    is_estimated = not is_counted and len(searches.unlabelled) >= LEAST_QUESTIONS
    share = answerable
    if is_counted:
        share = _bounded(float(np.mean([bool(ids) for ids in labels])))
    elif is_estimated:
        share = _estimated_share(np.array(searches.unlabelled), model)
    learnt = share if is_counted or is_estimated else None
    prior = model.prior_shift(share)
    report = QuestionReport(len(questions), len(labels), share, is_estimated=is_estimated, is_learnt=learnt is not None)
    if not searches.labelled:
        said_Q = logistic_each(np.array(searches.unlabelled) + prior)
        return replace(
            report,
            coverage=[Coverage(least, _rounded((said_Q >= least).mean()), None) for least in THRESHOLDS],
            recalibration=None if learnt is None else Recalibration(learnt),
            reason="no question has ids: nobody has said which documents answer",
        )
    odds_Q, is_right_Q, weight_Q = (np.array(column) for column in zip(*searches.labelled, strict=True))
    labelled = Labelled(odds_Q, is_right_Q, weight_Q / weight_Q.sum() * len(searches.hits))
    said_Q = logistic_each(labelled.odds_Q + prior)
    report = replace(report, right=_rounded(np.mean(searches.hits)), error=labelled.error(said_Q))
    reason = _too_few(searches.hits)
    if reason is None:
        said_Q = _cross_validated(labelled, prior)
        scale, shift = _fit(labelled, prior)
        report = replace(
            report,
            recalibrated_error=labelled.error(said_Q),
            recalibration=Recalibration(learnt, scale, shift, manifest.confidence_fingerprint),
        )
    elif learnt is not None:
        report = replace(report, recalibration=Recalibration(learnt))
    return replace(
        report,
        reason=reason,
        coverage=[*_coverage(said_Q, labelled)],
        bins=[
            (_rounded(mass), _rounded(said), _rounded(true))
            for mass, said, true in reliability(said_Q, labelled.is_right_Q, labelled.weight_Q)
        ],
    )


def question_facts(report: QuestionReport) -> dict[str, str]:
    """Return the figures to read first, by what they say."""
    facts = {"questions": f"{report.questions:,}, of which {report.labelled:,} with ids"}
    source = "estimated" if report.is_estimated else "expected" if not report.is_learnt else "by their ids"
    facts["have an answer"] = f"{report.answerable:.0%}, {source}"
    if report.right is not None and report.error is not None:
        facts["first result right"] = f"{report.right:.0%}"
        later = report.recalibrated_error
        facts["confidence is off by"] = f"{report.error:.1%}" + ("" if later is None else f", recalibrated {later:.1%}")
    sure = next(row for row in report.coverage if row.min_confidence == SURE)
    right = "" if sure.right is None else f", {sure.right:.0%} of them right"
    facts[f"answered from {SURE}"] = f"{sure.answered:.0%}{right}"
    facts["recalibration"] = report.reason or "ready"
    return facts


def _check_ids(index: DocumentIndex, questions: Sequence[Question]) -> None:
    ids = sorted({id_ for question in questions for id_ in question.ids or ()})
    for start in range(0, len(ids), BATCH):
        known = index.documents_of(ids[start : start + BATCH])
        unknown = [id_ for id_ in ids[start : start + BATCH] if id_ not in known]
        if unknown:
            raise InvalidInput(f"a question names document {unknown[0]!r}, which the collection does not have")


def _ask(
    questions: Sequence[Question],
    results: Iterable[Matches],
    model: ConfidenceModel,
    advance: Advance,
    *,
    asked_twice: float | None,
) -> Searches:
    """asked_twice: the share of questions with an answer, where each is also asked without it; None: asked once."""
    searches = Searches()
    for question, matches in zip(questions, results, strict=True):
        advance(1)
        odds = _log_odds(matches.evidence, model)
        if odds is None:
            continue
        if question.ids is None:
            searches.unlabelled.append(odds)
            continue
        is_right = matches[0].document.id in question.ids
        searches.hits.append(is_right)
        searches.labelled.append((odds, is_right, 1 if asked_twice is None else asked_twice))
        if asked_twice is not None:
            odds = _log_odds(evidence_without(matches, question.ids), model)
            if odds is not None:
                searches.labelled.append((odds, False, 1 - asked_twice))
    if not searches.labelled and not searches.unlabelled:
        raise StartError("confidence needs documents that differ, and every question finds none or one")
    return searches


def _results(
    index: DocumentIndex, questions: Sequence[Question], engine: Engine, *, with_words: bool
) -> Iterator[Matches]:
    batches = [questions[start : start + BATCH] for start in range(0, len(questions), BATCH)]
    embedded = engine([question.text for question in batch] for batch in batches)
    for batch, vectors in zip(batches, embedded, strict=True):
        for error in vectors.failed.values():
            raise InferenceFailed(f"a question cannot be embedded: {error}")
        for question, vector_D in zip(batch, vectors.vectors_ND, strict=True):
            words = question.text if with_words else None
            yield from index.search_all([Query(vector_D, words, text=question.text)], top_k=TOP_K, options=OPTIONS)


def evidence_without(matches: Matches, ids: frozenset[str]) -> Evidence | None:
    """Return the evidence as if some documents were not there. None: no other was found."""
    whole = matches.evidence
    rest = next((match for match in matches if match.document.id not in ids), None)
    if whole is None or rest is None:
        return None
    gone = {match.row for match in matches if match.document.id in ids}
    kept_N = np.array([row not in gone for row in whole.rows_N])
    place_of = np.cumsum(kept_N) - 1
    kept_P = kept_N[whole.place_P]
    rows_N = [row for row in whole.rows_N if row not in gone]
    return replace(
        whole,
        first=rows_N.index(rest.row),
        text=rest.document.text,
        searched=whole.searched - len(gone),
        rows_N=rows_N,
        cosine_N=whole.cosine_N[kept_N],
        score_N=whole.score_N[kept_N],
        share_N=None if whole.share_N is None else whole.share_N[kept_N],
        place_P=place_of[whole.place_P[kept_P]],
        vectors_PD=whole.vectors_PD[kept_P],
    )


def _log_odds(evidence: Evidence | None, model: ConfidenceModel) -> float | None:
    feature_F = None if evidence is None else features(evidence, different=model.different)
    return None if feature_F is None else model.log_odds(feature_F)


def _estimated_share(odds_Q: Floats, model: ConfidenceModel) -> float:
    """Return the share of questions with an answer under which confidences are right on average.

    By expectation maximisation, Saerens et al. 2002: Adjusting the outputs of a classifier to new a priori
    probabilities.
    """
    share = model.right / model.found
    for _ in range(ROUNDS):
        share = _bounded(float(logistic_each(odds_Q + model.prior_shift(share)).mean()) / model.found)
    return share


def _bounded(share: float) -> float:
    return _rounded(min(max(share, LEAST_SHARE), MOST_SHARE))


def _rounded(share: float | np.floating) -> float:
    return round(float(share), DIGITS)


def _too_few(hits: Sequence[bool]) -> str | None:
    right, wrong = sum(hits), len(hits) - sum(hits)
    if len(hits) >= LEAST_QUESTIONS and min(right, wrong) >= LEAST_OF_A_KIND:
        return None
    return (
        f"{right} right and {wrong} wrong first results; a recalibration takes {LEAST_QUESTIONS} questions with ids, "
        f"and {LEAST_OF_A_KIND} of each kind"
    )


def _fit(labelled: Labelled, prior: float) -> tuple[float, float]:
    """Return scale and shift of the log odds, by Newton's method: most probable from 1 and 0, normally distributed."""
    input_Q2 = np.stack([labelled.odds_Q, np.ones_like(labelled.odds_Q)], axis=1)
    start_2, precision_2 = np.array([1.0, 0.0]), np.array([SCALE_SPREAD**-2, 1.0])
    both_2 = start_2.copy()
    for _ in range(ROUNDS):
        said_Q = logistic_each(input_Q2 @ both_2 + prior)
        slope_2 = input_Q2.T @ (labelled.weight_Q * (said_Q - labelled.is_right_Q)) + precision_2 * (both_2 - start_2)
        curve_Q = labelled.weight_Q * said_Q * (1 - said_Q)
        step_2 = np.linalg.solve((input_Q2 * curve_Q[:, None]).T @ input_Q2 + np.diag(precision_2), slope_2)
        both_2 = (both_2 - step_2.clip(-1, 1)).clip([MIN_SCALE, -MAX_SHIFT], [MAX_SCALE, MAX_SHIFT])
    return round(float(both_2[0]), 4), round(float(both_2[1]), 4)


def _cross_validated(labelled: Labelled, prior: float) -> Floats:
    """Return the confidence of each search, recalibrated by those of the other folds."""
    fold_Q = np.random.default_rng(0).permutation(len(labelled.odds_Q)) % FOLDS
    said_Q = np.empty(len(fold_Q))
    for fold in range(FOLDS):
        others_Q, own_Q = fold_Q != fold, fold_Q == fold
        others = Labelled(labelled.odds_Q[others_Q], labelled.is_right_Q[others_Q], labelled.weight_Q[others_Q])
        scale, shift = _fit(others, prior)
        said_Q[own_Q] = logistic_each(scale * labelled.odds_Q[own_Q] + shift + prior)
    return said_Q


def _coverage(said_Q: Floats, labelled: Labelled) -> Iterator[Coverage]:
    total = labelled.weight_Q.sum()
    for least in THRESHOLDS:
        weight_Q = labelled.weight_Q * (said_Q >= least)
        answered = weight_Q.sum()
        right = _rounded(weight_Q @ labelled.is_right_Q / answered) if answered else None
        yield Coverage(least, _rounded(answered / total), right)
