import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.serving import procfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def write_process(proc: Path, pid: int, parent: int, *, ticks: tuple[int, int, int, int], rss_kb: int) -> None:
    (proc / str(pid)).mkdir()
    fields = ["S", str(parent), *["0"] * 9, *map(str, ticks), "20"]
    (proc / str(pid) / "stat").write_text(f"{pid} (odd) name (x) {' '.join(fields)}\n")
    (proc / str(pid) / "status").write_text(f"Name:\todd\nVmHWM:\t{rss_kb * 2} kB\nVmRSS:\t{rss_kb} kB\n")


def test_a_tree_is_a_process_and_what_descends_from_it(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, ticks=(1, 2, 3, 4), rss_kb=100)
    write_process(tmp_path, 11, 10, ticks=(5, 0, 0, 0), rss_kb=10)
    write_process(tmp_path, 12, 11, ticks=(7, 0, 0, 0), rss_kb=1)
    write_process(tmp_path, 13, 1, ticks=(90, 90, 90, 90), rss_kb=5000)
    (tmp_path / "meminfo").write_text("")
    assert procfs.tree_of(10, tmp_path) == [10, 11, 12]
    assert procfs.cpu_seconds(10, tmp_path) == pytest.approx((1 + 2 + 3 + 4 + 5 + 7) / os.sysconf("SC_CLK_TCK"))
    assert procfs.resident_bytes(10, tmp_path) == 111 * 1024
    assert procfs.peak_bytes(10, tmp_path) == 222 * 1024


def test_a_process_that_has_ended_has_no_memory_and_no_time(tmp_path: Path) -> None:
    assert procfs.tree_of(10, tmp_path) == []
    assert procfs.cpu_seconds(10, tmp_path) == 0
    assert procfs.resident_bytes(10, tmp_path) == 0


def test_busy_core_is_neither_idle_nor_waiting_for_a_disk(tmp_path: Path) -> None:
    each = "1 2 4 1000 1000 8 16 32 1000 1000"
    (tmp_path / "stat").write_text(f"cpu  9 9 9 9 9\ncpu0 {each}\ncpu1 {each}\ncpu10 {each}\nintr 5 5 5\n")
    assert procfs.busy_seconds([1], tmp_path) == pytest.approx(63 / os.sysconf("SC_CLK_TCK"))
    assert procfs.busy_seconds([0, 1], tmp_path) == pytest.approx(126 / os.sysconf("SC_CLK_TCK"))


def test_figures_of_a_real_process_are_plausible() -> None:
    code = "data = bytearray(64_000_000); sum(range(20_000_000)); print('done', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        resident_bytes = procfs.resident_bytes(process.pid)
        assert resident_bytes > 64_000_000
        assert procfs.peak_bytes(process.pid) >= resident_bytes  # read after it: the process goes on to its `input`
        assert procfs.cpu_seconds(process.pid) > 0.01
        process.communicate("\n")


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
