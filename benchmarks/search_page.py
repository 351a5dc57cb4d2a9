"""Writes the page and the plot of `benchmarks.index_scale`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "crosslet"  # reproducible files
from matplotlib import pyplot as plt  # noqa: E402 - after the choice of a backend

from training.system.device import cpu_model  # noqa: E402

PAGE, PLOT = Path("search.md"), Path("search.svg")
OURS = "crosslet"
COLOURS = {
    OURS: "#1f6f5c",
    "FAISS IVF": "#7fb3a3",
    "FAISS flat": "#9aa5ac",
    "milvus-lite": "#c27c3e",
    "txtai": "#6a6fb5",
}
HEAD = """# Search: time and recall as documents grow

Written by `python -m benchmarks.index_scale`; do not edit. Each search is for the 10 nearest, one at a time, on one
thread. crosslet and FAISS take turns in three rounds of all queries; milvus-lite gets each query once.

- crosslet: the whole look-up, with index, the candidates' vectors, and texts from SQLite.
- FAISS IVF: the index inside crosslet alone, with as many lists probed.
- txtai also keeps its texts in SQLite. txtai and milvus-lite have their default settings.
- Recall@10: against exact search. MiB: vectors in memory. A dash: unknown or not measured.
- Load: until documents are committed to disk and the index is built. milvus-lite is also closed and reopened, since
  only that waits for its index. txtai's `save` is not included, so a crash would lose its documents. FAISS flat copies
  vectors.
"""


@dataclass(frozen=True)
class Measured:
    """One row of the table. None: unknown or not measured."""

    documents: int
    name: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    recall: float | None = None
    mib: float | None = None
    load_s: float | None = None


@dataclass(frozen=True)
class Setting:
    model: str
    fingerprint: str
    real: int  # sentences
    queries: int
    options: tuple[str, ...]  # of the command, except --data


def write_page(found: Sequence[Measured], setting: Setting, docs: Path) -> None:
    draw(found, docs / PLOT)
    (docs / PAGE).write_text(page(found, setting), encoding="utf-8")


def page(found: Sequence[Measured], setting: Setting) -> str:
    command = f"python -m benchmarks.index_scale --data DIR {shlex.join(setting.options)}"
    facts = [
        f"- Machine: {cpu_model()}",
        f"- Vectors: {setting.model} {setting.fingerprint[:12]}, of {setting.real:,} real sentences in its languages, "
        f"sampled at random; beyond that repeated with noise; {setting.queries} other sentences as queries",
        f"- Command: `{command}`",
    ]
    head = "| documents | | p50, ms | p99, ms | recall@10 | MiB | load, s |\n|---:|---|---:|---:|---:|---:|---:|"
    table = "\n".join([head, *map(row, found)])
    return "\n\n".join([HEAD.strip(), f"![p50 by documents]({PLOT})", "\n".join(facts), table]) + "\n"


def row(one: Measured) -> str:
    figures = (one.p50_ms, ".2f"), (one.p99_ms, ".2f"), (one.recall, ".3f"), (one.mib, ".0f"), (one.load_s, ".1f")
    cells = ["-" if value is None else format(value, shape) for value, shape in figures]
    return f"| {one.documents:,} | {one.name} | {' | '.join(cells)} |"


def draw(found: Sequence[Measured], path: Path) -> None:
    """Write an SVG: median search time against documents, log-log, a line for each engine."""
    figure, axis = plt.subplots(figsize=(7.5, 4.2))
    for kind, colour in COLOURS.items():
        points = [(one.documents, one.p50_ms) for one in found if one.name.startswith(kind) and one.p50_ms]
        if points:
            documents, p50_ms = zip(*points, strict=True)
            axis.plot(documents, p50_ms, marker="o", color=colour, linewidth=2.5 if kind == OURS else 1.5)
            axis.annotate(
                kind, (documents[-1], p50_ms[-1]), (6, 0), textcoords="offset points", color=colour, va="center"
            )
    axis.set(xscale="log", yscale="log", xlabel="documents", ylabel="ms a search, median")
    axis.margins(x=0.18)
    axis.grid(color="#e6e9eb", which="major")
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
