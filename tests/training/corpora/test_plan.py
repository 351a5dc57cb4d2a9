from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.tiny import tiny_corpus
from training.config.run import CorpusConfig, SourceConfig
from training.corpora import plan as plans
from training.corpora.corpus import Corpus
from training.corpora.plan import SamplingPlan, language_shares
from training.errors import CorpusError

NEWS = CorpusConfig(sources={"news": SourceConfig()})


def corpus_of(groups: dict[tuple[str, str], int]) -> Corpus:
    """So many pairs of each (language, source), in an order of no group."""
    languages, sources = (list(dict.fromkeys(names)) for names in zip(*groups, strict=True))
    rows = [
        (languages.index(language), sources.index(source)) for (language, source), n in groups.items() for _ in range(n)
    ]
    codes = np.random.default_rng(0).permutation(np.array(rows, dtype=np.uint16))
    index = np.arange(len(codes), dtype=np.int32)
    texts = [f"text {i}" for i in range(2 * len(index))]
    return Corpus(texts, len(index), index, index + len(index), languages, sources, codes[:, 0], codes[:, 1])


def drawn_by_source(corpus: Corpus, plan: np.ndarray) -> Counter[str]:
    return Counter(corpus.sources[code] for code in corpus.source_code[plan])


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 10**7), min_size=1, max_size=20), st.floats(0, 1))
def test_language_shares_sum_to_one_and_keep_the_order_of_sizes(counts: dict[str, int], exponent: float) -> None:
    shares = language_shares(counts, exponent)
    assert sum(shares.values()) == pytest.approx(1)
    by_size = sorted(counts, key=counts.__getitem__)
    assert all(shares[a] <= shares[b] + 1e-12 for a, b in pairwise(by_size))


def test_a_plan_draws_every_pair_before_any_twice() -> None:
    corpus, _ = tiny_corpus(40)
    plan = SamplingPlan(corpus, NEWS, 60, seed=3).all_rounds()
    assert np.array_equal(plan, SamplingPlan(corpus, NEWS, 60, seed=3).all_rounds())
    assert not np.array_equal(plan, SamplingPlan(corpus, NEWS, 60, seed=4).all_rounds())
    seen = Counter(plan.tolist())
    assert len(plan) == 60
    assert set(seen) == set(range(40))
    assert max(seen.values()) == 2


def test_source_weights_shift_the_mix() -> None:
    corpus = corpus_of({("de", "captions"): 10, ("de", "manuals"): 30})
    config = CorpusConfig(sources={"captions": SourceConfig(weight=9), "manuals": SourceConfig(weight=1)})
    drawn = drawn_by_source(corpus, SamplingPlan(corpus, config, 120, seed=1).all_rounds())
    assert drawn == {"captions": 90, "manuals": 30}  # 10 x 9 against 30 x 1


def test_equal_files_are_drawn_alike_whatever_their_size() -> None:
    corpus = corpus_of({("de", "captions"): 10, ("de", "manuals"): 300, ("fr", "captions"): 50})
    config = CorpusConfig(sources={"captions": SourceConfig(weight=9), "manuals": SourceConfig()}, equal_files=True)
    plan = SamplingPlan(corpus, config, 90, seed=1).all_rounds()
    assert Counter(zip(corpus.language_code[plan], corpus.source_code[plan], strict=True)) == {
        (0, 0): 30,
        (0, 1): 30,
        (1, 0): 30,
    }


def test_languages_are_drawn_by_size_to_the_exponent() -> None:
    corpus = corpus_of({("de", "news"): 400, ("fi", "news"): 100})
    for exponent, of_german in ((1, 400), (0.5, 333), (0, 250), (-1, 100)):  # of 500
        plan = SamplingPlan(corpus, NEWS, 500, seed=1, language_exponent=exponent).all_rounds()
        assert (corpus.language_code[plan] == 0).sum() == of_german


def test_a_plan_of_some_sources_draws_from_these_alone() -> None:
    corpus = corpus_of({("de", "news"): 30, ("de", "talks"): 10, ("fi", "news"): 20})
    config = CorpusConfig(sources={"news": SourceConfig(), "talks": SourceConfig()})
    plan = SamplingPlan(corpus, config, 25, seed=1, sources=["talks"]).all_rounds()
    assert drawn_by_source(corpus, plan) == {"talks": 25}
    assert corpus.count(["talks"]) == 10
    assert corpus.count() == 60
    with pytest.raises(CorpusError, match="the corpus holds no pair of novels"):
        SamplingPlan(corpus, config, 25, seed=1, sources=["novels"]).all_rounds()


@pytest.mark.parametrize("pairs", [1, 7, 100, 977])
def test_rounds_are_bounded_add_up_and_have_one_mix(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(plans, "ROUND_PAIRS", 100)
    corpus = corpus_of({("de", "news"): 50, ("de", "talks"): 31, ("fi", "news"): 13})
    config = CorpusConfig(sources={"news": SourceConfig(), "talks": SourceConfig(weight=2)})
    plan = SamplingPlan(corpus, config, pairs, seed=1)
    rounds = [plan.round(index) for index in range(plan.rounds)]
    assert sum(map(len, rounds)) == len(plan) == pairs
    assert max(map(len, rounds)) <= 100
    for source in ("news", "talks"):
        counts = [drawn_by_source(corpus, drawn)[source] for drawn in rounds]
        assert max(counts) - min(counts) <= 2  # one more or less for each language


def test_a_round_is_drawn_without_earlier_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "ROUND_PAIRS", 60)
    corpus, _ = tiny_corpus(40)
    rounds = [SamplingPlan(corpus, NEWS, 200, seed=5).round(index) for index in (3, 1, 0, 2)]
    whole = SamplingPlan(corpus, NEWS, 200, seed=5).all_rounds()
    assert np.array_equal(np.concatenate([rounds[2], rounds[1], rounds[3], rounds[0]]), whole)
    for stop in range(40, 201):
        seen = np.bincount(whole[:stop], minlength=40)
        assert seen.max() - seen.min() <= 2 + stop // 50  # a round is shuffled after it is drawn
    assert set(np.bincount(whole).tolist()) == {5}
    with pytest.raises(IndexError):
        SamplingPlan(corpus, NEWS, 200, seed=5).round(4)


def test_each_pass_and_each_round_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "ROUND_PAIRS", 42)
    corpus, _ = tiny_corpus(40)
    plan = SamplingPlan(corpus, NEWS, 120, seed=5)
    orders = [plan.round(index).tolist() for index in range(plan.rounds)]
    assert [sorted(order) for order in orders] == [list(range(40))] * 3
    assert len({tuple(order) for order in orders}) == 3
