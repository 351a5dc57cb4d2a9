import numpy as np
import pytest

from tests.training.alignment.vectors import made_split
from training.alignment.candidates import PENALTIES, SHRINKAGES, STRENGTHS, Candidate, choose, make_candidates
from training.alignment.trainer import Settings
from training.evaluation.bitext import score_bitext

QUICK = Settings(learning_rate=1e-2, epochs=10)


def test_candidates_are_the_best_on_dev_first_and_served_at_unit_length() -> None:
    train, dev = made_split()
    found = make_candidates(train, dev, QUICK, "best")
    assert len(found) == len(STRENGTHS) + len(PENALTIES) + len(SHRINKAGES)
    assert [one.dev_p1 for one in found] == sorted((one.dev_p1 for one in found), reverse=True)
    for one in found:
        served = one(dev.source_ND), one(dev.target_ND)
        np.testing.assert_allclose(np.linalg.norm(served[0], axis=1), 1, rtol=1e-5)
        assert score_bitext(*served)["p1"] == one.dev_p1
    before = score_bitext(dev.source_ND, dev.target_ND)["p1"]
    assert found[0].dev_p1 > before + 10
    assert {one.name.split(",")[0].split()[0] for one in found} == {"siamese", "midpoint", "whitening"}


def test_a_strength_is_a_part_of_the_way_from_the_identity() -> None:
    train, dev = made_split()
    by_name = {one.name: one.layers[0] for one in make_candidates(train, dev, QUICK, "siamese")}
    whole, half = by_name["siamese, strength 1"], by_name["siamese, strength 0.5"]
    np.testing.assert_allclose(half.weight_DD, (np.eye(16) + whole.weight_DD) / 2, atol=1e-6)
    np.testing.assert_allclose(half.bias_D, whole.bias_D / 2, atol=1e-6)


def test_a_head_with_an_activation_has_no_weaker_form() -> None:
    train, dev = made_split()
    (one,) = make_candidates(train, dev, Settings(structure="tanh", epochs=1), "siamese")
    assert one.name == "siamese, strength 1"


@pytest.mark.parametrize(
    ("harmless", "chosen"), [({"a", "b"}, ("a", True)), ({"b"}, ("b", True)), (set(), ("a", False))]
)
def test_the_best_harmless_head_is_chosen_else_the_best(harmless: set[str], chosen: tuple[str, bool]) -> None:
    candidates = [Candidate(name, (), np.zeros(2, np.float32), p1) for name, p1 in (("a", 90.0), ("b", 80.0))]
    found, is_harmless = choose(candidates, lambda one: one.name in harmless)
    assert (found.name, is_harmless) == chosen
