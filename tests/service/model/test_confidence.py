"""The features of a search, against plain loops, and the logistic model over them."""

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.confidence import (
    DENSE,
    HYBRID,
    NEXT,
    USUAL_SPREAD,
    USUAL_WEIGHT,
    ConfidenceModel,
    Evidence,
    Weights,
    features,
    script_of,
    width_of,
    with_products,
)

RNG = np.random.default_rng(7)


def evidence(
    cosines: list[float], *, first: int = 0, likeness: dict[int, float] | None = None, shares: list[float] | None = None
) -> Evidence:
    """Evidence of documents whose vectors have these cosines with the first; others are not known."""
    known = {first: 1.0} | (likeness or {})
    vectors = [[like, math.sqrt(1 - like**2)] for like in known.values()]
    cosine_N = np.array(cosines)
    return Evidence(
        first=first,
        text="Das Passwort ist falsch",
        query="Passwort",
        searched=1000,
        rows_N=range(len(cosines)),
        cosine_N=cosine_N,
        score_N=cosine_N + (0 if shares is None else 0.1 * np.array(shares)),
        share_N=None if shares is None else np.array(shares),
        place_P=np.array([*known], np.int64),
        vectors_PD=np.array(vectors, np.float32),
    )


def weights(count: int, seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    products = count * (count + 3) // 2
    return Weights(0.1, tuple(rng.random(count)), tuple(rng.random(count) + 0.5), tuple(rng.normal(size=products)))


MODEL = ConfidenceModel(
    version=3, different=0.8, right=0.4, found=0.8, dense=weights(len(DENSE)), hybrid=weights(len(HYBRID))
)


@pytest.mark.parametrize("count", [2, 3, 7, 130])
def test_features_are_those_of_plain_loops(count: int) -> None:
    cosines = sorted(RNG.uniform(0.1, 0.9, count).tolist(), reverse=True)
    shares = RNG.random(count).tolist()
    found = features(evidence(cosines, first=1, likeness={0: 0.5}, shares=shares), different=0.8)
    assert found is not None
    others = [place for place in range(count) if place != 1][:NEXT]
    usual = cosines[:100]
    spread = math.sqrt(
        (len(usual) * statistics.pvariance(usual) + USUAL_WEIGHT * USUAL_SPREAD**2) / (len(usual) + USUAL_WEIGHT)
    )
    expected = {
        "cosine": cosines[1],
        "gap": cosines[1] - statistics.fmean(cosines[place] for place in others),
        "margin": cosines[1] + 0.1 * shares[1] - max(cosines[place] + 0.1 * shares[place] for place in others),
        "deviation": (cosines[1] - statistics.fmean(usual)) / spread,
        "comparable": 1,
        "share": shares[1],
        "lead": shares[1] - statistics.fmean(shares[place] for place in others),
        "size": 3,
        "width": math.log10(len("Das Passwort ist falsch")),
    }
    assert dict(zip(HYBRID, found.tolist(), strict=True)) == pytest.approx(expected)


def test_translations_of_the_first_are_not_compared() -> None:
    cosines = [0.8, 0.79, 0.78, 0.3]
    apart = features(evidence(cosines, likeness={1: 0.1, 2: 0.1}), different=0.8)
    alike = features(evidence(cosines, likeness={1: 0.9, 2: 0.81}), different=0.8)
    assert apart is not None
    assert alike is not None
    assert alike[1] == pytest.approx(0.5)
    assert apart[1] < 0.3


def test_passages_of_a_document_count_as_their_mean() -> None:
    one = evidence([0.8, 0.7, 0.3], likeness={1: 0.95})
    axes = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)  # of the second, the mean is 0.45 alike
    two = Evidence(**{**vars(one), "place_P": np.array([0, 1, 1]), "vectors_PD": axes})
    found = [features(of, different=0.8) for of in (one, two)]
    assert [feature_F[1] for feature_F in found if feature_F is not None] == pytest.approx([0.5, 0.3])


@pytest.mark.parametrize("cosines", [[0.5], [0.5, 0.49]])
def test_without_a_different_document_it_is_unknown(cosines: list[float]) -> None:
    assert MODEL.probability(evidence(cosines, likeness={1: 0.99} if len(cosines) > 1 else {}), answerable=0.7) is None


def test_words_count_only_within_a_script() -> None:
    there = evidence([0.8, 0.3], shares=[0.9, 0.0])
    elsewhere = Evidence(**{**vars(there), "text": "パスワードが違います"})
    found = features(elsewhere, different=0.8)
    assert found is not None
    assert found[4:].tolist() == pytest.approx([0, 0, 0, 3, math.log10(20)])


@given(
    cosines=st.lists(st.floats(-1, 1), min_size=2, max_size=30),
    answerable=st.floats(0.01, 0.99),
    words=st.booleans(),
    query=st.text(max_size=20),
)
def test_any_search_has_a_probability(cosines: list[float], answerable: float, words: bool, query: str) -> None:
    cosines.sort(reverse=True)
    found = evidence(cosines, shares=[0.5] * len(cosines) if words else None)
    probability = MODEL.probability(Evidence(**{**vars(found), "query": query}), answerable=answerable)
    assert probability is not None
    assert 0 <= probability <= 1


def test_the_prior_shifts_the_odds() -> None:
    found = evidence([0.8, 0.3])
    at = {share: MODEL.probability(found, answerable=share) for share in (0.25, 0.5, 0.75)}
    odds = {share: value / (1 - value) for share, value in at.items() if value is not None}
    prior = {share: 0.8 * share / (1 - 0.8 * share) for share in at}
    assert odds[0.75] / odds[0.25] == pytest.approx(prior[0.75] / prior[0.25])
    assert odds[0.5] / odds[0.25] == pytest.approx(prior[0.5] / prior[0.25])


def test_older_weights_know_no_width_and_no_size() -> None:
    of_version = {3: MODEL} | {
        version: replace(MODEL, version=version, dense=weights(len(DENSE) - less), hybrid=weights(len(HYBRID) - less))
        for version, less in ((2, 1), (1, 2))
    }
    for shares in (None, [0.9, 0.0]):
        small = evidence([0.8, 0.3], shares=shares)
        narrow, few = replace(small, text="a"), replace(small, searched=2)
        for version, model in of_version.items():
            first, of_narrow, of_few = (model.probability(one, answerable=0.7) for one in (small, narrow, few))
            assert (first != of_narrow, first != of_few) == (version == 3, version > 1)


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("straße", 6), ("東京 x", 6), ("a" * 900, 300)])
def test_letters_of_east_asia_are_two_columns_wide(text: str, columns: int) -> None:
    assert width_of(text, most=300) == columns


def test_products_are_of_each_pair_once() -> None:
    assert with_products(np.array([2.0, 3.0, 5.0])).tolist() == [2, 3, 5, 4, 6, 10, 9, 15, 25]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        *(
            ("Straße", "LATIN"),
            ("пароль", "CYRILLIC"),
            ("密码", "CJK"),
            ("パスワードを忘れた", "JAPANESE"),
            ("비밀번호", "HANGUL"),
        ),
        *(("كلمة", "ARABIC"), ("पासवर्ड", "DEVANAGARI"), ("4711", ""), ("", ""), ("東京ドームへ", "JAPANESE")),
    ],
)
def test_a_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script
