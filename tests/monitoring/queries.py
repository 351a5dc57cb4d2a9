"""The dashboard's and the alerts' queries, and whether samples can answer them. Knows PromQL; asks no Prometheus."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import promql_parser
import yaml

from tests.skeleton.project import ROOT

MONITORING = ROOT / "docker" / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "crosslet.json"
ALERTS = MONITORING / "alerts.yml"
GRAFANAS_RANGE = "$__rate_interval"  # four scrape intervals or more

Sample = tuple[str, dict[str, str]]  # of /metrics: name and labels


@dataclass(frozen=True)
class Query:
    """A query and the labels that the texts beside it quote. `name`: of its panel or alert."""

    name: str
    text: str
    quoted: frozenset[str]

    def within(self, range_: str) -> str:
        """It with a range that Prometheus takes."""
        return self.text.replace(GRAFANAS_RANGE, range_)


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return content


def dashboard_queries() -> list[Query]:
    """The query of every target of every panel."""
    return [
        Query(panel["title"], target["expr"], frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    ]


def alert_queries() -> list[Query]:
    """The condition of every alert."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    return [
        Query(rule["alert"], rule["expr"], frozenset(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))))
        for rule in rules
    ]


def unanswered(query: str, samples: Iterable[Sample]) -> list[str]:
    """Return the query's selectors that no sample has, by name and labels, and its sums by a label that none has."""
    known = list(samples)
    missing = [str(one) for one in selectors(query) if not any(_selects(one, sample) for sample in known)]
    for total in _parts(query, promql_parser.AggregateExpr):
        names = {selector.name for selector in selectors(total.expr.prettify())}
        present = {label for name, labels in known if name in names for label in labels}
        missing += [f"by ({label})" for label in sorted(_labels_kept(total) - present)]
    return missing


def labels_of_result(query: str, samples: Iterable[Sample]) -> set[str]:
    """The labels that the answer carries."""
    totals = _parts(query, promql_parser.AggregateExpr)
    if totals:
        return set().union(*map(_labels_kept, totals)) - {"le"}
    names = {selector.name for selector in selectors(query)}
    return {label for name, labels in samples if name in names for label in labels}


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """What a query reads."""
    return _parts(query, promql_parser.VectorSelector)


def _parts(query: str, kind: type) -> list[Any]:
    parts: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(query), pre_visit=lambda part: parts.append(part))
    return [part for part in parts if isinstance(part, kind)]


def _labels_kept(total: promql_parser.AggregateExpr) -> set[str]:
    return set(total.modifier.labels) if total.modifier else set()


def _selects(selector: promql_parser.VectorSelector, sample: Sample) -> bool:
    name, labels = sample
    matchers = selector.matchers.matchers
    return name == selector.name and all(one.name in labels and _matches(one, labels[one.name]) for one in matchers)


def _matches(matcher: promql_parser.Matcher, value: str) -> bool:
    if matcher.op in (promql_parser.MatchOp.Equal, promql_parser.MatchOp.NotEqual):
        is_match = value == matcher.value
    else:
        is_match = re.fullmatch(matcher.value, value) is not None
    return is_match == (matcher.op in (promql_parser.MatchOp.Equal, promql_parser.MatchOp.Re))
