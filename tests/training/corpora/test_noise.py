import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from training.corpora.noise import noisy, noisy_pairs

PAIRS = [(f"The cat number {number} sat down.", f"Die Katze {number} saß auf der Matte.") for number in range(400)]


def test_the_same_pairs_and_seed_give_the_same_copies() -> None:
    assert list(noisy_pairs(PAIRS, 0.5, seed=1)) == list(noisy_pairs(PAIRS, 0.5, seed=1))
    assert list(noisy_pairs(PAIRS, 0.5, seed=1)) != list(noisy_pairs(PAIRS, 0.5, seed=2))


def test_about_the_share_of_pairs_gets_a_noisy_copy() -> None:
    copies = list(noisy_pairs(PAIRS, 0.25, seed=1))
    assert 60 <= len(copies) <= 130
    assert not list(noisy_pairs(PAIRS, 0, seed=1))
    originals = dict(PAIRS)
    assert all(copy not in (english, originals[english]) for english, copy in copies)
    of_english = sum("cat" in copy.lower() or "sat" in copy.lower() or "number" in copy.lower() for _, copy in copies)
    assert 5 <= of_english <= len(copies) // 2


@given(st.text(max_size=80), st.integers(0, 2**32))
def test_a_copy_of_any_text_is_one_line_and_hardly_longer(text: str, seed: int) -> None:
    copy = noisy(text, np.random.default_rng(seed))
    assert len(copy) <= 3 * len(unicodedata.normalize("NFD", text)) + 4
    assert copy == " ".join(copy.split())


def test_scripts_whose_marks_are_letters_keep_them() -> None:
    hindi, thai, japanese = "दिल्ली बहुत अच्छी जगह", "สวัสดีครับ", "注文はどこですか"
    for seed in range(50):
        for text in (hindi, thai, japanese):
            assert noisy(text, np.random.default_rng(seed)) == text


def test_every_kind_of_noise_occurs() -> None:
    text = "¿Dónde está mi pedido número siete?"
    copies = {noisy(text, np.random.default_rng(seed)) for seed in range(200)}
    assert text.lower() in copies
    assert text.upper() in copies
    assert "¿Donde esta mi pedido numero siete?" in copies
    assert "Dónde está mi pedido número siete" in copies
    assert len(copies) > 30  # slips
