import numpy as np
import orjson
import pytest

from benchmarks.serving.peers import INT8, OURS, PEERS, PLAIN, SERVERS, Peer
from service.process.telemetry_off import TELEMETRY_OFF
from tests.skeleton.project import ROOT, locked_versions

ENVIRONMENTS = ROOT / "benchmarks" / "envs"
ASKED = pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)


def pins(peer: Peer) -> dict[str, str]:
    """What a peer's environment is made of."""
    if peer.environment == "crosslet":
        return {name: next(iter(versions)) for name, versions in locked_versions("service.txt").items()}
    lines = (ENVIRONMENTS / f"{peer.environment}.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))  # fails where a line is no pin


@ASKED
def test_every_package_whose_version_the_page_gives_is_pinned(peer: Peer) -> None:
    torch_comes_from_its_own_lock = {"torch"}
    assert set(peer.packages) - torch_comes_from_its_own_lock <= pins(peer).keys()


@ASKED
def test_all_who_run_the_int8_model_have_the_same_onnx_runtime(peer: Peer) -> None:
    if peer.model in INT8:
        assert pins(peer)["onnxruntime"] == pins(OURS)["onnxruntime"]


@ASKED
def test_a_request_holds_the_texts_in_their_order(peer: Peer) -> None:
    asked = orjson.loads(peer.ask(["one", "zwei"]))
    assert ["one", "zwei"] in asked.values()


def test_vectors_are_read_from_both_shapes_of_answers() -> None:
    rows = [[1.0, 2.0], [3.0, 4.0]]
    answers = {"plain": rows, "infinity-torch": {"data": [{"embedding": row} for row in rows]}}
    for name, answer in answers.items():
        np.testing.assert_array_equal(PEERS[name].answer(orjson.dumps(answer)), rows)


@ASKED
def test_commands_have_no_placeholders_left(peer: Peer) -> None:
    values = {name: f"<{name}>" for name in ("bin", "model", "port", "scratch", "servers")}
    command, variables = peer.filled(values)
    assert not any("{" in part for part in [*command, *variables.values()])
    assert "<port>" in [*command, *variables.values()]
    assert "<model>" in [*command, *variables.values()]


@ASKED
def test_telemetry_of_peers_is_off(peer: Peer) -> None:
    values = dict.fromkeys(("bin", "model", "port", "scratch", "servers"), "")
    assert TELEMETRY_OFF.items() <= peer.filled(values)[1].items()


def test_the_25_line_server_has_at_most_25_lines() -> None:
    assert PLAIN.name == "25-line server"
    source = (SERVERS / "plain.py").read_text(encoding="utf-8")
    assert len([line for line in source.splitlines() if line.strip()]) <= 25
