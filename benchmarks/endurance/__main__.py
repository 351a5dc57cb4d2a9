"""python -m benchmarks.endurance overload | shutdown | soak | crash | full-disk: prints facts, then failures.

Exits with 1 after a failure. By default overload takes a minute, shutdown five seconds and soak half an hour
(--seconds). crash kills a writing process 300 times (--rounds), which takes minutes. full-disk does the same on a
separate file system that is nearly full, then read-only.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.endurance import full_disk
from benchmarks.endurance.crash import crash
from benchmarks.endurance.overload import overload
from benchmarks.endurance.process import NoService, running_service
from benchmarks.endurance.shutdown import shutdown
from benchmarks.endurance.small_disk import own_mounts
from benchmarks.endurance.soak import Soak, soak

REPORT_EVERY_SAMPLES = 30


def main() -> int:
    scenarios: dict[str, tuple[float, Callable[[float, dict[str, object]], Awaitable[list[str]]]]] = {
        "overload": (60.0, _overload),
        "shutdown": (5.0, _shutdown),
        "soak": (1800.0, _soak),
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("scenario", choices=[*scenarios, "crash", "full-disk"])
    parser.add_argument("--seconds", type=float, help="how long the load lasts")
    parser.add_argument("--rounds", type=int, default=300, help="crash: how many kills")
    parser.add_argument("--model", type=Path, help="artifact folder; default: the bundled one")
    arguments = parser.parse_args()
    if arguments.scenario == "full-disk":
        command = [sys.executable, "-m", full_disk.__name__, str(arguments.rounds)]
        return subprocess.run(own_mounts(command), check=False).returncode
    if arguments.scenario == "crash":
        with tempfile.TemporaryDirectory(prefix="crosslet-crash-") as folder:
            found = crash(Path(folder), rounds=arguments.rounds)
        print(found.summary)
        failures = found.faults
    else:
        seconds, scenario = scenarios[arguments.scenario]
        settings: dict[str, object] = {} if arguments.model is None else {"model": arguments.model}
        try:
            failures = asyncio.run(scenario(arguments.seconds or seconds, settings))
        except NoService as exc:
            failures = [str(exc)]
    for failure in failures:
        print(f"FAIL  {failure}")
    if not failures:
        print("PASS")
    return 1 if failures else 0


async def _overload(seconds: float, settings: dict[str, object]) -> list[str]:
    with running_service(**settings) as service:
        found = await overload(service, seconds=seconds)
    print(f"capacity        {found.capacity_texts_per_s:.0f} texts/s")
    print(f"sent            {found.sent_texts} texts in {found.sending_s:.1f} s, {found.factor:.1f} times the capacity")
    print(f"responses       {dict(found.statuses)}; {found.lost} lost, {found.wrong} wrong")
    print(f"                (checked one vector of each, and all vectors of {found.rechecked} responses)")
    print(f"resident        {_mib(found.resident_bytes[0])} at the start, {_mib(max(found.resident_bytes))} at most")
    print(f"                {found.growth_bytes / 2**20:+.1f} MiB from the first half to the second")
    print(f"recovery        {found.recovery_s:.2f} s until a batch was answered as fast as before")
    print(f"client          used {found.client_cpu_share:.2f} of a core")
    return found.failures()


async def _shutdown(seconds: float, settings: dict[str, object]) -> list[str]:
    with running_service(**settings) as service:
        found = await shutdown(service, seconds=seconds)
    print(f"responses       {dict(found.received)}, {found.received_after} of them after SIGTERM; {found.wrong} wrong")
    print(f"logged          {dict(found.logged)}; exit code {found.exit_code}")
    return found.failures()


async def _soak(seconds: float, settings: dict[str, object]) -> list[str]:
    def report(found: Soak) -> None:
        if len(found.at_s) % REPORT_EVERY_SAMPLES == 1:
            print(
                f"{found.at_s[-1]:7.0f} s  {_mib(found.resident_bytes[-1])}  {sum(found.statuses.values())} responses",
                flush=True,
            )

    with running_service(log_level="WARNING", **settings) as service:
        found = await soak(service, seconds=seconds, report=report)
    print(f"responses       {dict(found.statuses)}")
    print(f"resident        {_mib(max(found.resident_bytes))} at most; {found.mib_per_10_min:+.2f} MiB in ten minutes")
    return found.failures()


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
