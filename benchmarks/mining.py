"""Prints precision and recall of `crosslet mine` and `crosslet dedup` on aligned lines mixed with unrelated ones.

python -m benchmarks.mining --data DIR [--model FOLDER] [--languages de] [--sets flores] [--tasks mine]
DIR holds LASER's `tatoeba/tatoeba.<xxx>-eng.<xxx>` and `.eng`, and `flores200/devtest.<xx>.txt.gz`. Minutes; writes no
files. The last quarter of the English lines and the first quarter of the others are left out, so that a third of
each side has no translation.

mine   the gold pairs are the translations that remain.
dedup  joins both sides. The gold pairs are translations and lines of equal text; found pairs are those within a group.
       A paraphrase in one language counts as wrong. `dedup-cosine`: with --margin 0, by cosine alone.
--several prints instead how `dedup` does at its defaults on 150 sentences of FLORES, each in five languages.
"""

import argparse
import itertools
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean

from service.cli.mining import COSINE, DEDUP_MARGIN
from service.documents.readers.jsonl import Lines
from service.model.encoder import load_encoder
from service.offline.embedding import Engine, engine_of
from service.offline.mining import (
    MARGIN_NEIGHBOURS,
    Firsts,
    Halves,
    embed_lines,
    find_groups,
    groups_by_margin,
    leaders,
    mine_rows,
)
from service.process.cpus import usable_cpus
from service.settings import BUNDLED_MODEL, Settings
from training.evaluation.bitext import find_bitext

LANGUAGES = ("ar", "cs", "de", "es", "fr", "hi", "id", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "vi", "zh")
FOLDERS = {"tatoeba": "tatoeba", "flores": "flores200"}
MARGINS = (1.0, 1.06, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4)
DEDUP_MARGINS = (1.2, 1.4, 1.6, 1.8, 2.0)
COSINES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
SENTENCES = 150  # of `several`
HEADER = "| lines | threshold | precision | lowest | recall | lowest |\n|---|---:|---:|---:|---:|---:|"
Pairs = set[tuple[str, str]]
Score = tuple[float, float]  # precision and recall, in percent


def read(folder: Path, name: str, language: str, count: int) -> tuple[list[str], list[str]]:
    texts, english = find_bitext(folder / FOLDERS[name])[language].read()
    return texts[:count], english[:count]


def write(folder: str, name: str, lines: Sequence[str]) -> Path:
    path = Path(folder) / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def score(found: Pairs, gold: Pairs) -> Score:
    right = len(found & gold)
    return 100 * right / max(1, len(found)), 100 * right / len(gold)


def mine(texts: list[str], english: list[str], engine: Engine, dim: int) -> list[Score]:
    quarter = len(texts) // 4
    gold = set(zip(texts[quarter:-quarter], english[quarter:-quarter], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        paths = (write(folder, "a", texts[quarter:]), write(folder, "b", english[:-quarter]))
        with Lines(paths[0]) as left, Lines(paths[1]) as right:
            mined = mine_rows(left, right, engine, k=MARGIN_NEIGHBOURS, dim=dim, settings=Settings())
            pairs = [(margin, left.text(row), right.text(other)) for margin, row, other in mined]
    return [score({(a, b) for margin, a, b in pairs if margin >= threshold}, gold) for threshold in MARGINS]


def by_margin(vectors_ND: Halves) -> Iterator[Firsts]:
    for margin in DEDUP_MARGINS:
        yield groups_by_margin(
            vectors_ND, cosine=COSINE, margin=margin, threads=usable_cpus(), advance=lambda rows: None
        )


def by_cosine(vectors_ND: Halves) -> Iterator[Firsts]:
    for threshold in COSINES:
        yield leaders(vectors_ND, threshold, advance=lambda rows: None)


def dedup(
    group: Callable[[Halves], Iterator[Firsts]], texts: list[str], english: list[str], engine: Engine, dim: int
) -> list[Score]:
    quarter = len(texts) // 4
    lines_of = texts[quarter:] + english[:-quarter]
    gold = set(zip(texts[quarter:-quarter], english[quarter:-quarter], strict=True)) | pairs_of_equals(lines_of)
    scores = []
    with tempfile.TemporaryDirectory() as folder, Lines(write(folder, "a", lines_of)) as lines:
        vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=Settings().max_text_chars)
        for first_N in group(vectors_ND):
            groups: dict[int, list[str]] = defaultdict(list)
            for row, first in enumerate(first_N.tolist()):
                groups[first].append(lines.text(row))
            scores.append(score({pair for group in groups.values() for pair in itertools.combinations(group, 2)}, gold))
    return scores


def pairs_of_equals(texts: list[str]) -> Pairs:
    return {(text, text) for text in texts if texts.count(text) > 1}


def several(folder: Path, engine: Engine, dim: int) -> str:
    """How many lines join the group of their own sentence, and of another, in a file of five languages."""
    texts = [read(folder, "flores", language, SENTENCES)[0] for language in ("de", "fr", "es", "ja")]
    lines_of = [line for side in (read(folder, "flores", "de", SENTENCES)[1], *texts) for line in side]
    with tempfile.TemporaryDirectory() as scratch, Lines(write(scratch, "a", lines_of)) as lines:
        first_N = find_groups(lines, engine, cosine=COSINE, margin=DEDUP_MARGIN, dim=dim, settings=Settings())
    joined = [(row % SENTENCES, first % SENTENCES) for row, first in enumerate(first_N.tolist()) if row != first]
    right = sum(own == other for own, other in joined)
    return f"{right} of {len(lines_of) - SENTENCES} repeats found, {len(joined) - right} wrong"


Task = Callable[[list[str], list[str], Engine, int], list[Score]]
TASKS: dict[str, tuple[Task, Sequence[float]]] = {
    "mine": (mine, MARGINS),
    "dedup": (partial(dedup, by_margin), DEDUP_MARGINS),
    "dedup-cosine": (partial(dedup, by_cosine), COSINES),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL)
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--sets", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--several", action="store_true")
    options = parser.parse_args(arguments)
    encoder = load_encoder(options.model)
    engine, dim = engine_of("threads", encoder, Settings(), prompt=encoder.prompts.default), encoder.manifest.dim
    if options.several:
        print(several(options.data, engine, dim))
        return
    for name in options.tasks:
        task, thresholds = TASKS[name]
        print(f"\n{name}\n\n{HEADER}")
        for of in options.sets:
            scores = [
                task(*read(options.data, of, language, options.lines), engine, dim) for language in options.languages
            ]
            for threshold, at_threshold in zip(thresholds, zip(*scores, strict=True), strict=True):
                cells = [f"{of} | {threshold:.2f}"]
                for values in zip(*at_threshold, strict=True):
                    lowest = min(range(len(values)), key=values.__getitem__)
                    cells.append(f"{mean(values):.1f} | {values[lowest]:.1f} ({options.languages[lowest]})")
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
