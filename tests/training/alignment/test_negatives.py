import pytest
import torch

from training.alignment.losses import Negatives, choose_negatives, same_pairs

DISTANCE = torch.tensor([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 3.0, 4.0], [2.0, 3.0, 0.0, 5.0], [9.0, 4.0, 5.0, 0.0]])
OWN = torch.eye(4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("strategy", "targets"),
    [
        ("farthest", [3, 3, 3, 0]),
        ("hardest", [1, 0, 0, 1]),
        ("average", [2, 3, 1, 1]),  # the mean of distances is 4
    ],
)
def test_a_strategy_chooses_by_distance(strategy: Negatives, targets: list[int]) -> None:
    sources, found = choose_negatives(DISTANCE, OWN, strategy, torch.Generator())
    assert sources.tolist() == [0, 1, 2, 3]
    assert found.tolist() == targets


def test_random_negatives_are_every_other_target_in_turn() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = [choose_negatives(DISTANCE, OWN, "random", generator)[1].tolist() for _ in range(200)]
    for row in range(4):
        counts = [sum(draw[row] == target for draw in draws) for target in range(4)]
        assert counts[row] == 0
        assert min(count for target, count in enumerate(counts) if target != row) > 40


def test_positives_only_has_no_negatives() -> None:
    sources, found = choose_negatives(DISTANCE, OWN, "none", torch.Generator())
    assert len(sources) == len(found) == 0


@pytest.mark.parametrize("strategy", ["random", "farthest", "hardest", "average"])
def test_another_translation_of_the_same_sentence_is_no_negative(strategy: Negatives) -> None:
    # pairs 0 and 1 share their source, pairs 1 and 2 their target
    same = same_pairs(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    assert same.tolist() == [[True, True, True], [True, True, True], [False, True, True]]
    sources, found = choose_negatives(torch.zeros(3, 3), same, strategy, torch.Generator())
    assert (sources.tolist(), found.tolist()) == ([2], [0])
