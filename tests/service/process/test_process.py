"""The service as its users start it: a process, a port, signals."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.startup import bound_socket
from service.version import VERSION
from tests.artifacts import TEXTS
from tests.contract.live import clean_environment, started
from tests.ports import reserved_port

ROOT = Path(__file__).resolve().parents[3]
NEEDS_IPV6 = pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
SIGNALS = [signal.SIGTERM, signal.SIGHUP]
SERVE = ("-m", "service")


def run(*arguments: str, prefix: Sequence[str] = (), **settings: object) -> subprocess.CompletedProcess[str]:
    """Run Python to its end.  prefix: a command that runs the command behind it."""
    command, env = [*prefix, sys.executable, *arguments], clean_environment(**settings)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False)


def start(*arguments: str, **settings: object) -> subprocess.Popen[str]:
    """Start Python, with pipes for its standard streams."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=clean_environment(**settings), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@dataclass(frozen=True)
class Service:
    """A running `python -m service`."""

    process: subprocess.Popen[bytes]
    client: httpx.Client

    def stop(self, sig: int) -> int:
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(60)

    def embed(self, **options: Any) -> int:
        """Embed a short text. Return the status."""
        return self.client.post("/embed", json={"inputs": "hallo"}, **options).status_code

    def metric(self, name: str) -> float:
        return float(self.client.get("/metrics").text.split(f"\n{name} ")[1].split()[0])

    @property
    def address(self) -> tuple[str, int]:
        return self.client.base_url.host, self.client.base_url.port or 0


@contextmanager
def running(model: Path, data: Path, *, prefix: Sequence[str] = (), **settings: object) -> Iterator[Service]:
    """A service that is ready; its log is appended to service.log beside `data`. prefix: as of `run`."""
    env = clean_environment(model=model, data=data, workers=2, **settings)
    with (
        (data.parent / "service.log").open("ab") as log,
        started([*prefix, sys.executable, *SERVE], env, cwd=ROOT, stderr=log) as (client, process),
    ):
        yield Service(process, client)


@pytest.fixture
def service(tiny_model: Path, tmp_path: Path) -> Iterator[Service]:
    with running(tiny_model, tmp_path / "data") as service:
        yield service


def documents() -> list[dict[str, Any]]:
    return [{"id": f"{n}/ü", "text": text, "metadata": {"n": n}} for n, text in enumerate(TEXTS)]


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def log_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_description_of_the_api_is_made_when_it_is_asked_for(service: Service, tmp_path: Path) -> None:
    described = service.client.get("/openapi.json").json()
    assert described["paths"]["/embed"]["post"]["requestBody"]
    assert "EmbedRequest" in described["components"]["schemas"]
    assert service.client.get("/docs").status_code == 200
    assert "no API key is set" in (tmp_path / "service.log").read_text(encoding="utf-8")


def test_answered_writes_survive_a_kill(tiny_model: Path, tmp_path: Path) -> None:
    data, answered = tmp_path / "data", 0
    query = {"query": TEXTS[3], "top_k": 5, "mode": "dense", "filter": {"n": {"lt": 9}}}
    with running(tiny_model, data) as service:
        assert service.client.put("/documents", json={"documents": documents()}).json()["upserted"] == len(TEXTS)
        before = service.client.post("/search", json=query).json()["results"]
        assert len(before) == 5
        killer = threading.Timer(0.4, service.process.kill)
        killer.start()
        with suppress(httpx.TransportError):
            while True:
                document = {"id": str(answered), "text": f"hallo {answered}"}
                assert service.client.put("/documents", json={"documents": [document]}).status_code == 200
                answered += 1
        killer.join()
    with running(tiny_model, data) as service:
        assert service.client.post("/search", json=query).json()["results"] == before
        assert not answered or service.client.get(f"/documents/{answered - 1}").status_code == 200
        total = service.client.get("/documents").json()["total"]
        assert total - len(TEXTS) in {answered, answered + 1}  # the one in flight may be in, too
        assert service.client.get("/info").json()["index"]["documents"] == total


def test_sigterm_under_load_answers_accepted_requests(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path / "data", drain_delay_s=5, max_queue_texts=10_000) as service:
        statuses: list[int] = []
        broken: list[httpx.TransportError] = []

        def ask() -> None:
            with httpx.Client(base_url=service.client.base_url, timeout=100, trust_env=False) as client:
                try:
                    while True:
                        statuses.append(client.post("/embed", json={"inputs": list(TEXTS) * 20}).status_code)
                except httpx.ConnectError:
                    pass  # no longer listening
                except httpx.TransportError as exc:
                    broken.append(exc)

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        wait_for(lambda: len(statuses) > 10)
        service.process.send_signal(signal.SIGTERM)
        wait_for(lambda: service.client.get("/ready").status_code == 503)  # within the drain: later nobody listens
        for asker in askers:
            asker.join(100)
        assert service.process.wait(100) == 0
        assert set(statuses) == {200}
        # A keep-alive connection may be closed just as its next request starts; nothing that was accepted is lost.
        assert all(isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) for error in broken)


def test_a_closed_terminal_drains_as_sigterm_does(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path / "data", drain_delay_s=5) as service:
        service.process.send_signal(signal.SIGHUP)
        wait_for(lambda: service.client.get("/ready").status_code == 503)
        assert service.embed() == 200
        assert service.process.wait(100) == 0


def test_nohup_keeps_the_service_alive_when_its_terminal_closes(tiny_model: Path, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a child inherits it, as from nohup
    try:
        with running(tiny_model, tmp_path / "data") as service:
            service.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)  # for what must not happen
            assert service.client.get("/ready").status_code == 200
            assert service.stop(signal.SIGTERM) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("sig", SIGNALS)
def test_a_signal_during_the_start_ends_it_with_0(sig: int, tiny_model: Path, tmp_path: Path) -> None:
    """As a container's first process it would otherwise be ignored. The model is a pipe: the start waits for it."""
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    (model / "manifest.json").unlink()
    os.mkfifo(model / "manifest.json")
    starting = start(*SERVE, model=model, data=tmp_path, port=0)
    assert starting.stderr is not None
    assert json.loads(starting.stderr.readline())["event"] == "settings"  # neither model nor documents are loaded
    starting.send_signal(sig)
    _, log = starting.communicate(timeout=60)
    assert starting.returncode == 0
    assert "Traceback" not in log
    assert "listening" not in log


@pytest.mark.parametrize("sig", SIGNALS)
def test_a_signal_ends_another_command_as_ctrl_c_does(sig: int, tiny_model: Path) -> None:
    script = "import sys; from service.cli.main import main; sys.exit(main(['embed']))"
    command = start("-u", "-c", script, model=tiny_model)
    assert command.stdin is not None
    assert command.stdout is not None
    command.stdin.write("hallo\n")
    command.stdin.flush()
    assert command.stdout.readline().startswith("[")
    command.send_signal(sig)
    assert command.wait(60) == 2
    assert command.communicate()[1] == "crosslet: stopped\n"


def test_a_client_that_sends_too_much_gets_to_read_why(service: Service) -> None:
    for content in (b"x" * 20_000_000, (b"x" * 100_000 for _ in range(200))):
        response = service.client.post("/embed", content=content)
        assert response.status_code == 413
        assert "CROSSLET_MAX_BODY_BYTES" in response.json()["error"]
        assert service.client.get("/metrics").status_code == 200  # the connection goes on working
    assert service.metric("crosslet_process_resident_bytes") < 200e6  # neither body was kept


def test_headers_without_an_end_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    """They come before a key is looked at, and no other limit sees them."""
    with running(tiny_model, tmp_path / "data", api_keys="k") as service:
        for head in (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 2_000_000, b"GET /" + b"a" * 10_000_000):
            with socket.create_connection(service.address, timeout=30) as connection:
                with suppress(ConnectionError):
                    connection.sendall(head)
                with suppress(ConnectionError):  # what was under way when the refusal came may break the connection
                    assert connection.recv(4096).startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        for _ in range(2):
            assert service.embed(headers={"authorization": "Bearer k", "x": "y" * 20_000}) == 200
        assert service.metric("crosslet_process_resident_bytes") < 200e6


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "/nowhere"}, r"model folder .*CROSSLET_MODEL"),
        ({"index": "milvus://root:hunter2@host:1"}, r".*CROSSLET_INDEX_TOKEN"),
        ({"port": "many"}, r"CROSSLET_PORT: "),
        ({"host": "192.0.2.1"}, r"cannot listen on 192\.0\.2\.1, port 0"),
        ({"memory_budget": 20_000_000}, r".*the limit is 20000000 \(CROSSLET_MEMORY_BUDGET\)"),
        (
            {"prefix": ["sh", "-c", 'ulimit -n 40 && exec "$@"', "sh"]},
            r"the process may open 40 files; the service needs \d+ \(ulimit -n\)",
        ),
        (  # enough for the tiny model; FAISS alone maps 300 MB as it is loaded, with the first document
            {"prefix": ["sh", "-c", 'ulimit -v 512000 && exec "$@"', "sh"]},
            r"the process may map 524288000 bytes of memory \(ulimit -v\), too few",
        ),
    ],
    ids=["model", "password", "port", "host", "memory", "files", "address space"],
)
def test_start_that_cannot_be_is_a_sentence_and_exit_code_2(
    tiny_model: Path, tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    result = run(*SERVE, **{"model": tiny_model, "data": tmp_path, "port": 0} | settings)
    assert result.returncode == 2
    assert re.match(f"crosslet: {sentence}", result.stderr.splitlines()[-1])
    assert "Traceback" not in result.stderr
    assert "hunter2" not in result.stderr + result.stdout


def test_of_two_starts_at_once_one_ends_with_a_sentence(tiny_model: Path, tmp_path: Path) -> None:
    """Both can bind the port before either listens."""
    with reserved_port() as port:
        starts = [
            start(*SERVE, model=tiny_model, data=tmp_path / str(number), port=port, workers=1) for number in range(2)
        ]
        wait_for(lambda: any(start.poll() is not None for start in starts))
    loser, winner = sorted(starts, key=lambda start: start.poll() is None)
    assert loser.returncode == 2
    sentence = f"crosslet: port {port} is in use; choose another (--port, CROSSLET_PORT)"
    assert loser.communicate()[1].splitlines()[-1] == sentence
    url = f"http://127.0.0.1:{port}"
    assert httpx.post(f"{url}/embed", json={"inputs": "ok"}, timeout=60, trust_env=False).status_code == 200
    winner.terminate()
    log = log_lines(winner.communicate(timeout=60)[1])
    assert [line["url"] for line in log if line["event"] == "listening"] == [url]


@pytest.mark.parametrize(("keep_alive_s", "is_kept"), [(1, False), (75, True)])
def test_an_idle_connection_is_kept_for_keep_alive_s(
    tiny_model: Path, tmp_path: Path, keep_alive_s: int, is_kept: bool
) -> None:
    """A second, or as long as a load balancer needs: more than the default of 5 s."""
    with (
        running(tiny_model, tmp_path / "data", keep_alive_s=keep_alive_s) as service,
        closing(HTTPConnection(*service.address, timeout=7)) as connection,
    ):
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        assert connection.sock is not None
        if not is_kept:
            assert connection.sock.recv(1) == b""
            return
        with pytest.raises(TimeoutError):
            connection.sock.recv(1)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.2", pytest.param("::", marks=NEEDS_IPV6)])
def test_the_health_check_asks_where_the_service_listens(host: str) -> None:
    script = [sys.executable, ROOT / "docker" / "healthcheck.py"]
    with bound_socket(host or "127.0.0.1", 0) as listener:
        listener.listen()
        asked = clean_environment(host=host, port=listener.getsockname()[1])
        check = subprocess.Popen(script, env=asked)
        listener.settimeout(100)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4096).startswith(b"GET /health HTTP/1.1")
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        assert check.wait(100) == 0
    assert subprocess.run(script, env=asked, check=False, capture_output=True).returncode == 1


def test_the_service_loads_no_torch_and_no_transformers(tiny_model: Path, tmp_path: Path) -> None:
    """Every module of the package, and a whole start and answer; then a look at what Python has loaded."""
    script = """
import pkgutil, sys, importlib, json, warnings
warnings.simplefilter("ignore")
import service
for module in pkgutil.walk_packages(service.__path__, "service."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from service.api.app import create_app
from service.runtime import load_runtime
from service.settings import Settings
from fastapi.testclient import TestClient
with TestClient(create_app(load_runtime(Settings())), base_url="http://localhost") as client:
    assert client.put("/documents", json={"documents": [{"id": "a", "text": "hallo"}]}).status_code == 200
    assert client.post("/search", json={"query": "hallo"}).status_code == 200
heavy = {"torch", "transformers", "optimum", "sentence_transformers", "onnx", "training", "export"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    result = run("-c", script, model=tiny_model, data=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []


def test_the_log_is_json_lines_with_settings_and_without_keys(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path / "data", api_keys="sesame", drain_delay_s=0) as service:
        service.client.post("/embed", json={"inputs": "a text of mine"}, headers={"authorization": "Bearer sesame"})
        service.stop(signal.SIGTERM)
    text = (tmp_path / "service.log").read_text(encoding="utf-8")
    lines = log_lines(text)
    assert "sesame" not in text
    assert "a text of mine" not in text
    assert next(line for line in lines if line["event"] == "settings")["max_texts"] == 512
    request = next(line for line in lines if line["event"] == "request")
    assert (request["route"], request["status"], request["texts"]) == ("/embed", 200, 1)


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    read = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'VERSION = "{VERSION}"' in read
