"""Writes a report as one HTML page: no script, no other file, no text of a document but its id."""

from collections.abc import Iterable, Sequence
from html import escape

from service.bulk.report.figures import Pairs
from service.bulk.report.measure import Report
from service.bulk.report.plots import heat_map, histogram

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5a6472; --paper: #fff; --card: #f4f6f8; --line: #c8ced6;
  --high: #d9480f; --low: #1971c2; --c0: #2b8a3e; --c1: #e8590c; --c2: #868e96; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #aab2bd; --paper: #16191d; --card: #20252b;
  --line: #414a55; --high: #ff922b; --low: #4dabf7; --c0: #51cf66; --c1: #ffa94d; --c2: #868e96; } }
body { margin: 0 auto; max-width: 1080px; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; } .soft { color: var(--soft); }
figure { margin: 1rem 0; overflow-x: auto; }
svg { width: 100%; min-width: 480px; font: 12px system-ui, sans-serif; } svg text { fill: var(--ink); }
.axis { stroke: var(--line); } .mark { stroke: var(--ink); stroke-dasharray: 4 3; }
.c0 { fill: var(--c0); fill-opacity: .55; } .c1 { fill: var(--c1); fill-opacity: .45; }
.c2 { fill: var(--c2); fill-opacity: .5; }
.high { fill: var(--high); } .low { fill: var(--low); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .6rem; margin: 1rem 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.35rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .9rem .15rem 0; text-align: left; }
td.n, th.n { text-align: right; } th { border-bottom: 1px solid var(--line); font-weight: 600; }
""".strip()
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # a browser that opens it asks nobody for anything


def html(report: Report, *, collection: str) -> str:
    """The page. collection: the name of what was measured."""
    sections = [_head(report, collection), _scores(report), _languages(report), _hubs(report), _lengths(report)]
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
    threshold = report.thresholds.get("all")
    facts = [
        ("documents", f"{short.documents:,}"),
        (f"recall of the index ({report.backend})", _percent(short.recall)),
        ("own document in the first ten", _percent(short.found)),
        ("suggested min_score", f"{threshold.score:.2f}" if threshold else "none"),
        ("widest bias by language", f"{short.language_bias:.3f}"),
        ("hubs", str(short.hubs)),
        ("documents cut", _percent(short.cut)),
    ]
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return (
        f"<h1>Index report</h1><p class=soft>{escape(short.made_at)} · model {escape(report.model)} "
        f"{escape(short.fingerprint[:12])} · collection {escape(collection)} · revision {short.revision} · "
        f"{short.sampled:,} documents drawn</p><dl>{cards}</dl>"
        "<p>Each drawn document is searched by its own opening: the first half of its text, at most 60 characters. "
        "Queries of your users differ, so compare stores and settings with these figures; "
        "judge answers with real queries.</p>"
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
            f"{one.score:.3f}",
            _percent(one.kept),
            f"{one.above:.2%}".replace("%", " %"),
            f"{one.queries:,}",
        )
        for name, one in report.thresholds.items()
    ]
    return (
        "<h2>Scores</h2><p>How near a query is to its own document, to the best other one, and to documents drawn by "
        "chance. The more the first and the last overlap, the less a score alone says.</p>"
        f"{_figure(histogram(values, title='Distribution of scores', axis='cosine', marks=marks))}"
        "<p>A <code>min_score</code> that 1 in 1,000 unrelated documents exceeds, by language of the query. It comes "
        "from the median and the 90th percentile of the scores by chance, as of a normal distribution, so that "
        "translations and near-copies among the drawn do not move it. The column before the last says how many of "
        "the drawn do exceed it: if more than 0.1 %, some are related.</p>"
        + _table(("query in", "min_score", "own documents kept", "drawn by chance above it", "queries"), rows)
    )


def _languages(report: Report) -> str:
    counts = ", ".join(f"{escape(name)} {count:,}" for name, count in report.languages.items())
    start = f"<h2>Languages</h2><p>Drawn documents: {counts}.</p>"
    compared: Pairs = report.pairs
    if len(compared.languages) < 2:
        return (
            start + "<p>There is one language, or no field says which: <code>--language-field</code> names another.</p>"
        )
    return (
        start + "<p>Rows: language of the query; columns: of the document. An empty cell had too few pairs.</p>"
        "<p><b>Median score of documents drawn by chance.</b> "
        "Differences within a row are bias: what the language alone "
        "adds to a score. Where subjects differ by language, they add to it.</p>"
        + _figure(
            heat_map(compared.level_LL, compared.languages, title="Median score by chance", written="{:.2f}".format)
        )
        + "<p><b>Score that 1 in 100 unrelated ones exceeds.</b> "
        "A threshold for one pair of languages, computed as above.</p>"
        + _figure(
            heat_map(compared.threshold_LL, compared.languages, title="Threshold by pair", written="{:.2f}".format)
        )
        + "<p><b>Share of the ten nearest, over the language's share of all documents.</b> 1: as often as chance would "
        "have it. High values on the diagonal alone: queries find documents in their own language.</p>"
        + _figure(
            heat_map(
                compared.lift_LL,
                compared.languages,
                title="Share of the ten nearest",
                written="{:.1f}".format,
                middle=1,
            )
        )
    )


def _hubs(report: Report) -> str:
    rows = [(escape(one.id), _percent(one.share), "hub" if one.is_hub else "") for one in report.hubs]
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
        f"<h2>Length</h2><p>{_percent(report.summary.cut)} of the documents are longer than the {report.max_length} "
        "tokens that the model reads; the rest of such a text cannot be found by meaning. Lengths above "
        f"{4 * report.max_length} count as that.</p>"
        + _figure(histogram({"drawn documents": shown}, title="Tokens of a document", axis="tokens", marks=marks))
        + _table(("longest", "tokens", ""), rows)
    )


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=n' if place else ''}>{cell}</{tag}>" for place, cell in enumerate(cells))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
