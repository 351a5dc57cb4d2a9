"""What a finished run says: `crosslet.json` for the exporter and the model card, and a few lines for its user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from training.corpora.catalog import load_catalog, source_row
from training.corpora.corpus import Corpus
from training.evaluation.report import HELD_OUT_METRIC, MetricScores
from training.evaluation.sts import find_sts, spread
from training.passages.questions import Questions
from training.pipeline.run import CHECKPOINT, Run
from training.system.files import RECORD_FILE, write_json_atomically

GATE_ROWS = 150  # rows of STSb dev a language, for the exporter's quality gate
PARITY_TEXTS = 2  # a language
CALIBRATION_TEXTS = 100  # a language, for the exporter's activation scales
WORST_PAIRS = 3  # named in the model card


def write_summary(run: Run, folder: Path) -> None:
    """Gather scores, data sources, parity texts and the quality gate's sentences."""
    config, last = run.config, run.models[-1]
    scores: dict[str, MetricScores] = {
        model: json.loads(path.read_text(encoding="utf-8"))
        for model in run.models
        if model in {*config.evaluation.steps, last} and (path := run.out / f"{model}-scores" / "scores.json").exists()
    }
    final = scores[last]
    questions = Questions.load(run.out / "questions") if "passages" in config.stages else None
    summary = {
        "name": config.name,
        "languages": sorted({"en", *(language.split("_")[0] for language in config.languages)}),
        "max_length": config.student.max_length,
        "config": config.model_dump(),
        "git_commit": training_commit(run.out / last),
        "pairs_seen": {stage: pairs_seen(run.out / stage) for stage in config.stages},
        "weaknesses": weaknesses(final, scores.get("start") if last != "start" else None),
        "evaluation": {**final, "averages_by_step": _averages(scores)},
        "data": data_sources(
            {source: run.corpus.count([source]) for source in run.corpus.sources}
            | (questions.counts if questions else {}),
            sources_before(run),
        ),
        "calibration_texts": calibration_texts(run.corpus) + (asked_texts(questions) if questions else []),
        "parity_texts": parity_texts(run.corpus),
        "sts_gate": sts_gate(run.scored, config.languages),
    }
    write_json_atomically(folder / RECORD_FILE, summary)


def training_commit(step: Path) -> str:
    """The commit that a step started at."""
    commit: str = json.loads((step / "done.json").read_text(encoding="utf-8"))["git_commit"]
    return commit


def pairs_seen(stage: Path) -> int:
    """How many pairs a finished stage trained on."""
    *_, last = (stage / "log.jsonl").read_text(encoding="utf-8").splitlines()
    pairs: int = json.loads(last)["pairs"]
    return pairs


def weaknesses(scores: MetricScores, start: MetricScores | None) -> list[str]:
    """Sentences for the model card: the weakest pairs, and those that training made worse.

    Args: start: scores of the untrained start; None: it was not scored.
    """
    sentences = []
    if "stsb_test" in scores:
        pairs = {pair: score for pair, score in scores["stsb_test"].items() if pair != "average"}
        worst = sorted(pairs, key=pairs.__getitem__)[:WORST_PAIRS]
        listed = ", ".join(f"{pair} {pairs[pair]:.1f}" for pair in worst)
        sentences.append(
            f"Weakest on the STS benchmark's test set, before export: {listed}; "
            f"the mean is {scores['stsb_test']['average']:.1f}."
        )
    if start is not None:
        sentences += [
            f"Below its untrained start on {metric}: {', '.join(worse)}."
            for metric, values in scores.items()
            if (worse := [name for name, score in values.items() if score < start.get(metric, {}).get(name, score)])
        ]
    return sentences


def sources_before(run: Run) -> list[dict[str, Any]]:
    """The sources of the checkpoint that the run goes on from."""
    record = Path(run.config.continue_from or "") / RECORD_FILE
    sources: list[dict[str, Any]] = json.loads(record.read_text(encoding="utf-8"))["data"] if record.is_file() else []
    return sources


def data_sources(counts: Mapping[str, int], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each source with its licence and its number of pairs: those before, then the others, largest first."""
    named = {row["source"] for row in before}
    rows = [source_row(name, pairs) for name, pairs in sorted(counts.items(), key=lambda item: -item[1]) if pairs]
    return [*before, *(row for row in rows if row["source"] not in named)]


def parity_texts(corpus: Corpus) -> dict[str, list[str]]:
    """A few texts a language, from freely redistributable sources if there are any."""
    known = load_catalog()
    is_free = np.array([source in known and known[source].terms == "permissive" for source in corpus.sources])
    texts: dict[str, list[str]] = {"en": []}
    for code, language in enumerate(corpus.languages):
        pairs = np.flatnonzero(corpus.language_code == code)
        free_first = np.argsort(~is_free[corpus.source_code[pairs]], kind="stable")
        chosen = pairs[free_first[:PARITY_TEXTS]]
        texts[language] = [corpus.texts[corpus.other[index]] for index in chosen]
        texts["en"] = texts["en"] or [corpus.texts[corpus.english[index]] for index in chosen]
    return texts


def calibration_texts(corpus: Corpus) -> list[str]:
    """Evenly spaced texts of every language, English included."""
    chosen: list[str] = []
    for code in range(len(corpus.languages)):
        pairs = np.flatnonzero(corpus.language_code == code)
        if len(pairs):
            spread = pairs[np.linspace(0, len(pairs) - 1, CALIBRATION_TEXTS).astype(int)]
            chosen += [corpus.texts[corpus.other[index]] for index in spread]
            chosen += [corpus.texts[corpus.english[index]] for index in spread[:: len(corpus.languages)]]
    return list(dict.fromkeys(chosen))


def asked_texts(questions: Questions) -> list[str]:
    """Evenly spaced questions of every language, and the passages that answer them."""
    chosen: list[int] = []
    for rows in questions.rows(held_out=False).values():
        spread = rows[np.linspace(0, len(rows) - 1, CALIBRATION_TEXTS).astype(int)]
        chosen += [*questions.question_Q[spread], *questions.passage_Q[spread]]
    return [questions.texts[text] for text in dict.fromkeys(chosen)]


def sts_gate(data: Path, languages: list[str]) -> list[tuple[float, str, str]]:
    """Rows of STSb dev, English and cross-lingual, evenly spaced over captions, forums and news."""
    rows: list[tuple[float, str, str]] = []
    readers = find_sts(data / "eval/stsb/dev")
    for pair in ["en-en", *(f"en-{language}" for language in languages)]:
        if pair in readers:
            rows += zip(*spread(readers[pair](), GATE_ROWS), strict=True)
    return rows if len({score for score, _, _ in rows}) > 1 else []  # else the export would refuse them


def _averages(scores: dict[str, MetricScores]) -> dict[str, dict[str, float]]:
    return {step: {name: values["average"] for name, values in each.items()} for step, each in scores.items()}


NAMES = {
    HELD_OUT_METRIC: "translation found first, of pairs held out of training",
    "tatoeba_p1": "translation found first, Tatoeba",
    "stsb_test": "similarity, English with the others, STSb test",
    "sts2017": "similarity, English with the others, STS2017",
}


def ending(run: Run) -> str:
    """A few lines of text."""
    folder = run.out / "final" / CHECKPOINT
    by_step = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))["evaluation"]["averages_by_step"]
    last, start = by_step[run.models[-1]], by_step.get("start", {})
    lines = [f"{title}: {_score(metric, last, start)}" for metric, title in NAMES.items() if metric in last]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    lines.append(f"model: {folder}, {size / 1e6:.0f} MB")
    export = f"--checkpoint {folder} --out models/{run.config.name} --word-bits 4"
    lines.append(f'next: make export ARGS="{export}"')
    return "\n".join(lines)


def _score(metric: str, last: dict[str, float], start: dict[str, float]) -> str:
    before = f" ({start[metric]:.1f} before training)" if metric in start else ""
    return f"{last[metric]:.1f}{before}"
