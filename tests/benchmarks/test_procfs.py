import os
import subprocess
import sys
import threading

import pytest

from benchmarks.serving import procfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_figures_of_a_tree_include_its_children() -> None:
    code = "data = bytearray(64_000_000); sum(range(20_000_000)); print('done', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert len(procfs.tree_of(process.pid)) == 2
        resident_bytes = procfs.resident_bytes(process.pid)
        assert resident_bytes > 64_000_000
        assert procfs.peak_bytes(process.pid) >= resident_bytes  # read after it: the process goes on to its `input`
        assert 0.01 < procfs.cpu_seconds(process.pid) < procfs.busy_seconds(range(os.cpu_count() or 1))
        process.communicate("\n")
    assert procfs.tree_of(process.pid) == []
    assert procfs.cpu_seconds(process.pid) == procfs.resident_bytes(process.pid) == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="there is no elsewhere on one core")
def test_hold_pins_threads_that_pinned_themselves() -> None:
    """As ONNX Runtime's do."""
    ended, pinned = threading.Event(), threading.Event()
    allowed = sorted(os.sched_getaffinity(0))
    seen: list[int] = []

    def work() -> None:
        os.sched_setaffinity(0, {allowed[-1]})
        seen.append(threading.get_native_id())
        pinned.set()
        ended.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert pinned.wait(10)
        procfs.hold(os.getpid(), allowed[:1])
        assert os.sched_getaffinity(seen[0]) == set(allowed[:1])
    finally:
        procfs.hold(os.getpid(), allowed)
        ended.set()
        thread.join()
