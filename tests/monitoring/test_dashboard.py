"""Every panel and every alert asks for what the service's /metrics has."""

from collections.abc import Iterable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.monitoring.queries import (
    Query,
    Sample,
    alert_queries,
    dashboard,
    dashboard_queries,
    labels_of_result,
    selectors,
    unanswered,
)

OF_THE_SCRAPE = {"job": "crosslet", "instance": "service:8080"}  # labels that Prometheus adds
QUERIES = [*dashboard_queries(), *alert_queries()]
SHOWN = {  # what an operator looks for -> the metric that has it
    "rate": "crosslet_requests_total",
    "latency": "crosslet_request_duration_seconds_bucket",
    "queue": "crosslet_queue_depth",
    "tokens": "crosslet_tokens_total",
    "cuts": "crosslet_truncated_inputs_total",
    "documents": "crosslet_index_documents",
    "memory": "crosslet_process_resident_bytes",
    "its ceiling": "crosslet_memory_budget_bytes",
}


@pytest.fixture(scope="module")
def samples(watched: httpx.Client) -> list[Sample]:
    """The samples that Prometheus would have after it asked a used service."""
    text = watched.get("/metrics").raise_for_status().text
    found = [(one.name, one.labels) for family in text_string_to_metric_families(text) for one in family.samples]
    return [(name, labels | OF_THE_SCRAPE) for name, labels in [*found, ("up", {})]]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_what_a_query_names_is_in_the_metrics_of_a_real_service(query: Query, samples: list[Sample]) -> None:
    text = query.within("1m")
    assert selectors(text)
    assert unanswered(text, samples) == []
    assert query.quoted <= labels_of_result(text, samples)


def test_every_panel_has_a_place_of_its_own_and_a_query() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["targets"] and panel["datasource"]["uid"] == "prometheus" for panel in panels)
    places = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24  # columns of Grafana


def test_the_dashboard_shows_what_an_operator_looks_for() -> None:
    read = {selector.name for query in dashboard_queries() for selector in selectors(query.within("1m"))}
    assert {name for name, metric in SHOWN.items() if metric not in read} == set()
    assert any('status="429"' in query.text for query in dashboard_queries())


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("sum by (route) (rate(seen_total[1m]))", []),
        ('seen_total{route="/a"} > 0', []),
        ('seen_total{status=~"2..",route!="/b"}', []),
        ("sen_total", ["sen_total{}"]),
        ("rate(seen_total[1m]) / rate(sen_total[1m])", ["sen_total{}"]),
        ('seen_total{rout!="/b"}', ['seen_total{rout!="/b"}']),
        ('seen_total{route="/c"}', ['seen_total{route="/c"}']),
        ('seen_total{route!="/a"} or vector(0)', ['seen_total{route!="/a"}']),
        ('seen_total{status=~"2"}', ['seen_total{status=~"2"}']),
        ('seen_total{route!~"/a|/b"}', ['seen_total{route!~"/a|/b"}']),
        ("sum by (rout) (rate(seen_total[1m]))", ["by (rout)"]),
        ("histogram_quantile(0.9, sum by (le) (rate(seen_total[1m])))", ["by (le)"]),
    ],
)
def test_a_typo_in_a_query_is_found(query: str, missing: Iterable[str]) -> None:
    assert unanswered(query, [("seen_total", {"route": "/a", "status": "200"})]) == missing
