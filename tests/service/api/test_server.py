"""Metrics on a port of their own: one process, two ports, one shutdown."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from service.settings import Settings
from tests.contract.live import clean_environment
from tests.ports import reserved_port
from tests.service.api.answers import assert_refused
from tests.service.process.test_process import ROOT, Service, running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ports")


@pytest.fixture(scope="module")
def ports(tiny_model: Path, folder: Path) -> Iterator[tuple[Service, httpx.Client]]:
    """A service with a key, and a client of its metrics' port without one."""
    with (
        reserved_port() as port,
        running(tiny_model, folder / "data", api_keys="full", metrics_open=False, metrics_port=port) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False) as metrics,
    ):
        service.client.headers["authorization"] = "Bearer full"
        yield service, metrics


def test_metrics_are_on_their_own_port_alone(ports: tuple[Service, httpx.Client]) -> None:
    service, metrics = ports
    assert service.client.post("/embed", json={"inputs": "a"}).status_code == 200
    answer = metrics.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-request-id"]
    assert 'crosslet_requests_total{route="/embed",status="200"} 1.0' in answer.text.splitlines()
    assert 'crosslet_requests_total{route="/metrics",status="200"} 1.0' in metrics.get("/metrics/").text.splitlines()
    assert metrics.head("/metrics").status_code == 200
    assert service.client.get("/metrics").status_code == 404
    assert "/metrics" not in service.client.get("/openapi.json").json()["paths"]


def test_nothing_else_is_on_the_metrics_port(ports: tuple[Service, httpx.Client]) -> None:
    _, metrics = ports
    for method, path in (("POST", "/embed"), ("PUT", "/documents"), ("GET", "/info"), ("GET", "/docs"), ("GET", "/")):
        response = metrics.request(method, path, json={"inputs": "a"}, headers={"authorization": "Bearer full"})
        assert_refused(response, 404, "NotFound", "CROSSLET_METRICS_PORT")
    refused = metrics.post("/metrics")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


def test_the_log_says_where_they_are(ports: tuple[Service, httpx.Client], folder: Path) -> None:
    service, metrics = ports
    lines = [json.loads(line) for line in (folder / "service.log").read_text().splitlines()]
    listening = [line for line in lines if line["event"] == "listening"]
    assert [line["url"] for line in listening] == [str(one.base_url).rstrip("/") for one in (service.client, metrics)]
    assert listening[1]["metrics"] == f"{listening[1]['url']}/metrics"


def test_they_are_there_while_the_service_drains_and_end_with_it(tiny_model: Path, tmp_path: Path) -> None:
    with reserved_port() as port, running(tiny_model, tmp_path / "data", drain_delay_s=5, metrics_port=port) as service:
        url = f"http://127.0.0.1:{port}/metrics"
        with httpx.Client(trust_env=False, timeout=100) as kept_alive:
            assert kept_alive.get(url).status_code == 200
            service.process.send_signal(signal.SIGTERM)
            while service.client.get("/ready").status_code != 503:
                time.sleep(0.01)
            assert kept_alive.get(url).status_code == 200
            assert service.process.wait(60) == 0  # an idle connection does not keep it
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)


@pytest.mark.parametrize("name", ["port", "metrics_port"])
def test_a_port_in_use_is_named_with_its_setting(tiny_model: Path, tmp_path: Path, name: str) -> None:
    with socket.socket() as listener, reserved_port() as free:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ports = {"port": free, "metrics_port": free} | {name: listener.getsockname()[1]}
        result = subprocess.run(
            [sys.executable, "-m", "service"],
            cwd=ROOT,
            env=clean_environment(model=tiny_model, data=tmp_path, **ports),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert result.returncode == 2
    setting = {"port": "--port, CROSSLET_PORT", "metrics_port": "CROSSLET_METRICS_PORT"}[name]
    assert result.stderr.splitlines()[-1] == f"crosslet: port {ports[name]} is in use; choose another ({setting})"


def test_one_port_for_both_is_refused() -> None:
    with pytest.raises(ValidationError, match="CROSSLET_METRICS_PORT is 8080, the same as CROSSLET_PORT"):
        Settings(metrics_port=8080)
    assert Settings(metrics_port=0, port=0).metrics_port == 0
