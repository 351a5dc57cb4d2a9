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


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """What a query reads."""
    found: list[promql_parser.VectorSelector] = []
    expression = promql_parser.parse(query)
    promql_parser.walk(expression, pre_visit=lambda one: _collect(one, promql_parser.VectorSelector, found))
    return found


def unanswered(query: str, samples: Iterable[Sample]) -> list[str]:
    """What the query names and the samples lack, a sentence each: a metric, a label, or a label's value."""
    known = list(samples)
    return [*_unselected(query, known), *_ungrouped(query, known)]


def labels_of_result(query: str, samples: Iterable[Sample]) -> set[str]:
    """The labels that the answer carries."""
    sums = _sums(query)
    if sums:
        return {label for one in sums for label in _kept(one)} - {"le"}
    names = {selector.name for selector in selectors(query)}
    return {label for name, labels in samples if name in names for label in labels}


def _unselected(query: str, samples: list[Sample]) -> list[str]:
    missing = []
    for selector in selectors(query):
        labels = [labels for name, labels in samples if name == selector.name]
        matchers = selector.matchers.matchers
        unknown = {matcher.name for matcher in matchers if not any(matcher.name in one for one in labels)}
        if not labels:
            missing.append(f"no metric {selector.name}")
        elif unknown:
            missing.append(f"{selector.name} has no label {', '.join(sorted(unknown))}")
        elif not any(all(_matches(matcher, one) for matcher in matchers) for one in labels):
            missing.append(f"no sample is {selector}")
    return missing


def _ungrouped(query: str, samples: list[Sample]) -> list[str]:
    return [
        f"{selector.name} has no label {label} to sum by"
        for one in _sums(query)
        for selector in selectors(one.expr.prettify())
        for label in sorted(_kept(one))
        if not any(name == selector.name and label in labels for name, labels in samples)
    ]


def _sums(query: str) -> list[promql_parser.AggregateExpr]:
    found: list[promql_parser.AggregateExpr] = []
    expression = promql_parser.parse(query)
    promql_parser.walk(expression, pre_visit=lambda one: _collect(one, promql_parser.AggregateExpr, found))
    return found


def _kept(one: promql_parser.AggregateExpr) -> set[str]:
    return set(one.modifier.labels) if one.modifier else set()


def _collect(one: promql_parser.Expr, kind: type, found: list[Any]) -> None:
    if isinstance(one, kind):
        found.append(one)


def _matches(matcher: promql_parser.Matcher, labels: dict[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op == promql_parser.MatchOp.Equal:
        return value == matcher.value
    if matcher.op == promql_parser.MatchOp.NotEqual:
        return value != matcher.value
    is_match = re.fullmatch(matcher.value, value) is not None
    return is_match if matcher.op == promql_parser.MatchOp.Re else not is_match
