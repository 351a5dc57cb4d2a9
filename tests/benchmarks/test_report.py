import re
from dataclasses import replace
from pathlib import Path

from benchmarks.serving.client import Tally
from benchmarks.serving.peers import OURS, PEERS
from benchmarks.serving.report import measured_peers, page, write_report
from benchmarks.serving.results import (
    BATCH_32,
    LOADS,
    MANY,
    Failure,
    LoadResult,
    ProcessResult,
    Run,
    read_results,
    save_results,
)
from benchmarks.serving.rounds import Usage, load_result, prebuilt
from tests.benchmarks.results import load_results, whole_run


def test_page_has_every_peer_in_every_table() -> None:
    text = page(whole_run())
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        widths = {line.count("|") for line in table.strip().splitlines()}
        assert len(widths) == 1, table
    assert all(text.count(f"| {peer.name} |") >= 10 for peer in PEERS.values())
    assert "On 2 cores" in text
    assert "On 1 core\n" in text


def test_a_peer_that_failed_is_on_the_page_with_its_error() -> None:
    whole = whole_run()
    results = tuple(one for one in whole.results if getattr(one, "peer", "") != "fastembed")
    text = page(Run(whole.setting, (*results, Failure("fastembed", "ended with 1"))))
    assert "- fastembed: `ended with 1`" in text
    assert "| fastembed |" not in text


def test_figures_of_a_busy_machine_are_marked() -> None:
    assert "busy with other work" not in page(whole_run())
    results = [replace(one, other_share=0.4) if isinstance(one, LoadResult) else one for one in whole_run().results]
    assert "busy with other work, up to 40%: do not rely" in page(Run({}, tuple(results)))


def test_requests_that_failed_are_counted_on_the_page() -> None:
    (first, *others) = load_results("plain", 10.0)
    assert isinstance(first, LoadResult)
    text = page(Run({}, (replace(first, failed=3), *others, ProcessResult("plain", 2, 0, 1.0, 1.0, 1.0, 1.0))))
    assert "| plain | 2 | 1 text, 1 client | 3 |" in text


def test_the_page_and_its_chart_are_written_and_belong_together(tmp_path: Path) -> None:
    write_report(whole_run(), tmp_path)
    (chart,) = re.findall(r"!\[.*\]\((.*)\)", (tmp_path / "speed.md").read_text(encoding="utf-8"))
    assert (tmp_path / chart).read_text(encoding="utf-8").startswith("<?xml")


def test_a_run_in_which_nothing_started_has_a_page_that_says_so(tmp_path: Path) -> None:
    write_report(Run({}, (Failure("fastembed", "ended with 1"),)), tmp_path)
    assert "- fastembed: `ended with 1`" in (tmp_path / "speed.md").read_text(encoding="utf-8")


def test_results_are_read_as_they_were_saved(tmp_path: Path) -> None:
    run = Run({"Machine": "m"}, (*whole_run().results, Failure("plain", "no")))
    save_results(tmp_path / "results.jsonl", run.setting, run.results)
    assert read_results(tmp_path / "results.jsonl") == run


def test_a_figure_is_the_median_of_its_rounds() -> None:
    results = [one for round_, rate in enumerate((100, 900, 300)) for one in load_results("p", rate, round_=round_)]
    run = Run({}, (*results, *load_results("p", 5000, cores=1), *load_results("q", 5000)))
    assert run.load("p", 2, MANY, lambda one: one.texts_per_s) == 300


def test_only_peers_with_figures_are_shown_in_their_order() -> None:
    assert measured_peers(whole_run()) == [peer.name for peer in PEERS.values()]
    assert measured_peers(Run({}, (Failure("plain", "no"),))) == []


def test_a_load_without_an_answer_has_no_latency_and_is_saved(tmp_path: Path) -> None:
    result = load_result("p", MANY, Tally(), Usage(0.1, 0.0), cores=2, round_=0)
    assert result.texts_per_s == 0
    assert result.cpu_ms_per_text is None
    save_results(tmp_path / "r", {}, [result])
    assert read_results(tmp_path / "r").load("p", 2, MANY, lambda one: one.p50_ms) is None


def test_texts_are_counted_by_request_and_batch() -> None:
    tally = Tally(latency_ms=[10.0, 20.0, 30.0], elapsed_s=0.5, generator_cpu_s=0.05)
    result = load_result("p", BATCH_32, tally, Usage(0.96, 0.02), cores=2, round_=0)
    assert (result.texts, result.texts_per_s, result.p50_ms) == (96, 192.0, 20.0)
    assert result.cpu_ms_per_text == 10.0
    assert result.generator_share == 0.1


def test_every_request_has_the_texts_of_its_load() -> None:
    texts = [f"text {number}" for number in range(40)]
    for load in LOADS:
        for request in prebuilt(OURS, load, texts):
            assert request.count(b"text ") == load.batch
