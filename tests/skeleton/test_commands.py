import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skeleton.project import ROOT

MADE_BY_THE_MAKEFILE = [".venv", ".venv-dev", ".venv-dev-cuda", ".bench", "runs", "data"]
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$@" >> "{calls}"
[[ "$*" == *pytorch.org* ]] && exit 0
echo "{message}" >&2
exit {status}
"""


def make(*arguments: str) -> str:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_alone_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?m)^([a-z][a-z-]*):", makefile)
    listed = re.findall(r"(?m)^  make ([a-z-]+) +\S", make())
    assert listed == targets
    (phony,) = re.findall(r"(?m)^\.PHONY: (.*)$", makefile)
    assert sorted(phony.split()) == sorted(targets)


def test_serve_installs_the_extras_that_are_asked_for() -> None:
    assert "requirements/mcp.txt" in make("--dry-run", "--always-make", "serve", "CROSSLET_MCP=true")
    for off in ("", "false", "0"):
        assert "requirements/mcp.txt" not in make("--dry-run", "--always-make", "serve", f"CROSSLET_MCP={off}")
    traced = make("--dry-run", "--always-make", "serve", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")
    assert ("requirements/traces.txt" in traced, "requirements/mcp.txt" in traced) == (True, False)
    ids = [make("--dry-run", "--always-make", "serve", f"CROSSLET_TOKEN_IDS={kind}") for kind in ("cl100k_base", "own")]
    assert ["requirements/openai-ids.txt" in shown for shown in ids] == [True, False]
    places = ("milvus://localhost", "milvus+tls://host:443/shop", "embedded")
    kept = [make("--dry-run", "--always-make", "serve", f"CROSSLET_INDEX={place}") for place in places]
    assert ["requirements/milvus.txt" in shown for shown in kept] == [True, True, False]


def test_an_old_python_is_refused_with_both_versions() -> None:
    script = ROOT / "scripts" / "require_python.py"
    code = f"import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path({str(script)!r})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert re.fullmatch(r"crosslet needs Python 3\.11 or newer; \S+ is 3\.9: .*make PYTHON=\S+ .*\n", answer.stderr)


def test_a_python_without_locks_is_refused_for_development_alone() -> None:
    script = str(ROOT / "scripts" / "require_python.py")
    code = "import runpy, sys; sys.version_info = (3, 14, 0); runpy.run_path(sys.argv.pop(1))"
    service = subprocess.run([sys.executable, "-c", code, script], capture_output=True, text=True, check=False)
    assert service.returncode == 0
    dev = subprocess.run([sys.executable, "-c", code, script, "3.13"], capture_output=True, text=True, check=False)
    assert dev.returncode == 1
    assert re.fullmatch(r".* needs Python 3\.13 at most, .*; \S+ is 3\.14: .*make PYTHON=python3\.13 .*\n", dev.stderr)


def test_this_python_is_accepted() -> None:
    (newest,) = re.findall(r"(?m)^NEWEST +:= ([\d.]+)#", (ROOT / "Makefile").read_text(encoding="utf-8"))
    for arguments in ([], [newest]):
        subprocess.run([sys.executable, str(ROOT / "scripts" / "require_python.py"), *arguments], check=True)


def test_the_ci_run_ignores_settings_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "make").write_text("#!/bin/sh\nenv\n", encoding="utf-8")
    (tmp_path / "make").chmod(0o755)
    for program in ("g++", "strace", "chromium"):
        (tmp_path / program).symlink_to("/bin/true")
    foreign = {
        "ARGS": "-k none",
        "TORCH": "cuda",
        "PYTEST_ADDOPTS": "-x",
        "CROSSLET_PORT": "1",
        "CROSSLET_TEST_MILVUS": "m",
    }
    environment = os.environ | foreign | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    check = subprocess.run(
        ["bash", ROOT / ".ci/run"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    seen = {line.partition("=")[0] for line in check.splitlines()}
    assert "CI" in seen
    assert seen & foreign.keys() == set()


@pytest.mark.parametrize("folder", MADE_BY_THE_MAKEFILE)
def test_without_git_lint_leaves_made_folders_alone(tmp_path: Path, folder: str) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    source = tmp_path / folder / "module.py"
    source.parent.mkdir()
    source.write_text("x   = 1\n", encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "format", "--no-cache", "."]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert source.read_text(encoding="utf-8") == "x   = 1\n"


def test_the_locks_do_not_depend_on_settings_of_this_machines_uv(tmp_path: Path) -> None:
    (tmp_path / "uv").write_text('#!/bin/sh\nenv\nls "$XDG_CONFIG_DIRS/uv"\n', encoding="utf-8")
    (tmp_path / "uv").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path),
        "UV_EXCLUDE_NEWER": "2020-01-01",
        "UV_DEFAULT_INDEX": "https://example.org",
    }
    lock = subprocess.run(
        [ROOT / "scripts/lock.sh"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "uv.toml" in lock.splitlines()
    assert re.findall(r"(?m)^UV_\w+", lock) == []
    assert f"XDG_CONFIG_HOME={tmp_path}" not in lock


FAKE_JOB = """#!/bin/sh
job=$2
while [ $# -gt 0 ]; do
  case "$1" in --out) out=$2 ;; esac
  shift
done
echo "$job ${{out#{root}}}" >> "{calls}"
case "$job" in
export.train)
  mkdir -p "$out/final/checkpoint"; cd "$out/final/checkpoint"; [ -e crosslet.json ] || touch crosslet.json ;;
export) mkdir -p "$out"; touch "$out/manifest.json" ;;
esac
"""


def test_a_model_is_exported_again_if_its_checkpoint_is_newer(tmp_path: Path) -> None:
    out, calls = tmp_path / "out", tmp_path / "calls"
    python = tmp_path / "dev" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(FAKE_JOB.format(calls=calls, root=out), encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "dev" / ".installed").touch()

    trained = ["export.train /sentences", "export.train"]

    def made() -> list[str]:
        calls.unlink(missing_ok=True)
        make("model", f"DEV={os.path.relpath(tmp_path / 'dev', ROOT)}", f"OUT={out}")
        return [line.strip() for line in calls.read_text().splitlines()]

    assert made() == [*trained, "export /artifact"]
    os.utime(out / "final/checkpoint/crosslet.json", (1000, 1000))
    assert made() == trained
    os.utime(out / "artifact/manifest.json", (500, 500))
    assert made() == [*trained, "export /artifact"]


def install_torch(
    tmp_path: Path, flavour: str, *, message: str, status: int
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run install-torch.sh with a python that answers as told; return its end and the arguments of each call."""
    calls, python = tmp_path / "calls", tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(calls=calls, message=message, status=status), encoding="utf-8")
    python.chmod(0o755)
    command = [str(ROOT / "scripts" / "install-torch.sh"), str(python), flavour]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    return end, calls.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_torch_comes_from_the_configured_index_when_it_is_there(tmp_path: Path, flavour: str) -> None:
    end, calls = install_torch(tmp_path, flavour, message="", status=0)
    assert end.returncode == 0
    assert len(calls) == 1
    assert "--require-hashes" in calls[0]
    assert calls[0].endswith(f"torch-{flavour}.txt")


def test_cpu_torch_falls_back_to_the_index_of_pytorch(tmp_path: Path) -> None:
    message = "ERROR: No matching distribution found for torch==2.13.0+cpu"
    end, calls = install_torch(tmp_path, "cpu", message=message, status=1)
    assert end.returncode == 0
    assert len(calls) == 2
    assert calls[1] == f"{calls[0]} --index-url https://download.pytorch.org/whl/cpu"


@pytest.mark.parametrize("flavour", ["cpu", "cuda"])
def test_a_wrong_hash_is_an_error_without_fallback(tmp_path: Path, flavour: str) -> None:
    message = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."
    end, calls = install_torch(tmp_path, flavour, message=message, status=1)
    assert end.returncode == 1
    assert message in end.stderr
    assert len(calls) == 1


def test_a_missing_ensurepip_names_the_package_to_install(tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError\n")
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "require_python.py")],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "apt install python3-venv" in result.stderr
    assert len(result.stderr.splitlines()) == 1
