"""Writes the page of results: settings, verdicts, tables, and a chart of texts a second and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "crosslet"  # reproducible files
from matplotlib import pyplot as plt  # noqa: E402 - after the choice of a backend

from benchmarks.serving.criteria import Criterion, floor_shares, judge  # noqa: E402
from benchmarks.serving.peers import OURS, OURS_BUNDLED, PEERS  # noqa: E402
from benchmarks.serving.results import (  # noqa: E402
    BATCH_32,
    BUSY_SHARE,
    LOADS,
    MANY,
    Agreement,
    Load,
    LoadResult,
    ProcessResult,
    Run,
    median,
    ratio,
)

PAGE, CHART = Path("speed.md"), Path("serving.svg")
MISSING = "-"
OURS_COLOUR, PEER_COLOUR = "#1f6f5c", "#b9c2c8"
WEIGHTS = {peer.name: peer.weights for peer in PEERS.values()}
Cell = Callable[[Callable[[LoadResult], float | None]], float | None]  # figure of a load -> its median

HEAD = """# Serving speed and memory

Written by `make bench`; do not edit. Every server answers the same texts over HTTP on loopback, one server at a time.
Each round restarts every server; figures are medians over the rounds.

- All servers but "bundled model" have the weights of all-MiniLM-L6-v2; in int8 they are identical (`python -m export`).
- crosslet's graph skips padding. The others have a graph that computes it (`--padding computed`), like those of other
  exporters; two of them are also measured with crosslet's graph.
- sentence-transformers and fastembed are libraries: they run in a small FastAPI server
  (`benchmarks/serving/servers/library.py`), one request at a time on all cores.
- The 25-line server is `benchmarks/serving/servers/plain.py`.
- crosslet logs each request; the others do not.
"""
VERDICTS_NOTE = """Median over the rounds (minimum to maximum). Ratios and differences are taken within a round. The
bare session loop is the one without tokenisation. Rounds in which a request failed do not count."""
LOADS_NOTE = """A client has one connection and one request in flight. A request of one text has one sentence; larger
requests have texts of mixed length. No two texts in flight are equal. In brackets: relative to crosslet. With 256 texts
a request, a load is only a few requests."""
MEMORY_NOTE = """Cold start: from exec to the first vector, with files in the page cache. Ready: after that response.
Loaded: after all loads. Peak: VmHWM of the process tree, over all loads."""
FLOOR_NOTE = """crosslet's texts a second, relative to the bare loop. That loop has one thread a core on one
single-threaded ONNX Runtime session, one text at a time, without HTTP, queue or JSON. It runs in crosslet's
environment, on the same texts and cores, in the same round. Left: relative to the loop with token ids made beforehand.
Right: relative to the loop that tokenises."""
VECTORS_NOTE = """20 texts of mixed length, each alone and all in one request. Cosine: of the vectors alone, to
sentence-transformers in fp32. Difference: the largest of any number of a vector, between alone and in the batch; 0:
bit-identical."""


def write_report(run: Run, docs: Path) -> None:
    if run.cores:
        draw_chart(run, measured_peers(run), docs / CHART)
    (docs / PAGE).write_text(page(run), encoding="utf-8")


def measured_peers(run: Run) -> list[str]:
    there = {one.peer for one in run.results if isinstance(one, ProcessResult)}
    return [peer.name for peer in PEERS.values() if peer.name in there]


def page(run: Run) -> str:
    names = measured_peers(run)
    parts = [HEAD, f"![texts a second and memory]({CHART})", setting_lines(run), *_verdicts(run), *failures(run)]
    for cores in run.cores:
        parts += _on(run, names, cores)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None, digits: int = 0) -> str:
    return MISSING if value is None else f"{value:,.{digits}f}"


def setting_lines(run: Run) -> str:
    """The run's settings, and a warning if the machine was busy."""
    others = [one.other_share for one in run.loads]
    rounds = sorted({one.round for one in run.loads})
    lines = {
        **run.setting,
        "Rounds": str(len(rounds)),
        "Other work": f"took {_percent(median(others))} of the servers' cores during a load (median)",
    }
    text = "\n".join(f"- {name}: {text}" for name, text in lines.items())
    worst = max(others, default=0.0)
    if worst > BUSY_SHARE:
        text += f"\n\n**These cores were busy with other work, up to {_percent(worst)}: do not rely on the figures.**"
    return text


def _verdicts(run: Run) -> Iterator[str]:
    yield "## What must hold"
    yield VERDICTS_NOTE
    yield verdict_table(run)


def verdict_table(run: Run) -> str:
    """Each criterion: its limit, and for each core count the measured value, range and verdict."""
    columns = [judge(run, cores) for cores in run.cores]
    rows = []
    for same in zip(*columns, strict=True):
        limit = f"{'≤' if same[0].at_most else '≥'} {same[0].limit:g}"
        rows.append([same[0].what, limit, *map(_verdict, same)])
    return table(["", "limit", *[_cores(cores) for cores in run.cores]], rows)


def _verdict(one: Criterion) -> str:
    if one.measured is None:
        return one.verdict
    return f"{number(one.measured, 2)} ({number(min(one.rounds), 2)} to {number(max(one.rounds), 2)}) {one.verdict}"


def failures(run: Run) -> Iterator[str]:
    if run.failures:
        yield "## Not measured"
        yield "\n".join(f"- {name}: `{error}`" for name, error in run.failures.items())
    failed = Counter((one.peer, one.cores, one.load.name) for one in run.loads for _ in range(one.failed))
    if failed:
        yield "## Requests refused or never answered, over all rounds"
        yield table(["", "cores", "load", "requests"], [[*map(str, where), str(n)] for where, n in failed.items()])


def _on(run: Run, names: list[str], cores: int) -> Iterator[str]:
    where = _cores(cores)
    yield f"## On {where}"
    yield f"### Texts a second\n\n{LOADS_NOTE}"
    yield table(["", "weights", *[load.name for load in LOADS]], [_rates(run, name, cores) for name in names])
    yield "### Latency of a request: p50 / p99 (of 100 requests and more), ms"
    yield _by_load(run, names, cores, _latency)
    yield "### CPU time of the server, ms a text"
    yield _by_load(run, names, cores, lambda cell: number(cell(lambda one: one.cpu_ms_per_text), 2))
    yield "### CPU share of the load generator, % of a core"
    yield _by_load(run, names, cores, lambda cell: number(cell(lambda one: one.generator_share * 100)))
    yield f"### Start and memory\n\n{MEMORY_NOTE}"
    rows = [_process(run, name, cores) for name in names]
    yield table(["", "cold start, s", "ready, MiB", "loaded, MiB", "peak, MiB"], rows)
    yield f"### Distance to the floor\n\n{FLOOR_NOTE}"
    rows = [_floor(run, peer.name, cores) for peer in (OURS, OURS_BUNDLED) if peer.name in names]
    yield table(["", *[load.name for load in LOADS]], rows)
    yield _floor_rates(run, names, cores)
    yield f"### Vectors\n\n{VECTORS_NOTE}"
    yield _vectors(run, names, cores)


def _by_load(run: Run, names: list[str], cores: int, show: Callable[[Cell], str]) -> str:
    rows = [[name, *[show(_cell(run, name, cores, load)) for load in LOADS]] for name in names]
    return table(["", *[load.name for load in LOADS]], rows)


def _cell(run: Run, name: str, cores: int, load: Load) -> Cell:
    return lambda value: run.load(name, cores, load, value)


def _latency(cell: Cell) -> str:
    p50_ms, p99_ms = cell(lambda one: one.p50_ms), cell(lambda one: one.p99_ms)
    return f"{number(p50_ms, 1)} / {number(p99_ms, 1)}"


def _rates(run: Run, name: str, cores: int) -> list[str]:
    cells = []
    for load in LOADS:
        rate = run.load(name, cores, load, lambda one: one.texts_per_s)
        of_ours = ratio(rate, run.load(OURS.name, cores, load, lambda one: one.texts_per_s))
        cells.append(f"{number(rate)} ({number(of_ours, 2)})")
    return [name, WEIGHTS[name], *cells]


def _process(run: Run, name: str, cores: int) -> list[str]:
    def cell(value: Callable[[ProcessResult], float], digits: int = 0) -> str:
        return number(run.process(name, cores, value), digits)

    mib = [cell(lambda one: one.ready_mib), cell(lambda one: one.loaded_mib), cell(lambda one: one.peak_mib)]
    return [name, cell(lambda one: one.cold_start_s, 2), *mib]


def _floor(run: Run, name: str, cores: int) -> list[str]:
    peer = OURS if name == OURS.name else OURS_BUNDLED
    cells = []
    for load in LOADS:
        shares = [floor_shares(run, peer, cores, load, tokenised=tokenised) for tokenised in (False, True)]
        cells.append(" / ".join(number(median(share), 2) for share in shares))
    return [name, *cells]


def _floor_rates(run: Run, names: list[str], cores: int) -> str:
    rows = []
    for peer in (one for one in (OURS, OURS_BUNDLED) if one.name in names):
        for kind in ("short", "mixed"):
            figures = [
                number(run.floor(peer.model, cores, kind, lambda one: one.texts_per_s)),
                number(run.floor(peer.model, cores, kind, lambda one: one.texts_per_s_tokenised)),
                number(run.floor(peer.model, cores, kind, lambda one: one.p50_ms), 2),
                number(run.floor(peer.model, cores, kind, lambda one: one.tokens_per_text), 1),
            ]
            rows.append([f"bare loop, {peer.name}'s model, {kind} texts", *figures])
    return table(["", "texts/s", "texts/s, tokenising", "p50 of a text on one thread, ms", "tokens a text"], rows)


def _vectors(run: Run, names: list[str], cores: int) -> str:
    found = [run.agreement(name, cores) for name in names]
    rows = [_agreement(one) for one in found if one is not None]
    return table(["", "mean cosine", "lowest cosine", "largest difference"], rows)


def _agreement(one: Agreement) -> list[str]:
    difference = "0" if one.same_to_the_bit else f"{one.largest_difference:.1e}"
    return [one.peer, number(one.mean_cosine, 4), number(one.min_cosine, 4), difference]


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.0%}"


def _cores(count: int) -> str:
    return f"{count} core{'s' if count > 1 else ''}"


def draw_chart(run: Run, names: list[str], path: Path) -> None:
    """Write an SVG with three panels, for the largest core count measured."""
    cores = run.cores[0]
    panels = {
        f"texts/s, {MANY.name}": [run.load(name, cores, MANY, lambda one: one.texts_per_s) for name in names],
        f"texts/s, {BATCH_32.name}": [run.load(name, cores, BATCH_32, lambda one: one.texts_per_s) for name in names],
        "MiB at the peak": [run.process(name, cores, lambda one: one.peak_mib) for name in names],
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 0.42 * len(names) + 1.2), sharey=True)
    colours = [OURS_COLOUR if name in (OURS.name, OURS_BUNDLED.name) else PEER_COLOUR for name in names]
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        bars = axis.barh(names, [value or 0 for value in values], color=colours)
        axis.bar_label(bars, [_label(value) for value in values], padding=3, fontsize=9)
        axis.set_title(title, fontsize=10, loc="left")
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.set_xticks([])
        axis.set_xlim(0, max([value or 0 for value in values] + [1]) * 1.2)
    axes[0].invert_yaxis()
    figure.suptitle(
        f"Over HTTP on {cores} cores; all but the bundled model have the weights of all-MiniLM-L6-v2",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _label(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
