"""Finds the evaluation sets in a folder by their file layouts, and scores an encoder or a re-ranker on each."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from export.evaluation.confidence import recalibrate
from export.evaluation.mining import MiningRows, aligned_rows, evaluate_mining, find_mining
from export.evaluation.models import is_served_reranker, load_model, probabilities, served_reranker, two_stage_scorer
from export.evaluation.passages import best_passage_scorer, evaluate_passages, halves
from export.evaluation.search import evaluate_search
from export.evaluation.typed_queries import evaluate_typing, read_typed
from training.errors import EvaluationError
from training.evaluation.bitext import Bitext, Failure, evaluate_bitext, find_bitext, worst_failures
from training.evaluation.encoders import Split
from training.evaluation.lines import find_file, folders_under
from training.evaluation.paraphrase import evaluate_paraphrases, find_paraphrases
from training.evaluation.report import MetricScores, with_average
from training.evaluation.retrieval import evaluate_retrieval
from training.evaluation.search import BUNDLED, SearchSet, read_search
from training.evaluation.sts import evaluate_sts, find_sts, is_monolingual, languages_of
from training.evaluation.vectors import Encode, each_text_once
from training.reranking.checkpoint import is_cross_encoder, load_cross_encoder
from training.reranking.ranking import Scorer, couples_in, measure, sets_of
from training.reranking.readers import find_collection
from training.reranking.scorers import BiEncoderScorer, CrossEncoderScorer, bm25
from training.system.device import pick_device

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """What to score.

    Args:
        kinds: some of `SCORE_KIND`, in that order.
        languages: score only files in these and English, in any region or script (`pt` includes `pt_BR`); None: all.
            Does not apply to retrieval sets, whose file names have no language.
        threshold: the lowest margin of a mined pair; None: chosen on the half that is not scored.
        queries: at most this many of each set of passages or of re-ranking, evenly spaced; None: all.
        one_language: of the couples of a re-ranking set, only those of one language; mixed sets stay.
    """

    kinds: tuple[str, ...]
    languages: tuple[str, ...] | None = None
    threshold: float | None = None
    queries: int | None = None
    one_language: bool = False

    def allows(self, languages: Iterable[str]) -> bool:
        """Whether to score a file in these languages."""
        if self.languages is None:
            return True
        allowed = {"en", *self.languages}
        return all(language in allowed or language.split("_")[0] in allowed for language in languages)


@dataclass(frozen=True)
class Encoders:
    """A model's encoders: for plain texts, for queries and for documents; and its splitter of documents, if served."""

    text: Encode
    query: Encode
    document: Encode
    split: Split | None


def scores_of(options: argparse.Namespace) -> tuple[MetricScores, list[Failure]]:
    """The scores of a re-ranker, or of an encoder, with its worst failures if --failures asks for them.

    Raises: EvaluationError: the model or a set is missing or malformed.
    """
    folder = Path(options.model)
    if is_cross_encoder(folder) or is_served_reranker(folder):
        if options.dimensions is not None:
            raise EvaluationError("--dimensions cuts vectors; a re-ranker has none: leave it out")
        if options.calibrate:
            raise EvaluationError("--calibrate fits an encoder's confidence; name a re-ranker beside it by --reranker")
        return evaluate_reranker(_reranker(options), options.data, _choice(options, options.languages)), []
    if options.calibrate:
        if options.dimensions is not None:
            raise EvaluationError("--calibrate fits whole vectors, as they are served; leave --dimensions out")
        others = {name: getattr(options, name) for name in ("reranker", "queries", "distractors")}
        return recalibrate(folder, options.data, options.plot, **others), []
    model = load_model(options.model, trust_remote_code=options.trust_remote_code).cut(options.dimensions)
    choice = _choice(options, options.languages or model.languages)
    scores = evaluate_folder(
        model.encode,
        options.data,
        choice,
        query=model.encode_query,
        document=model.encode_document,
        split=model.split,
    )
    failures = [
        failure
        for folder in (folders_under(_root(options.data)) if options.failures else [])
        for failure in worst_failures(model.encode, _chosen_bitext(folder, choice), options.failures)
    ]
    return scores, failures


def _reranker(options: argparse.Namespace) -> dict[str, Scorer]:
    """The cross-encoder, BM25, and the bi-encoder to compare with, or whose first passages are re-ranked."""
    folder = Path(options.model)
    if is_cross_encoder(folder):
        model, tokenizer, facts = load_cross_encoder(folder)
        own: Scorer = CrossEncoderScorer(
            model.to(pick_device()), tokenizer, max_length=facts.max_length, bar=facts.name
        )
        name = f"{facts.name} ({folder})"
    else:
        own, name = served_reranker(folder)
    if options.baseline is None:
        logger.info("re-ranker %s reads all candidates", name)
        return {"": own, "_bm25": bm25}
    encoder = load_model(options.baseline, trust_remote_code=options.trust_remote_code)
    encoders = [each_text_once(encode, bar=encoder.name) for encode in (encoder.encode_query, encoder.encode_document)]
    first = BiEncoderScorer(*encoders)
    reads = "all candidates" if options.rerank_k is None else f"the first {options.rerank_k} of the baseline"
    logger.info("re-ranker %s reads %s; baseline %s (%s)", name, reads, encoder.name, encoder.revision)
    if options.rerank_k is not None:
        scores = probabilities(own) if isinstance(own, CrossEncoderScorer) else own
        own = two_stage_scorer(first, scores, options.rerank_k, options.rerank_weight)
    return {"": own, "_bm25": bm25, "_bi_encoder": first}


def _choice(options: argparse.Namespace, languages: Iterable[str] | None) -> Choice:
    chosen = tuple(languages) if languages else None
    return Choice(options.sets, chosen, options.threshold, options.queries, options.one_language)


def evaluate_folder(
    encode: Encode,
    data: Path,
    choice: Choice,
    *,
    query: Encode | None = None,
    document: Encode | None = None,
    split: Split | None = None,
) -> MetricScores:
    """Score every chosen set below `data`/eval, or below `data` if it has no `eval`. A set is named by its path.

    Args:   query, document: encoders for retrieval and search; None: `encode`.
            split: as `Model` has it; None: documents are scored whole only.
    Raises: EvaluationError: there is no such folder, no set in it, or a line of a set is malformed.
    """
    once = {one: each_text_once(one) for one in (encode, query or encode, document or encode)}
    encoders = Encoders(once[encode], once[query or encode], once[document or encode], split)
    if split is None and "passages" in choice.kinds:
        logger.info("passages: documents are scored whole only, since the model is not an artifact")
    kinds = {kind: partial(SCORE_KIND[kind], encoders) for kind in choice.kinds}
    return _evaluate(kinds, data, choice)


def evaluate_reranker(scorers: Mapping[str, Scorer], data: Path, choice: Choice) -> MetricScores:
    """Score a cross-encoder on the re-ranking sets of a folder.

    Raises: EvaluationError: another kind is requested, there is no such folder, or no set in it.
    """
    if choice.kinds == EVERY_KIND:
        logger.info("skipped all but rerank: a cross-encoder has no embeddings")
    elif choice.kinds != ("rerank",):
        raise EvaluationError("a cross-encoder has no embeddings; score it with --sets rerank")
    return _evaluate({"rerank": partial(rerank_scores, scorers)}, data, choice)


def _evaluate(kinds: Mapping[str, Callable[[Path, Choice], MetricScores]], data: Path, choice: Choice) -> MetricScores:
    root = _root(data)
    named: dict[str, Path] = {}
    for folder in folders_under(root):
        name = "_".join(folder.relative_to(root).parts) or root.resolve().name
        if any(path.is_file() for path in folder.iterdir()) and (first := named.setdefault(name, folder)) != folder:
            raise EvaluationError(f"the scores of {first} and {folder} would have one name, {name}: rename a folder")
    folders = [*named.items()]
    if tuple(kinds) == EVERY_KIND and not any(find_file(folder / "documents.jsonl") for _, folder in folders):
        folders.append(("search", BUNDLED / "search"))
    scores: MetricScores = {}
    skipped = dict.fromkeys(kinds)
    for name, folder in folders:
        for kind, score in kinds.items():
            found = {f"{name}{metric}": values for metric, values in score(folder, choice).items() if values}
            if found:
                logger.info("scored %s: %s", kind, name)
                skipped.pop(kind, None)
            scores |= found
    among = "" if choice.languages is None else f" in {', '.join(choice.languages)}"
    if scores and skipped:
        logger.info("skipped %s: %s has no such set%s", ", ".join(skipped), root, among)
    if not scores:
        guide = "rerank-training" if tuple(kinds) == ("rerank",) else "evaluate"
        raise EvaluationError(
            f"{root} has no evaluation set for {', '.join(kinds)}{among}; docs/guide/{guide}.md has the layouts"
        )
    return scores


def _root(data: Path) -> Path:
    if not data.is_dir():
        raise EvaluationError(f"there is no folder {data}")
    return data / "eval" if (data / "eval").is_dir() else data


def _sts(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    pairs = [pair for pair in find_sts(folder) if choice.allows(languages_of(pair))]
    crosslingual = [pair for pair in pairs if not is_monolingual(pair)]
    monolingual = [pair for pair in pairs if is_monolingual(pair)]
    return {
        "": with_average(evaluate_sts(encoders.text, folder, crosslingual)),
        "_monolingual": with_average(evaluate_sts(encoders.text, folder, monolingual)),
    }


def _paraphrase(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    sets = find_paraphrases(folder)
    languages = [language for language in sets if choice.allows([language])]
    scores = evaluate_paraphrases(encoders.text, sets, languages)
    return {f"_{metric}": with_average(values) for metric, values in scores.items()}


def _bitext(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    scores = evaluate_bitext(encoders.text, _chosen_bitext(folder, choice))
    return {f"_{metric}": with_average(values) for metric, values in scores.items()}


def _chosen_bitext(folder: Path, choice: Choice) -> dict[str, Bitext]:
    return {label: bitext for label, bitext in find_bitext(folder).items() if choice.allows(bitext.languages)}


def _mining(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    tasks: dict[str, Callable[[], MiningRows]] = {
        label: partial(aligned_rows, bitext) for label, bitext in _chosen_bitext(folder, choice).items()
    }
    tasks |= {label: files.read for label, files in find_mining(folder).items() if choice.allows(files.languages)}
    scores = evaluate_mining(encoders.text, tasks, threshold=choice.threshold)
    thresholds = scores.pop("mining_threshold", {})  # an average of thresholds means nothing
    return {
        **{f"_{metric}": with_average(values) for metric, values in scores.items()},
        "_mining_threshold": thresholds,
    }


def _retrieval(encoders: Encoders, folder: Path, _: Choice) -> MetricScores:
    return {"": evaluate_retrieval(encoders.query, folder, encode_passages=encoders.document)}


def _search(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    found = read_search(folder)
    if found is None:
        return {}
    queries = [query for query in found.queries if choice.allows([query.language])]
    if not any(query.document is not None and not query.is_dev for query in queries):
        logger.warning("%s is left out: no test query in the languages asked for has an answer", folder)
        return {}
    return evaluate_search(encoders.query, encoders.document, SearchSet(found.documents, queries))


def _passages(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    collection = find_collection(folder)
    if collection is None:
        return {}
    scorers: dict[str, Scorer] = {"whole": BiEncoderScorer(encoders.query, encoders.document)}
    if encoders.split:
        scorers["split"] = best_passage_scorer(encoders.query, encoders.document, encoders.split)
    languages = sorted(language for language in collection.languages if choice.allows([language]))
    return {
        f"_passages{part}_{metric}": values
        for part, half in halves(folder, collection).items()
        for metric, values in evaluate_passages(scorers, half, languages, queries=choice.queries).items()
    }


def _typing(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    typed = read_typed(folder)
    if typed is None:
        return {}
    chosen = replace(typed, queries=[query for query in typed.queries if choice.allows([query.language])])
    return evaluate_typing(encoders.query, encoders.document, encoders.split, chosen) if chosen.queries else {}


def _rerank(encoders: Encoders, folder: Path, choice: Choice) -> MetricScores:
    own = BiEncoderScorer(encoders.query, encoders.document)
    return rerank_scores({"": own, "_bm25": bm25}, folder, choice)


def rerank_scores(scorers: Mapping[str, Scorer], folder: Path, choice: Choice) -> MetricScores:
    """Metrics of each scorer on a folder's questions and passages: all languages mixed, and by language pair.

    Args: scorers: suffix of the metric's name -> scorer.
    """
    found = find_collection(folder)
    if found is None:
        return {}
    languages = sorted(language for language in found.languages if choice.allows([language]))
    couples = [couple for couple in couples_in(found) if choice.allows(couple.split("-"))]
    if choice.one_language:
        couples = [f"{language}-{language}" for language in languages if f"{language}-{language}" in couples]
    scores = measure(scorers, sets_of(found, languages, couples, queries=choice.queries))
    return {
        f"_{metric}{name}": values for name, metrics in scores.items() for metric, values in metrics.items() if values
    }


SCORE_KIND: dict[str, Callable[[Encoders, Path, Choice], MetricScores]] = {
    "sts": _sts,
    "paraphrase": _paraphrase,
    "bitext": _bitext,
    "mining": _mining,
    "retrieval": _retrieval,
    "search": _search,
    "typing": _typing,
    "passages": _passages,
    "rerank": _rerank,
}
EVERY_KIND = tuple(SCORE_KIND)
