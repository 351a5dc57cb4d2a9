"""A real Prometheus, with the project's configuration, asks a real service."""

import json
import math
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.monitoring.conftest import KEY, use
from tests.monitoring.queries import MONITORING, Query, alert_queries, dashboard_queries, selectors
from tests.ports import reserved_port

WAIT_S = 120
RANGE = "1m"
RULE_TESTS = Path(__file__).parent / "alerts.test.yml"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed (Debian: prometheus)"),
]


@pytest.fixture(scope="module")
def prometheus(watched: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Prometheus as compose starts it, but for the address of the service, and every second."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(config["global"], "1s")
    (job,) = config["scrape_configs"]
    job["static_configs"] = [{"targets": [f"{watched.base_url.host}:{watched.base_url.port}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    shutil.copy(MONITORING / "alerts.yml", folder)
    (folder / job["authorization"]["credentials_file"]).write_text(KEY, encoding="utf-8")
    with running(folder) as client:
        yield client


@contextmanager
def running(folder: Path) -> Iterator[httpx.Client]:
    with reserved_port() as port, (folder / "log").open("wb") as log:
        options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command = ["prometheus", *options, f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
                yield client
        finally:
            process.terminate()
            process.wait()


def answer(prometheus: httpx.Client, query: str) -> list[float]:
    """The values that it has now; none while it starts."""
    try:
        response = prometheus.get("/api/v1/query", params={"query": query})
    except httpx.TransportError:
        return []
    assert response.status_code in (200, 503), response.text  # 503: it reads its data
    found = response.json()["data"]["result"] if response.status_code == 200 else []
    return [float(one["value"][1]) for one in found]


def is_answered(prometheus: httpx.Client, query: Query, *, whole: bool) -> bool:
    """Whether each thing it reads has samples and, if `whole`, the query has numbers."""
    parts = [answer(prometheus, str(one)) for one in selectors(query.within(RANGE))]
    numbers = answer(prometheus, query.within(RANGE)) if whole else [0.0]
    return all(parts) and bool(numbers) and not any(math.isnan(number) for number in numbers)


def test_every_panel_and_alert_has_samples(prometheus: httpx.Client, watched: httpx.Client) -> None:
    waiting = [(query, True) for query in dashboard_queries()] + [(query, False) for query in alert_queries()]
    until = time.monotonic() + WAIT_S
    while waiting and time.monotonic() < until:
        use(watched)  # a rate needs requests between two looks
        waiting = [(query, whole) for query, whole in waiting if not is_answered(prometheus, query, whole=whole)]
    assert waiting == []


def rules(prometheus: httpx.Client) -> list[dict[str, Any]]:
    groups = prometheus.get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_prometheus_evaluates_every_alert_without_an_error(prometheus: httpx.Client) -> None:
    until = time.monotonic() + WAIT_S
    while not answer(prometheus, "up") or any(rule["health"] == "unknown" for rule in rules(prometheus)):
        assert time.monotonic() < until
        time.sleep(0.2)
    loaded = rules(prometheus)
    assert [rule["name"] for rule in loaded] == [query.name for query in alert_queries()]
    assert {rule["health"] for rule in loaded} == {"ok"}, json.dumps(loaded)


def test_the_service_is_reached_with_its_key_and_not_without(prometheus: httpx.Client, watched: httpx.Client) -> None:
    until = time.monotonic() + WAIT_S
    while answer(prometheus, 'up{job="crosslet"}') != [1.0]:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert httpx.get(f"{watched.base_url}/metrics", trust_env=False).status_code == 401


def promtool(*arguments: object) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_configuration_and_rules(tmp_path: Path) -> None:
    shutil.copytree(MONITORING, tmp_path, dirs_exist_ok=True)
    (tmp_path / "metrics_key").touch()
    promtool("check", "config", tmp_path / "prometheus.yml")
    promtool("check", "rules", tmp_path / "alerts.yml")


def test_every_alert_fires_when_it_should_and_not_before() -> None:
    tested = {
        expected["alertname"]
        for group in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]
        for expected in group["alert_rule_test"]
        if expected["exp_alerts"]
    }
    assert tested == {query.name for query in alert_queries()}
    promtool("test", "rules", RULE_TESTS)
