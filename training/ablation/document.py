"""A document made of blocks (headings, text, tables, figures), written as Markdown and SVG files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.ablation.plots import Panel
from training.system.files import write_text_atomically

FIGURE_FOLDER = "figures"
NOTHING = "–"  # a cell of a table without a value


@dataclass(frozen=True)
class Heading:
    """A section heading."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text; `code` between backticks."""

    text: str


@dataclass(frozen=True)
class Table:
    """A header and rows; the first column is left-aligned, the others right. `parts`: rows that start a part."""

    header: list[str]
    rows: list[list[str]]
    note: str = ""
    parts: dict[int, str] = field(default_factory=dict)  # row number -> the part's name


@dataclass(frozen=True)
class FigureBlock:
    """Panels side by side under one caption."""

    panels: list[Panel]
    caption: str


Block = Heading | Paragraph | Table | FigureBlock


def write_document(title: str, blocks: list[Block], folder: Path) -> None:
    """Write report.md and figures/*.svg."""
    figures = folder / FIGURE_FOLDER
    figures.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, FigureBlock):
            for panel in block.panels:
                write_text_atomically(figures / f"{panel.name}.svg", on_paper(panel.svg))
    write_text_atomically(folder / "report.md", to_markdown(title, blocks))


def to_markdown(title: str, blocks: list[Block]) -> str:
    """Format a document as Markdown; figures become links to their files."""
    return "\n\n".join([f"# {title}", *(_markdown(block) for block in blocks)]) + "\n"


def number(value: float | None, *, decimals: int = 1) -> str:
    """A score of a table; one decimal, as in the papers."""
    return NOTHING if value is None else f"{value:.{decimals}f}"


def provenance(command: str, records: Collection[Mapping[str, Any]], *, pairs: str, steps: str) -> str:
    """The command, commits, hardware, pairs and minutes behind some figures.

    Args: records: of the finished steps.  pairs, steps: what was trained on, and which steps the minutes cover.
    """
    if not records:
        return f"`{command}`; nothing trained yet."
    commits = ", ".join(sorted({f"`{short(record['git_commit'])}`" for record in records}))
    hardware = "; ".join(sorted({record["hardware"] for record in records}))
    minutes = sum(record["last_run_s"] for record in records) / 60
    resumed = any(record["resumed"] for record in records)  # the time before a resume is not recorded
    return (
        f"`{command}`, commit {commits}; {hardware}; {pairs}; {'at least ' * resumed}{minutes:.0f} minutes for {steps}."
    )


def short(commit: str) -> str:
    """An abbreviated commit, with any `-dirty`."""
    name, dash, state = commit.partition("-")
    return name[:10] + dash + state


def on_paper(svg: str) -> str:
    """Make an SVG readable as a file of its own: white background, widely available fonts."""
    start = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:start]}\n <rect width="100%" height="100%" fill="#ffffff"/>{svg[start:]}'.replace(
        "'DejaVu Sans'", "Helvetica, Arial, 'DejaVu Sans'"
    )


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {text}"
        case Paragraph(text):
            return text
        case Table():
            return "\n".join(_markdown_table(block))
        case FigureBlock(panels, caption):
            drawings = "\n".join(f"![{panel.text}]({FIGURE_FOLDER}/{panel.name}.svg)" for panel in panels)
            return f"{drawings}\n\n*{caption}*"


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.header)} |"
    yield f"|---|{'---:|' * (len(table.header) - 1)}"
    for number, row in enumerate(table.rows):
        if number in table.parts:
            yield f"| *{table.parts[number]}* |{' |' * (len(table.header) - 1)}"
        yield f"| {' | '.join(row)} |"
    if table.note:
        yield f"\n*{table.note}*"
