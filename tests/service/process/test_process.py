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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.startup import bound_socket
from service.version import VERSION
from tests.artifacts import TEXTS
from tests.ports import reserved_port

ROOT = Path(__file__).resolve().parents[3]
NEEDS_IPV6 = pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
IDS = [f"{number}/ü" for number in range(len(TEXTS))]


def environment(**settings: object) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CROSSLET_")}
    return kept | {f"CROSSLET_{name.upper()}": str(value) for name, value in settings.items()}


class Service:
    """A running `python -m service`."""

    def __init__(self, model: Path, data: Path, *, prefix: Sequence[str] = (), **settings: object) -> None:
        """prefix: a command that runs the command behind it."""
        self.log = (data.parent / "service.log").open("ab")
        with reserved_port() as port:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "service"],
                cwd=ROOT,
                env=environment(model=model, data=data, port=port, workers=2, **settings),
                stderr=self.log,
            )
            self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100, trust_env=False)
            self._await_ready()

    def _await_ready(self) -> None:
        for _ in range(2400):  # a busy machine may take a minute to start Python
            assert self.process.poll() is None, "the service ended"
            try:
                if self.client.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service never became ready")

    def stop(self, sig: int) -> int:
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(60)


@contextmanager
def running(model: Path, data: Path, *, prefix: Sequence[str] = (), **settings: object) -> Iterator[Service]:
    service = Service(model, data, prefix=prefix, **settings)
    try:
        yield service
    finally:
        service.stop(signal.SIGKILL)
        service.client.close()
        service.log.close()


@pytest.fixture
def service(tiny_model: Path, tmp_path: Path) -> Iterator[Service]:
    with running(tiny_model, tmp_path / "data") as service:
        yield service


def documents(texts: tuple[str, ...] = TEXTS) -> list[dict[str, Any]]:
    return [
        {"id": id_, "text": text, "metadata": {"n": n}} for n, (id_, text) in enumerate(zip(IDS, texts, strict=True))
    ]


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def search(service: Service) -> Any:
    response = service.client.post("/search", json={"query": TEXTS[3], "top_k": 5, "filter": {"n": {"lt": 9}}})
    return response.json()["results"]


def resident_bytes(service: Service) -> float:
    return metric(service.client.get("/metrics").text, "crosslet_process_resident_bytes")


def metric(text: str, name: str) -> float:
    return float(text.split(f"\n{name} ")[1].split()[0])


def address_of(service: Service) -> tuple[str, int]:
    port = service.client.base_url.port
    assert port is not None
    return service.client.base_url.host, port


def log_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_description_of_the_api_is_made_when_it_is_asked_for(service: Service) -> None:
    described = service.client.get("/openapi.json").json()
    assert described["paths"]["/embed"]["post"]["requestBody"]
    assert "EmbedRequest" in described["components"]["schemas"]
    assert service.client.get("/docs").status_code == 200


def test_documents_survive_kill_9_with_the_same_answer(tiny_model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(tiny_model, data) as service:
        assert service.client.put("/documents", json={"documents": documents()}).json()["upserted"] == len(TEXTS)
        before = search(service)
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    assert len(before) == 5
    with running(tiny_model, data) as service:
        assert search(service) == before


def test_answered_writes_survive_a_kill(tiny_model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    answered: list[str] = []
    with running(tiny_model, data) as service:
        killer = threading.Timer(0.4, service.process.kill)
        for number in range(100_000):
            document = {"id": str(number), "text": f"hallo {number}"}
            try:
                response = service.client.put("/documents", json={"documents": [document]})
            except httpx.TransportError:
                break
            assert response.status_code == 200
            answered.append(document["id"])
            if len(answered) == 1:
                killer.start()
        killer.join()
    assert answered
    with running(tiny_model, data) as service:
        assert service.client.get(f"/documents/{answered[-1]}").status_code == 200
        total = service.client.get("/documents").json()["total"]
        assert total in {len(answered), len(answered) + 1}  # the one in flight may be in, too
        assert service.client.get("/info").json()["index"]["documents"] == total


def test_sigterm_under_load_answers_accepted_requests(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path / "data", drain_delay_s=5, max_queue_texts=10_000) as service:
        statuses: list[int] = []
        broken: list[str] = []

        def ask() -> None:
            with httpx.Client(base_url=service.client.base_url, timeout=100, trust_env=False) as client:
                while True:
                    try:
                        response = client.post("/embed", json={"inputs": list(TEXTS) * 20})
                    except httpx.ConnectError:
                        return  # no longer listening
                    except httpx.TransportError as exc:
                        broken.append(repr(exc))
                        return
                    statuses.append(response.status_code)

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
        assert all("RemoteProtocolError" in one or "ReadError" in one for one in broken)


def test_a_closed_terminal_drains_as_sigterm_does(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path / "data", drain_delay_s=2) as service:
        service.process.send_signal(signal.SIGHUP)
        wait_for(lambda: service.client.get("/ready").status_code == 503)
        assert service.client.post("/embed", json={"inputs": "hallo"}).status_code == 200
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


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_ends_it_with_0(sig: int, tiny_model: Path, tmp_path: Path) -> None:
    """As a container's first process it would otherwise be ignored. The model is a pipe: the start waits for it."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    (model / "manifest.json").unlink()
    os.mkfifo(model / "manifest.json")
    start = subprocess.Popen(
        [sys.executable, "-m", "service"],
        cwd=ROOT,
        env=environment(model=model, data=tmp_path, port=0),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert start.stderr is not None
    assert json.loads(start.stderr.readline())["event"] == "settings"  # neither model nor documents are loaded
    start.send_signal(sig)
    log = start.communicate(timeout=60)[1]
    assert start.returncode == 0
    assert "Traceback" not in log
    assert "listening" not in log


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_another_command_as_ctrl_c_does(sig: int, tiny_model: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", "import sys; from service.cli.main import main; sys.exit(main(['embed']))"],
        cwd=ROOT,
        env=environment(model=tiny_model) | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdin is not None
    assert command.stdout is not None
    command.stdin.write("hallo\n")
    command.stdin.flush()
    assert command.stdout.readline().startswith("[")
    command.send_signal(sig)
    assert command.wait(60) == 2
    assert command.communicate()[1] == "crosslet: stopped\n"


def test_a_client_that_sends_too_much_gets_to_read_why(service: Service) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x" * 100_000

    for content in (b"x" * 20_000_000, endless()):
        response = service.client.post("/embed", content=content)
        assert response.status_code == 413
        assert "CROSSLET_MAX_BODY_BYTES" in response.json()["error"]
        assert service.client.get("/metrics").status_code == 200  # the connection goes on working
    assert resident_bytes(service) < 200e6  # neither body was kept


def test_headers_without_an_end_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    """They come before a key is looked at, and no other limit sees them."""
    with running(tiny_model, tmp_path / "data", api_keys="k") as service:
        for head in (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 2_000_000, b"GET /" + b"a" * 10_000_000):
            with socket.create_connection(address_of(service), timeout=30) as connection:
                with suppress(ConnectionError):
                    connection.sendall(head)
                with suppress(ConnectionError):  # what was under way when the refusal came may break the connection
                    assert connection.recv(4096).startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        headers = {"authorization": "Bearer k", "x": "y" * 20_000}
        for _ in range(2):
            assert service.client.post("/embed", json={"inputs": "ok"}, headers=headers).status_code == 200
        assert resident_bytes(service) < 200e6


def run(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "/nowhere"}, r"model folder .*CROSSLET_MODEL"),
        ({"index": "milvus://root:hunter2@host:1"}, r".*CROSSLET_INDEX_TOKEN"),
        ({"port": "many"}, r"CROSSLET_PORT: "),
        ({"host": "192.0.2.1"}, r"cannot listen on 192\.0\.2\.1, port 0"),
    ],
)
def test_start_that_cannot_be_is_a_sentence_and_exit_code_2(
    tiny_model: Path, tmp_path: Path, settings: dict[str, object], sentence: str
) -> None:
    result = run("-m", "service", **{"model": tiny_model, "data": tmp_path, "port": 0} | settings)
    assert result.returncode == 2
    assert re.match(f"crosslet: {sentence}", result.stderr.splitlines()[-1])
    assert "Traceback" not in result.stderr
    assert "hunter2" not in result.stderr + result.stdout


def port_in_use(port: int) -> str:
    return f"crosslet: port {port} is in use; choose another (--port, CROSSLET_PORT)"


def test_a_port_in_use_is_one_sentence_and_exit_code_2(tiny_model: Path, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = run("-m", "service", model=tiny_model, data=tmp_path, port=port)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == port_in_use(port)


def test_of_two_starts_at_once_one_ends_with_a_sentence(tiny_model: Path, tmp_path: Path) -> None:
    """Both can bind the port before either listens."""
    with reserved_port() as port:
        starts = [
            subprocess.Popen(
                [sys.executable, "-m", "service"],
                cwd=ROOT,
                env=environment(model=tiny_model, data=tmp_path / str(number), port=port, workers=1),
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        wait_for(lambda: any(start.poll() is not None for start in starts))
    loser, winner = sorted(starts, key=lambda start: start.poll() is None)
    assert loser.returncode == 2
    assert loser.communicate()[1].splitlines()[-1] == port_in_use(port)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        assert client.post("/embed", json={"inputs": "ok"}).status_code == 200
    winner.terminate()
    log = log_lines(winner.communicate(timeout=60)[1])
    assert [line["url"] for line in log if line["event"] == "listening"] == [f"http://127.0.0.1:{port}"]


def _whole_answer(connection: socket.socket) -> bytes:
    """Head and body may arrive one after the other."""
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        part = connection.recv(4096)
        assert part, answer
        answer += part
    return answer


def test_an_idle_connection_is_kept_for_keep_alive_s(tiny_model: Path, tmp_path: Path) -> None:
    """A second, or as long as a load balancer needs: more than the default of 5 s."""
    request = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
    for keep_alive_s, is_kept in ((1, False), (75, True)):
        with (
            running(tiny_model, tmp_path / "data", keep_alive_s=keep_alive_s) as service,
            socket.create_connection(address_of(service), timeout=7) as connection,
        ):
            connection.sendall(request)
            assert _whole_answer(connection).startswith(b"HTTP/1.1 200 ")
            if is_kept:
                with pytest.raises(TimeoutError):
                    connection.recv(1)
                connection.sendall(request)
                assert _whole_answer(connection).startswith(b"HTTP/1.1 200 ")
            else:
                assert connection.recv(1) == b""


def test_an_empty_setting_is_the_default(tiny_model: Path, tmp_path: Path) -> None:
    """As compose files leave it: an empty host would be every address."""
    with running(tiny_model, tmp_path / "data", host="") as service:
        assert service.client.get("/health").status_code == 200
    lines = log_lines((tmp_path / "service.log").read_text())
    assert next(line["host"] for line in lines if line["event"] == "settings") == "127.0.0.1"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.2", pytest.param("::", marks=NEEDS_IPV6)])
def test_the_health_check_asks_where_the_service_listens(tiny_model: Path, tmp_path: Path, host: str) -> None:
    script = [sys.executable, ROOT / "docker" / "healthcheck.py"]
    with bound_socket(host or "127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        check = subprocess.Popen(script, env=environment(host=host, port=port))
        listener.settimeout(100)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(4096).startswith(b"GET /health HTTP/1.1")
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        assert check.wait(100) == 0
    assert (
        subprocess.run(script, env=environment(host=host, port=port), check=False, capture_output=True).returncode == 1
    )


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


def test_without_a_key_the_log_warns(service: Service, tmp_path: Path) -> None:
    service.stop(signal.SIGKILL)
    assert "no API key is set" in (tmp_path / "service.log").read_text(encoding="utf-8")


def test_the_version_is_the_distributions() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    read = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'VERSION = "{VERSION}"' in read
