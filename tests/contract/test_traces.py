"""Traces of a live service, as a collector in this process receives them (OTLP over HTTP)."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.artifacts import TEXTS
from tests.contract.live import clean_environment, started
from tests.ports import reserved_port
from tests.service.cli.terminal import COMMAND

STOP_S = 30
WORD = "Geheimnis"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Span:
    name: str
    id: str
    parent: str
    trace: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    is_error: bool


@dataclass
class Collector:
    """Keeps what it is sent, as bytes and as spans."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def resources(self) -> list[dict[str, str]]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        parts = [part.resource for request in requests for part in request.resource_spans]
        return [{pair.key: pair.value.string_value for pair in resource.attributes} for resource in parts]

    def spans(self) -> list[Span]:
        return [
            Span(
                span.name,
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.trace_id.hex(),
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes},
                is_error=span.status.code == 2,
            )
            for request in map(ExportTraceServiceRequest.FromString, self.bodies)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def request(self, name: str) -> tuple[Span, dict[str, Span]]:
        """The only span of this name, and its children by name."""
        spans = self.spans()
        (found,) = [span for span in spans if span.name == name]
        return found, {span.name: span for span in spans if span.parent == found.id}


@pytest.fixture
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield collector
        server.shutdown()
        thread.join()


@contextmanager
def traced_service(model: Path, data: Path, log: Path | None = None, **variables: str) -> Iterator[httpx.Client]:
    """A service that ends as an operator ends it: it sends what is left."""
    env = clean_environment(model=model, data=data, drain_delay_s=0) | variables
    with (
        (log or Path(os.devnull)).open("w") as errors,
        started([*COMMAND, "serve"], env, stderr=errors) as (client, process),
    ):
        yield client
        process.terminate()
        assert process.wait(STOP_S) == 0


def ask_everything(client: httpx.Client) -> None:
    documents = [
        {"id": f"{WORD}/{n}", "text": f"{text} {WORD}", "metadata": {"a": WORD}} for n, text in enumerate(TEXTS)
    ]
    assert client.put("/documents", json={"documents": documents}).status_code == 200
    query = {"query": f"Gitarre {WORD}", "filter": {"a": WORD}}
    assert client.post("/search", json=query, headers={"traceparent": PARENT}).json()["results"]
    assert client.get(f"/documents/{WORD}/1").status_code == 200
    assert client.post("/search", json={"query": WORD, "top_k": WORD}).status_code == 422


def test_a_request_has_spans_of_its_stages(tiny_model: Path, tmp_path: Path, collector: Collector) -> None:
    with traced_service(tiny_model, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as client:
        ask_everything(client)
        assert client.get("/health").status_code == 200
    writing, of_writing = collector.request("PUT /documents")
    assert of_writing.keys() == {"queue", "tokenise", "inference", "store"}
    assert writing.attributes["http.response.status_code"] == 200
    assert writing.attributes["crosslet.texts"] == len(TEXTS)
    assert writing.attributes["crosslet.tokens"] > len(TEXTS)
    for span in of_writing.values():
        assert writing.started_ns <= span.started_ns <= span.ended_ns <= writing.ended_ns
        assert 0 <= span.attributes["crosslet.busy_ms"] <= 2 * (writing.ended_ns - writing.started_ns) / 1e6
    order = [of_writing[name].started_ns for name in ("queue", "tokenise", "inference", "store")]
    assert order == sorted(order)
    _, of_reading = collector.request("GET /documents/{document_id:path}")
    assert of_reading.keys() == {"store"}
    searches = [span for span in collector.spans() if span.name == "POST /search"]
    assert [span.attributes["http.response.status_code"] for span in searches] == [200, 422]
    children = {span.name for span in collector.spans() if span.parent == searches[0].id}
    assert children >= {"tokenise", "inference", "search"}  # a lone text does not queue
    assert not [span for span in collector.spans() if "health" in span.name or "ready" in span.name]


def test_a_span_joins_the_trace_that_its_request_names(tiny_model: Path, tmp_path: Path, collector: Collector) -> None:
    with traced_service(
        tiny_model, tmp_path, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces"
    ) as client:
        ask_everything(client)
    (joined,) = [span for span in collector.spans() if span.parent == PARENT.split("-")[2]]
    assert joined.name == "POST /search"
    assert joined.trace == PARENT.split("-")[1]


def test_no_text_and_no_id_leaves_the_service(tiny_model: Path, tmp_path: Path, collector: Collector) -> None:
    with traced_service(tiny_model, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as client:
        ask_everything(client)
        client.get(f"/{WORD}", params={WORD: WORD}, headers={WORD: WORD})
    sent = b"".join(collector.bodies)
    assert b"POST /search" in sent
    assert WORD.encode() not in sent
    assert [word for word in re.findall(r"\w{5,}", " ".join(TEXTS)) if word.encode() in sent] == []


def test_opentelemetrys_variables_name_and_sample(tiny_model: Path, tmp_path: Path, collector: Collector) -> None:
    variables = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=lab",
        "OTEL_SERVICE_NAME": "search-eu",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",  # only what a sampled parent asks for
    }
    with traced_service(tiny_model, tmp_path, **variables) as client:
        ask_everything(client)
    assert {span.name for span in collector.spans()} >= {"POST /search", "search"}
    assert "PUT /documents" not in {span.name for span in collector.spans()}
    assert collector.resources[0]["service.name"] == "search-eu"
    assert collector.resources[0]["deployment.environment"] == "test"
    assert collector.headers[0]["x-tenant"] == "lab"


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}])
def test_variables_that_say_off_win(
    tiny_model: Path, tmp_path: Path, collector: Collector, off: dict[str, str]
) -> None:
    with traced_service(tiny_model, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **off) as client:
        ask_everything(client)
    assert collector.bodies == []


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; the service has http/protobuf"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is zipkin; the service has otlp"),
    ],
)
def test_what_cannot_be_done_is_a_warning(
    tiny_model: Path, tmp_path: Path, collector: Collector, variables: dict[str, str], reason: str
) -> None:
    with traced_service(
        tiny_model, tmp_path, tmp_path / "log", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **variables
    ) as client:
        assert client.get("/ready").status_code == 200
    assert f'"reason":"{reason}"' in (tmp_path / "log").read_text()
    assert collector.bodies == []


def test_a_collector_that_is_away_delays_no_answer_and_no_end(tiny_model: Path, tmp_path: Path) -> None:
    with reserved_port() as nobody:
        endpoint = f"http://127.0.0.1:{nobody}"
        with traced_service(tiny_model, tmp_path, tmp_path / "log", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) as client:
            ask_everything(client)
            ended_at = time.monotonic()
    assert time.monotonic() - ended_at < 15  # the SDK alone takes 30 s and more
    assert WORD not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("is_asked", [False, True])
def test_the_sdk_is_imported_only_where_it_is_asked_for(tiny_model: Path, tmp_path: Path, is_asked: bool) -> None:
    code = """
import os, sys
from service.api.app import create_app
from service.cli.serve import open_traces
from service.runtime import load_runtime
from service.settings import Settings
runtime = load_runtime(Settings(), traces=open_traces(os.environ))
create_app(runtime)
runtime.close()
print(*sys.modules)
"""
    settings = {"CROSSLET_MODEL": str(tiny_model), "CROSSLET_DATA": str(tmp_path)}
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"} if is_asked else {}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env={**os.environ, **settings, **asked}, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    for name in ("opentelemetry.sdk", "opentelemetry.exporter", "service.traces", "service.api.request_tracing"):
        assert (name in loaded) == is_asked, name


def test_a_tools_calls_are_spans_within_its_message(tiny_model: Path, tmp_path: Path, collector: Collector) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "CROSSLET_MCP": "true"}
    call = {"name": "search", "arguments": {"query": WORD}}
    with traced_service(tiny_model, tmp_path, **variables) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        response = client.post("/mcp", json=message, headers={"accept": "application/json, text/event-stream"})
        assert not response.json()["result"]["isError"]
    _, within = collector.request("POST /mcp")
    assert within.keys() == {"POST /search"}
