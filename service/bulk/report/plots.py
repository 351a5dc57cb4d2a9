"""Draws plots as SVG, for a page that has the colours. Knows numbers and labels; knows nothing of documents.

N values, L rows or columns
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from service.bulk.report.figures import Floats

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 220, 44, 34
BINS = 60
CELL_WIDTH, CELL_HEIGHT, LABEL_WIDTH = 46, 24, 110
MOST_INK = 0.6  # of a cell: the number on it stays legible


def histogram(values: Mapping[str, Floats], *, title: str, axis: str, marks: Mapping[str, float] | None = None) -> str:
    """Distributions as shares of their own values, over one axis. marks: vertical lines by label."""
    marks = marks or {}
    everything = np.concatenate([*values.values(), np.array(list(marks.values()))])
    low, high = float(everything.min()), float(everything.max())
    high = high if high > low else low + 1
    edges = np.linspace(low, high, BINS + 1)
    shares = {name: np.histogram(numbers, edges)[0] / max(1, len(numbers)) for name, numbers in values.items()}
    top = max(float(share.max()) for share in shares.values()) or 1.0

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - 10)

    def up(share: float) -> float:
        return HEIGHT - BOTTOM - share / top * (HEIGHT - BOTTOM - 26)

    parts = [_axis(low, high, across, axis)]
    for number, (name, share) in enumerate(shares.items()):
        steps = " ".join(
            f"{across(edge):.1f},{up(value):.1f}"
            for value, ends in zip(share.tolist(), itertools.pairwise(edges.tolist()), strict=True)
            for edge in ends
        )
        ends = f"{across(high):.1f},{up(0):.1f} {across(low):.1f},{up(0):.1f}"
        parts.append(f'<polygon class="c{number}" points="{steps} {ends}"/>')
        legend = LEFT + 10 + number * 220
        parts.append(f'<rect class="c{number}" x="{legend}" y="6" width="12" height="12"/>')
        parts.append(f'<text x="{legend + 18}" y="16">{escape(name)}</text>')
    for name, value in marks.items():
        place = f"{across(value):.1f}"
        parts.append(f'<line class="mark" x1="{place}" x2="{place}" y1="24" y2="{up(0):.1f}"/>')
        is_right = across(value) > WIDTH - 150
        anchor, moved = ("end", -4) if is_right else ("start", 4)
        parts.append(f'<text x="{across(value) + moved:.1f}" y="36" text-anchor="{anchor}">{escape(name)}</text>')
    return _svg(WIDTH, HEIGHT, title, parts)


def heat_map(
    values_LL: Floats,
    labels: Sequence[str],
    *,
    title: str,
    written: Callable[[float], str],
    middle: float | None = None,
) -> str:
    """A table of numbers, coloured by distance from `middle`, or from the smallest. nan: an empty cell."""
    known = values_LL[np.isfinite(values_LL)]
    base = float(known.min()) if middle is None and len(known) else middle or 0.0
    widest = float(np.abs(known - base).max()) if len(known) else 0.0
    parts = []
    for number, label in enumerate(labels):
        short = escape(label if len(label) < 16 else f"{label[:14]}…")
        column = LABEL_WIDTH + (number + 0.5) * CELL_WIDTH
        parts.append(f'<text class="label" transform="translate({column + 4:.0f},66) rotate(-45)">{short}</text>')
        parts.append(
            f'<text x="{LABEL_WIDTH - 8}" y="{70 + (number + 0.7) * CELL_HEIGHT:.0f}" text-anchor="end">{short}</text>'
        )
    for row, line in enumerate(values_LL.tolist()):
        for column, value in enumerate(line):
            if not np.isfinite(value):
                continue
            ink = MOST_INK * abs(value - base) / widest if widest else 0.0
            x, y = LABEL_WIDTH + column * CELL_WIDTH, 70 + row * CELL_HEIGHT
            colour = "high" if value >= base else "low"
            parts.append(
                f'<rect class="{colour}" x="{x}" y="{y}" width="{CELL_WIDTH - 1}" height="{CELL_HEIGHT - 1}" '
                f'fill-opacity="{ink:.2f}"/><text x="{x + CELL_WIDTH / 2 - 0.5}" y="{y + 16}" '
                f'text-anchor="middle">{written(value)}</text>'
            )
    side = len(labels)
    return _svg(LABEL_WIDTH + side * CELL_WIDTH + 60, 76 + side * CELL_HEIGHT, title, parts)


def _axis(low: float, high: float, across: Callable[[float], float], name: str) -> str:
    step = next(step for step in _steps() if (high - low) / step <= 10)
    ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    bottom = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{bottom}" y2="{bottom}"/>']
    parts += [
        f'<text x="{across(tick):.1f}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>'
        for tick in np.round(ticks, 6).tolist()
    ]
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 4}" text-anchor="end">{escape(name)}</text>')
    return "".join(parts)


def _steps() -> list[float]:
    return [digit * 10.0**power for power in range(-4, 9) for digit in (1, 2, 5)]


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="max-width: {width:.0f}px" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
    )
