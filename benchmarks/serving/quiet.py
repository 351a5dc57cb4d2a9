"""Drops rounds that were disturbed by other work on the machine."""

from __future__ import annotations

from benchmarks.serving.results import FloorResult, LoadResult, ProcessResult, Run

BUSY_SHARE = 0.05  # of the servers' cores


def quiet_rounds(run: Run) -> Run:
    """Drop rounds in which other work took more than BUSY_SHARE during a load, and name them in the setting.

    A core count without quiet rounds keeps all its rounds.
    """
    others: dict[tuple[int, int], float] = {}
    for one in run.loads:
        others[one.cores, one.round] = max(others.get((one.cores, one.round), 0.0), one.other_share)
    with_quiet = {cores for (cores, _), share in others.items() if share <= BUSY_SHARE}
    busy = {place: share for place, share in others.items() if share > BUSY_SHARE and place[0] in with_quiet}
    if not busy:
        return run
    left_out = "; ".join(
        f"round {round_ + 1} on {cores} cores, of which other work took up to {share:.0%}"
        for (cores, round_), share in sorted(busy.items())
    )
    kept = (
        one
        for one in run.results
        if not (isinstance(one, LoadResult | ProcessResult | FloorResult) and (one.cores, one.round) in busy)
    )
    return Run({**run.setting, "Left out": left_out}, tuple(kept))
