"""Starting and ending a peer, with real processes: small servers written here."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving.peers import ARTIFACT, SERVERS, Peer
from benchmarks.serving.process import PeerFailed, running
from benchmarks.serving.results import Failure
from benchmarks.serving.rounds import Plan, cores_for, measure_peer

if sys.platform != "linux":
    pytest.skip("cores are chosen by taskset", allow_module_level=True)

CORES = sorted(os.sched_getaffinity(0))[:1]
SERVER = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        body = json.dumps([[len(text), 1.0] for text in texts]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def peer(code: str) -> Peer:
    literal = code.replace("{", "{{").replace("}", "}}")
    return Peer("a test", "none", (), ARTIFACT, "none", (sys.executable, "-c", literal, "{port}"))


def plan(folder: Path, checked: Sequence[str] = ()) -> Plan:
    return Plan(folder, ["a"], ["b"], checked, np.zeros((0, 2), np.float32), seconds=0.1)


def test_peer_runs_on_its_cores_and_is_ended(tmp_path: Path) -> None:
    with running(peer(SERVER), folder=tmp_path, cores=CORES) as server:
        np.testing.assert_array_equal(server.embed(["one", "three"]), [[3, 1], [5, 1]])
        assert sorted(os.sched_getaffinity(server.pid)) == CORES
        assert server.cold_start_s > 0
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_peer_that_ends_is_a_failure_with_the_end_of_its_log(tmp_path: Path) -> None:
    code = "import sys; sys.exit('there is no such model')"
    with (
        pytest.raises(PeerFailed, match=r"ended with 1 .* there is no such model"),
        running(peer(code), folder=tmp_path, cores=CORES),
    ):
        pass


@pytest.mark.parametrize("body", ["{}", "[[1]", "[[1.0]]", '[["a"], ["b"]]'])
def test_peer_without_vectors_in_its_answer_fails(tmp_path: Path, body: str) -> None:
    code = SERVER.replace("json.dumps([[len(text), 1.0] for text in texts])", repr(body))
    with running(peer(code), folder=tmp_path, cores=CORES) as server, pytest.raises(PeerFailed, match="returned"):
        server.embed(["one", "two"])


def test_the_callers_environment_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code = "import os, sys; sys.exit('threads: ' + os.environ.get('OMP_NUM_THREADS', 'its own'))"
    with pytest.raises(PeerFailed, match="threads: its own"), running(peer(code), folder=tmp_path, cores=CORES):
        pass


def test_onnx_runtime_has_a_thread_for_each_core(tiny_model: Path) -> None:
    session = f"onnxruntime.InferenceSession({str(tiny_model / 'model.onnx')!r})"
    code = f"import onnxruntime; print({session}.get_session_options().intra_op_num_threads)"
    environment = {**os.environ, "PYTHONPATH": str(SERVERS / "held")}
    asked = [
        subprocess.run(
            [*prefix, sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        for prefix in (["taskset", "--cpu-list", str(CORES[0])], [])
    ]
    threads = [int(one.stdout) for one in asked]
    mine, machine = len(os.sched_getaffinity(0)), os.cpu_count()
    assert threads == [1 if machine != 1 else 0, mine if machine != mine else 0]  # 0: its own default


def test_a_failure_is_a_result_without_paths_of_this_machine(tmp_path: Path) -> None:
    code = f"import sys; sys.exit('{tmp_path}/models/x is missing')"
    (failure,) = measure_peer(peer(code), plan(tmp_path), cores=1, round_=0)
    assert isinstance(failure, Failure)
    assert "/models/x is missing" in failure.error
    assert str(tmp_path) not in failure.error


def test_more_cores_than_there_are_is_refused_with_both_numbers() -> None:
    there = len(os.sched_getaffinity(0))
    with pytest.raises(SystemExit, match=f"needs {there + 1} cores, but this process may use {there}"):
        cores_for(there + 1)
