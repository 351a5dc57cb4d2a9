"""Which rounds of a benchmark count."""

from dataclasses import replace

from benchmarks.serving.quiet import quiet_rounds
from benchmarks.serving.report import page
from benchmarks.serving.results import Agreement, Failure, LoadResult, ProcessResult, Result, Run
from tests.benchmarks.results import floor_results, load_results, whole_run


def busy_round(cores: int) -> list[Result]:
    """A first round with one load beside other work."""
    first, *others = load_results("plain", 90.0, cores=cores)
    assert isinstance(first, LoadResult)
    process = ProcessResult("plain", cores, 0, 1.0, 1.0, 1.0, 1.0)
    return [replace(first, other_share=0.52), *others, process, *floor_results("minilm-int8", 1.0, cores=cores)]


def test_a_round_beside_other_work_is_left_out_whole_and_named() -> None:
    others = [Agreement("plain", 2, 0.9, 0.9, 0.0), Failure("fastembed", "ended with 1")]
    quiet = [*load_results("plain", 10.0, round_=1), *floor_results("minilm-int8", 2.0, round_=1), *others]
    kept = quiet_rounds(Run({"Machine": "a test"}, (*busy_round(2), *quiet)))
    assert list(kept.results) == quiet
    assert "- Left out: round 1 on 2 cores, of which other work took up to 52%\n" in page(kept)


def test_a_core_count_without_a_quiet_round_keeps_all_and_the_page_warns() -> None:
    run = Run({}, (*busy_round(2), *load_results("plain", 10.0, round_=1), *busy_round(1)))
    kept = quiet_rounds(run)
    assert [(one.cores, one.round) for one in kept.loads] == [(2, 1)] * 6 + [(1, 0)] * 6
    assert "busy with other work, up to 52%: do not rely" in page(kept)


def test_a_quiet_run_is_kept_as_it_is() -> None:
    assert quiet_rounds(whole_run()) == whole_run()
