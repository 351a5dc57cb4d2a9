"""No command reports anything: each runs under strace, in the home of a user who has set nothing. Needs strace."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.contract.live import wait_until_ready
from tests.export.checkpoints import save_student, write_record
from tests.parallel_text import write_data_folder
from tests.ports import reserved_port
from tests.skeleton.project import ROOT
from tests.system_calls import Observed, environment, observe, observed, traced
from tests.training.evaluation.test_encoders import write_sets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PYTHON = sys.executable
CROSSLET = (PYTHON, "-c", "from service.cli.main import main; raise SystemExit(main())")
REPORT_S = 20  # ONNX Runtime asks for its events host some 8 s after it is loaded, and again every few seconds
STOP_S = 60
LINES = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "The train leaves at noon.", "Der Zug fährt."]
SILENT = Observed()
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    save_student(folder)
    write_record(folder)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, documents and evaluation sets for the commands."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    documents = [json.dumps({"id": str(number), "text": line}) for number, line in enumerate(LINES)]
    (folder / "documents.jsonl").write_text("\n".join(documents), encoding="utf-8")
    write_sets(folder / "sets")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"))


def test_a_query_for_a_name_a_packet_and_a_file_are_seen(tmp_path: Path) -> None:
    code = """
import contextlib, pathlib, socket
(pathlib.Path.home() / ".identifier").write_text("1")
with contextlib.suppress(OSError):
    socket.getaddrinfo("events.example", 443)
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"report", (address, 9))
with contextlib.suppress(OSError), socket.socket() as tcp:
    tcp.connect(("127.0.0.1", 1))
"""
    seen = observe(tmp_path, [PYTHON, "-c", code])
    assert seen.files == [".identifier"]
    assert any('"192.0.2.1"' in call for call in seen.calls)
    assert any('"2001:db8::1"' in call for call in seen.calls)
    assert any("htons(53)" in call or "io.systemd.Resolve" in call for call in seen.calls)
    assert not any("htons(1)" in call for call in seen.calls)


def test_the_service_reports_nothing_from_its_start_to_its_end(tiny_model: Path, tmp_path: Path) -> None:
    with reserved_port() as port:
        settings = {"CROSSLET_MODEL": tiny_model, "CROSSLET_DATA": tmp_path / "data", "CROSSLET_PORT": port}
        settings["CROSSLET_MCP"] = True
        command = [*CROSSLET, "serve"]
        with (
            traced(tmp_path, command, **settings) as process,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client,
        ):
            wait_until_ready(client, process)
            put = client.put("/documents", json={"documents": [{"id": "1", "text": LINES[0]}]})
            found = client.post("/search", json={"query": LINES[1]})
            page = client.get("/docs")
            tools = client.post("/mcp", json=LIST_TOOLS, headers={"accept": "application/json, text/event-stream"})
            assert [answer.status_code for answer in (put, found, page, tools)] == [200, 200, 200, 200]
            time.sleep(REPORT_S)
            assert client.post("/embed", json={"inputs": LINES}).status_code == 200
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(STOP_S) == 0
    assert observed(tmp_path) == SILENT


def test_the_service_with_milvus_reports_nothing(tiny_model: Path, files: Path, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    settings = {"CROSSLET_MODEL": tiny_model, "CROSSLET_INDEX": f"milvus+lite://{tmp_path}/documents.db"}
    with reserved_port() as port, traced(tmp_path, [*CROSSLET, "serve"], CROSSLET_PORT=port, **settings) as process:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            wait_until_ready(client, process)
            assert client.put("/documents", json={"documents": [{"id": "1", "text": "a"}]}).status_code == 200
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(STOP_S) == 0
    assert observed(tmp_path) == SILENT


COMMANDS = {
    "info": (*CROSSLET, "info"),
    "embed": (*CROSSLET, "embed", *LINES),
    "mine": (*CROSSLET, "mine", "{files}/lines.txt", "{files}/lines.txt"),
    "dedup": (*CROSSLET, "dedup", "{files}/lines.txt"),
    "rerank": (*CROSSLET, "rerank", LINES[0], "{files}/lines.txt"),
    "mcp": ("sh", "-c", 'echo "$0" | "$@"', '{{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}', *CROSSLET, "mcp"),
    "index build": (*CROSSLET, "index", "build", "{files}/documents.jsonl"),
    "evaluate an artifact": (*CROSSLET, "evaluate", "{model}", "--data", "{files}/sets"),
    "evaluate a checkpoint": (*CROSSLET, "evaluate", "{checkpoint}", "--data", "{files}/sets"),
    "export": (
        PYTHON, "-m", "export", "--checkpoint", "{checkpoint}", "--max-sts-drop", "20", "--out", "{out}/artifact",
    ),
    "export.restore": (PYTHON, "-m", "export.restore", str(ROOT / "models/default"), "--out", "{out}/restored"),
    "a benchmark": (PYTHON, "-m", "benchmarks.memory", "{model}"),
    "training": (
        PYTHON, "-m", "training", "--config", str(ROOT / "training/configs/smoke.yaml"), "--data", "{data}",
        "--out", "{out}/run", "--until", "start",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_reports_nothing(
    tiny_model: Path, checkpoint: Path, files: Path, data: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    places = {"model": tiny_model, "checkpoint": checkpoint, "files": files, "data": data, "out": tmp_path}
    filled = [part.format(**places) for part in command]
    assert observe(tmp_path, filled, CROSSLET_MODEL=tiny_model, CROSSLET_DATA=tmp_path / "data") == SILENT


def test_search_and_the_copy_of_a_store_report_nothing(tiny_model: Path, files: Path, tmp_path: Path) -> None:
    settings = {"CROSSLET_MODEL": str(tiny_model), "CROSSLET_DATA": str(tmp_path / "data")}
    build = [*CROSSLET, "index", "build", str(files / "documents.jsonl")]
    subprocess.run(build, env=os.environ | settings, check=True)
    for name, command in {"search": ("search", LINES[1]), "export": ("index", "export")}.items():
        (tmp_path / name).mkdir()
        assert observe(tmp_path / name, [*CROSSLET, *command], **settings) == SILENT


def test_planning_an_ablation_reports_nothing(data: Path, tmp_path: Path) -> None:
    spec = ROOT / "training/configs/ablation.yaml"
    seen = observe(tmp_path, [*CROSSLET, "ablate", spec, "--data", data, "--out", tmp_path / "out", "--dry-run"])
    assert seen.calls == []
    assert [file for file in seen.files if not file.startswith(".cache/matplotlib/fontlist-")] == []


SWITCHES = {  # module of a library: an expression that is true where it reports
    "huggingface_hub.constants": "not module.HF_HUB_DISABLE_TELEMETRY",
    "datasets.config": "module.HF_UPDATE_DOWNLOAD_COUNTS",
    "ray._common.usage.usage_lib": "module.usage_stats_enabled()",
}


@pytest.mark.parametrize("module", SWITCHES)
def test_late_reporting_libraries_are_switched_off(tmp_path: Path, module: str) -> None:
    pytest.importorskip(module.partition(".")[0])
    code = f"import training, {module} as module; raise SystemExit(bool({SWITCHES[module]}))"
    variables = environment(tmp_path, {"HF_HUB_DISABLE_TELEMETRY": 0, "RAY_USAGE_STATS_ENABLED": 1})
    subprocess.run([PYTHON, "-c", code], env=variables, check=True)
