"""Prints precision and recall of `crosslet mine` and `crosslet dedup` on aligned files.

python -m benchmarks.mining --data DIR [--model FOLDER] [--languages deu tur] [--tasks mine dedup] [--lines 1000]
DIR holds LASER's Tatoeba files, `tatoeba.<xxx>-eng.<xxx>` and `.eng`; about a minute a language; writes no files.

mine   omits the last quarter of the English lines and the first quarter of the others. So a third of each file has no
       translation in the other. The gold pairs are the translations that remain.
dedup  joins both files. The gold pairs are translations and lines of equal text; found pairs are those within a group.
"""

import argparse
import itertools
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from service.bulk.engine import Engine
from service.bulk.engines import engine_of
from service.bulk.lines import Lines
from service.bulk.margin import NEIGHBOURS
from service.bulk.mining import mine_rows
from service.bulk.neighbours import leaders
from service.bulk.texts import embed_lines
from service.model.encoder import load_encoder
from service.settings import BUNDLED_MODEL, Settings

MARGINS = (1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.15, 1.2, 1.3)
COSINES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
HEADER = "| language | threshold | found | precision | recall | F1 |\n|---|---:|---:|---:|---:|---:|"
Pairs = set[tuple[str, str]]


def read(path: Path, count: int) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[:count]


def write(folder: Path, name: str, lines: Sequence[str]) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def report(name: str, threshold: float, found: Pairs, gold: Pairs) -> None:
    right = len(found & gold)
    precision, recall = 100 * right / max(1, len(found)), 100 * right / len(gold)
    f1 = 200 * right / (len(found) + len(gold))
    print(f"| {name} | {threshold:.2f} | {len(found)} | {precision:.1f} | {recall:.1f} | {f1:.1f} |", flush=True)


def mine(name: str, texts: list[str], english: list[str], engine: Engine, dim: int) -> None:
    settings, quarter = Settings(), len(texts) // 4
    gold = set(zip(texts[quarter:-quarter], english[quarter:-quarter], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        paths = (write(Path(folder), "a", texts[quarter:]), write(Path(folder), "b", english[:-quarter]))
        with Lines(paths[0]) as left, Lines(paths[1]) as right:
            mined = mine_rows(left, right, engine, k=NEIGHBOURS, dim=dim, settings=settings)
            pairs = [(margin, left.text(row), right.text(other)) for margin, row, other in mined]
    for threshold in MARGINS:
        report(name, threshold, {(a, b) for margin, a, b in pairs if margin >= threshold}, gold)


def dedup(name: str, texts: list[str], english: list[str], engine: Engine, dim: int) -> None:
    lines_of = texts + english
    gold = set(zip(texts, english, strict=True)) | pairs_of_equals(texts) | pairs_of_equals(english)
    with tempfile.TemporaryDirectory() as folder, Lines(write(Path(folder), "a", lines_of)) as lines:
        vectors_ND = embed_lines(lines, engine, dim=dim, max_text_chars=Settings().max_text_chars)
        for threshold in COSINES:
            groups: dict[int, list[str]] = defaultdict(list)
            for row, first in enumerate(leaders(vectors_ND, threshold, advance=lambda rows: None).tolist()):
                groups[first].append(lines.text(row))
            found = {pair for group in groups.values() for pair in itertools.combinations(group, 2)}
            report(name, threshold, found, gold)


def pairs_of_equals(texts: list[str]) -> Pairs:
    return {(text, text) for text in texts if texts.count(text) > 1}


TASKS = {"mine": mine, "dedup": dedup}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL)
    parser.add_argument("--languages", nargs="+", default=["deu", "tur"])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--lines", type=int, default=1000)
    options = parser.parse_args(arguments)
    encoder = load_encoder(options.model)
    engine, dim = engine_of("threads", encoder, Settings(), prompt=encoder.prompts.default), encoder.manifest.dim
    for name in options.tasks:
        task = TASKS[name]
        print(f"\n{name}\n\n{HEADER}")
        for language in options.languages:
            stem = options.data / f"tatoeba.{language}-eng"
            texts, english = (read(Path(f"{stem}.{side}"), options.lines) for side in (language, "eng"))
            task(language, texts, english, engine, dim)


if __name__ == "__main__":
    sys.exit(main())
