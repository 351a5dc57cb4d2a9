"""Runs with chosen figures, for the tests of what is made of them."""

from benchmarks.serving.peers import OURS, OURS_BUNDLED, PEERS
from benchmarks.serving.results import LOADS, Agreement, FloorResult, LoadResult, ProcessResult, Result, Run


def load_results(peer: str, texts_per_s: float, *, cores: int = 2, round_: int = 0) -> list[Result]:
    return [
        LoadResult(
            peer, cores, round_, load.clients, load.batch, texts=100, failed=0, texts_per_s=texts_per_s,
            p50_ms=2.0, p99_ms=4.0, cpu_ms_per_text=1.0, generator_share=0.1, other_share=0.01,
        )
        for load in LOADS
    ]  # fmt: skip


def floor_results(model: str, texts_per_s: float, *, cores: int = 2, round_: int = 0) -> list[Result]:
    return [
        FloorResult(model, cores, round_, kind, texts_per_s, texts_per_s * 0.98, p50_ms=1.5, tokens_per_text=18.0)
        for kind in ("short", "mixed")
    ]


def whole_run(*, ours: float = 950.0, others: float = 400.0, cores: tuple[int, ...] = (2, 1)) -> Run:
    """Every peer on every core count, one round, with a floor of 1000 texts a second."""
    results: list[Result] = []
    for peer in PEERS.values():
        is_ours = peer in (OURS, OURS_BUNDLED)
        for count in cores:
            results += load_results(peer.name, ours if is_ours else others, cores=count)
            results.append(ProcessResult(peer.name, count, 0, 0.8, 120.0, 140.0, 160.0))
            results += floor_results(peer.model, 1000.0, cores=count) if is_ours else []
            results.append(Agreement(peer.name, count, 0.99, 0.98, 0.0 if is_ours else 1e-4))
    return Run({"Machine": "a test"}, tuple(results))
