"""Writes a report as one HTML page: no script, no other file, no text of a document but its id."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np

from service.offline.report import Floats, Report, headline
from service.offline.report_questions import QuestionReport, question_facts

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --paper: #fff; --card: #f4f6f8; --line: #c8ced6;
  --c0: #2b8a3e; --c1: #e8590c; --c2: #868e96; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #aab2bd; --paper: #16191d; --card: #20252b;
  --line: #414a55; --c0: #51cf66; --c1: #ffa94d; --c2: #868e96; } }
body { margin: 0 auto; max-width: 1080px; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; } .soft { color: var(--soft); }
figure { margin: 1rem 0; overflow-x: auto; }
svg { width: 100%; min-width: 480px; font: 12px system-ui, sans-serif; } svg text { fill: var(--ink); }
.axis { stroke: var(--line); } .mark { stroke: var(--ink); stroke-dasharray: 4 3; }
.c0 { fill: var(--c0); fill-opacity: .55; } .c1 { fill: var(--c1); fill-opacity: .45; }
.c2 { fill: var(--c2); fill-opacity: .5; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .6rem; margin: 1rem 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.35rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .9rem .15rem 0; text-align: left; }
td.n, th.n { text-align: right; } th { border-bottom: 1px solid var(--line); font-weight: 600; }
.heat td { padding: .15rem .6rem; text-align: center; font-size: .85rem; } .heat tbody th { border: 0; }
""".strip()
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # a browser that opens it asks nobody for anything


WIDTH, HEIGHT, LEFT, BOTTOM = 720, 220, 44, 34
BINS = 60
ABOVE, BELOW = "217 72 15", "25 113 194"  # orange and blue
MOST_INK = 0.6  # of a cell: the number on it stays legible


def html(report: Report | None, questions: QuestionReport | None, *, collection: str) -> str:
    """Return the page. report: None: documents in Milvus.  collection: the name of the measured collection."""
    sections = []
    if report is not None:
        sections.append(_head(report, collection))
    if questions is not None:
        sections.append(_questions(questions, collection))
    if report is not None:
        sections += [_scores(report), _languages(report), _hubs(report), _lengths(report)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Index report</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _head(report: Report, collection: str) -> str:
    short = report.summary
    facts = headline(short).items()
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return (
        f"<h1>Index report</h1><p class=soft>{escape(short.made_at)} · model {escape(report.model)} "
        f"{escape(short.fingerprint[:12])} · collection {escape(collection)} · revision {short.revision} · "
        f"index {escape(report.backend)}</p><dl>{cards}</dl>"
        "<p>No questions of users are in these figures: each drawn document is searched by a few of its own rarest "
        "words. Compare stores and settings with them; judge answers by real questions "
        "(<code>--queries FILE</code>).</p>"
    )


def _questions(report: QuestionReport, collection: str) -> str:
    cards = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in question_facts(report).items()
    )
    rows = [
        (f"{row.min_confidence:.2f}", f"{row.answered:.0%}", "" if row.right is None else f"{row.right:.0%}")
        for row in report.coverage
    ]
    return (
        f"<h2>Your questions</h2><p class=soft>collection {escape(collection)}</p><dl>{cards}</dl>"
        + "<p>What a <code>min_confidence</code> does: how many questions are answered, and how many of these are "
        "right.</p>"
        + _table(("min_confidence", "answered", "right"), rows)
        + (reliability_plot(report.bins) if report.bins else "")
    )


def reliability_plot(bins: Sequence[tuple[float, float, float]]) -> str:
    """Draw the share that is right over the confidence, a point for each bin of equal mass; the line is perfect."""
    side, margin = 260, 40

    def place(said: float, true: float) -> tuple[str, str]:
        return f"{margin + said * side:.1f}", f"{margin + (1 - true) * side:.1f}"

    (left, bottom), (right, top) = place(0, 0), place(1, 1)
    points = [place(said, true) for _, said, true in bins]
    dots = "".join(f'<circle class="c0" cx="{x}" cy="{y}" r="5"/>' for x, y in points)
    labels = "".join(
        f'<text x="{place(value, 0)[0]}" y="{margin + side + 18}" text-anchor="middle">{value:g}</text>'
        f'<text x="{margin - 8}" y="{place(0, value)[1]}" text-anchor="end">{value:g}</text>'
        for value in (0, 0.5, 1)
    )
    size = side + 2 * margin
    return (
        f'<figure><svg viewBox="0 0 {size + 60} {size + 10}" style="max-width: {size}px; min-width: 0" role="img" '
        'aria-label="Share right over confidence">'
        f'<rect class="axis" fill="none" x="{left}" y="{top}" width="{side}" height="{side}"/>'
        f'<line class="mark" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}"/>{dots}{labels}'
        f'<text x="{margin}" y="{margin - 14}">share that is right</text>'
        f'<text x="{margin + side}" y="{margin + side + 36}" text-anchor="end">confidence</text></svg></figure>'
    )


def _scores(report: Report) -> str:
    values = {
        "own document": report.own_Q,
        "best other document": report.other_Q,
        "documents drawn by chance": report.random,
    }
    marks = {"suggested min_score": report.thresholds["all"].score} if "all" in report.thresholds else {}
    rows = [
        (
            escape(name),
            f"{threshold.score:.3f}",
            f"{threshold.kept:.1%}",
            f"{threshold.above:.2%}",
            f"{threshold.queries:,}",
        )
        for name, threshold in report.thresholds.items()
    ]
    return (
        "<h2>Scores</h2><p>How near a query is to its own document, to the best other one, and to documents drawn by "
        "chance. The more the first and the last overlap, the less a score alone says.</p>"
        f"{histogram(values, title='Distribution of scores', axis='cosine', marks=marks)}"
        "<p>A <code>min_score</code> that 1 in 1,000 unrelated documents exceeds, by language of the query. It comes "
        "from the median and the 90th percentile of the scores by chance, as of a normal distribution, so that "
        "translations and near-copies among the drawn do not move it. The column before the last says how many of "
        "the drawn do exceed it: if more than 0.1 %, some are related.</p>"
        + _table(("query in", "min_score", "own documents kept", "drawn by chance above it", "queries"), rows)
    )


def _languages(report: Report) -> str:
    counts = ", ".join(f"{escape(name)} {count:,}" for name, count in report.languages.items())
    start = f"<h2>Languages</h2><p>Drawn documents: {counts}.</p>"
    compared = report.pairs
    labels = compared.languages
    if len(labels) < 2:
        way_out = "<code>--language-field</code> names another"
        return f"{start}<p>There is one language, or no field says which: {way_out}.</p>"
    return (
        start + "<p>Rows: language of the query; columns: of the document. An empty cell had too few pairs.</p>"
        "<p><b>Median score of documents drawn by chance.</b> "
        "Differences within a row are bias: what the language alone "
        "adds to a score. Where subjects differ by language, they add to it.</p>"
        + heat_map(compared.level_LL, labels)
        + "<p><b>Score that 1 in 100 unrelated ones exceeds.</b> "
        "A threshold for one pair of languages, computed as above.</p>"
        + heat_map(compared.threshold_LL, labels)
        + "<p><b>Share of the ten nearest, over the language's share of all documents.</b> 1: as often as chance would "
        "have it. High values on the diagonal alone: queries find documents in their own language.</p>"
        + heat_map(compared.lift_LL, labels, digits=1, middle=1)
    )


def _hubs(report: Report) -> str:
    rows = [(escape(hub.id), f"{hub.share:.1%}", "hub" if hub.is_hub else "") for hub in report.hubs]
    return (
        "<h2>Hubs</h2><p>Documents that are most often among the ten nearest of a query made from another document. A "
        "hub is near to 5 % of the queries, and to five times as many as chance gives. Hubs are often empty phrases: "
        "reword or delete them.</p>" + _table(("document", "queries", ""), rows)
    )


def _lengths(report: Report) -> str:
    rows = [(escape(id_), f"{tokens:,}", "cut" if tokens > report.max_length else "") for id_, tokens in report.longest]
    shown = report.lengths_S.clip(max=4 * report.max_length)
    marks = {f"the model reads {report.max_length}": float(report.max_length)}
    return (
        f"<h2>Length</h2><p>{report.summary.cut:.1%} of the documents are longer than the {report.max_length} "
        "tokens that the model reads; the rest of such a text cannot be found by meaning. Lengths above "
        f"{4 * report.max_length} count as that.</p>"
        + histogram({"drawn documents": shown}, title="Tokens of a document", axis="tokens", marks=marks)
        + _table(("longest", "tokens", ""), rows)
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if place else ''}>{cell}</{tag}>" for place, cell in enumerate(cells))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def histogram(values: Mapping[str, Floats], *, title: str, axis: str, marks: Mapping[str, float]) -> str:
    """Draw distributions, as shares of their own values, over one axis. marks: vertical lines by label."""
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
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width: {WIDTH}px" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg></figure>'
    )


def heat_map(values_LL: Floats, labels: Sequence[str], *, digits: int = 2, middle: float | None = None) -> str:
    """Return a table of numbers, coloured by distance from `middle`, or from the smallest. nan: an empty cell."""
    known = values_LL[np.isfinite(values_LL)]
    base = float(known.min(initial=np.inf)) if middle is None else middle
    widest = float(np.abs(known - base).max(initial=0)) or 1.0

    def cell(value: float) -> str:
        if not np.isfinite(value):
            return "<td></td>"
        colour, ink = ABOVE if value >= base else BELOW, MOST_INK * abs(value - base) / widest
        return f'<td style="background: rgb({colour} / {ink:.0%})">{value:.{digits}f}</td>'

    names = [escape(label) for label in labels]
    header = "".join(f"<th>{name}</th>" for name in ("", *names))
    rows = (f"<tr><th>{name}</th>{''.join(map(cell, line))}</tr>" for name, line in zip(names, values_LL, strict=True))
    return f"<figure><table class=heat><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table></figure>"


def _axis(low: float, high: float, across: Callable[[float], float], name: str) -> str:
    steps = (digit * 10.0**power for power in range(-4, 9) for digit in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step <= 10)
    ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    bottom = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{bottom}" y2="{bottom}"/>']
    parts += [
        f'<text x="{across(tick):.1f}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>'
        for tick in np.round(ticks, 6).tolist()
    ]
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 4}" text-anchor="end">{escape(name)}</text>')
    return "".join(parts)
