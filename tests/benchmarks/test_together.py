"""The page of the limits, from results that are made up."""

from benchmarks.serving.peers import INFINITY_OPTIMUM, INFINITY_TORCH, OURS, PLAIN
from benchmarks.serving.results import Run
from benchmarks.serving.together import page
from tests.benchmarks.results import load_results

RATES = [
    (OURS, (500, 300, 310)),
    (PLAIN, (200, 200, 200)),
    (INFINITY_OPTIMUM, (100, 190, 200)),
    (INFINITY_TORCH, (50, 50, 50)),
]


def test_the_page_has_the_limits_on_loads_and_no_others() -> None:
    results = [
        result
        for peer, rates in RATES
        for round_, rate in enumerate(rates)
        for result in load_results(peer.name, rate, round_=round_)
    ]
    text = page(Run({"Machine": "one"}, tuple(results)))
    assert "- Machine: one" in text
    assert "| 1 text, 64 clients: times infinity's better engine | ≥ 2 | 1.58 (1.55 to 5.00) FAIL |" in text
    assert f"| 1 text, 64 clients: times the {PLAIN.name} | ≥ 1.5 | 1.55 (1.50 to 2.50) PASS |" in text
    assert f"| {OURS.name}, 1 text, 64 clients: share of the bare session loop | ≥ 0.9 | not measured |" in text
    assert "resident" not in text
    assert "## On 2 cores" in text
