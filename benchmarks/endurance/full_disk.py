"""python -m benchmarks.endurance.full_disk ROUNDS, in its own mount namespace: crashes on a nearly full disk.

Then the same store on a read-only disk: a service must refuse it with one sentence, and its documents must survive.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.endurance.crash import Crashes, crash
from benchmarks.endurance.process import variables
from benchmarks.endurance.small_disk import SmallDisk

DISK_BYTES = 24 << 20
STORE = "store"
REFUSAL_TIMEOUT_S = 120


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="crosslet-disk-") as folder:
        disk = SmallDisk(Path(folder), size_bytes=DISK_BYTES)
        try:
            found = crash(Path(folder) / STORE, rounds=int(sys.argv[1]), disk=disk)
            print(found.summary)
            failures = [*found.faults, *starved(found), *read_only(disk)]
        finally:
            disk.unmount()
    for failure in failures:
        print(f"FAIL  {failure}")
    if not failures:
        print("PASS")
    return 1 if failures else 0


def starved(found: Crashes) -> list[str]:
    """A failure if no change was refused, since the disk was then never full."""
    return [] if found.refused else ["no change was refused: the disk was never full"]


def read_only(disk: SmallDisk) -> list[str]:
    command, environment = [sys.executable, "-m", "service"], variables(data=disk.folder / STORE)
    with disk.read_only():
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=REFUSAL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return [f"no refusal: the service still ran after {REFUSAL_TIMEOUT_S} s"]
    sentence = ended.stderr.strip().splitlines()[-1:]
    print(f"read-only       ended with {ended.returncode}: {sentence}")
    return [] if ended.returncode == 2 and "read-only" in str(sentence).lower() else [f"no refusal: {sentence}"]


if __name__ == "__main__":
    sys.exit(main())
