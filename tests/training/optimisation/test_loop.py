import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.tiny import Rounds, tiny_corpus, tiny_sentence_encoder
from training.config.run import BottleneckConfig, StageConfig, StudentConfig, StudentStageConfig
from training.errors import ConfigError, DivergedError
from training.models.sentence_encoder import SentenceEncoder
from training.models.start import student_from_assistant
from training.optimisation.batches import BatchStream
from training.optimisation.loop import Objective, forget_lines_after, train
from training.stages.objectives import (
    assistant_objective,
    bottleneck_objective,
    student_objective,
)
from training.stages.pairs import PairEncoder, TeacherLabels, drawn_rows

CPU = torch.device("cpu")
CORPUS, TOKENS = tiny_corpus(40)
PAIRS = PairEncoder(CORPUS, TOKENS, max_length=16, device=CPU)
FREQUENCY = np.bincount(TOKENS.ids, minlength=60)


def teacher_labels() -> TeacherLabels:
    vectors = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TeacherLabels(vectors, np.arange(80))


def stage(**changes: object) -> StageConfig:
    values = {"pairs": 40, "batch_size": 8, "learning_rate": 3e-3, "embedding_learning_rate": 3e-3, **changes}
    return StageConfig(**values)  # type: ignore[arg-type]


def run(
    objective: Objective, folder: Path, rounds: int = 1, *, minutes: float = 60.0, validate=None, **changes: object
) -> None:
    config = stage(**changes)
    batches = BatchStream(
        Rounds(rounds), PAIRS.pair_lengths, config.batch_size, seed=1, epoch_pairs=40, bucketed=config.bucketed
    )
    folder.mkdir(exist_ok=True)
    train(objective, batches, config, folder, name="test", checkpoint_minutes=minutes, device=CPU, validate=validate)


def stage_one(model: SentenceEncoder) -> Objective:
    return assistant_objective(model, teacher_labels(), PAIRS)


def student_of(
    assistant: SentenceEncoder, *, bottleneck_size: int | None = 4, unit_layers: int = 2, recurrences: int = 1
) -> SentenceEncoder:
    shape = StudentConfig(bottleneck_size=bottleneck_size, unit_layers=unit_layers, recurrences=recurrences)
    return student_from_assistant(assistant, shape, FREQUENCY, seed=0).eval()


def assert_same_weights(actual: SentenceEncoder, expected: SentenceEncoder) -> None:
    for (name, tensor), other in zip(expected.state_dict().items(), actual.state_dict().values(), strict=True):
        assert torch.equal(tensor, other), name


def state_of(model: SentenceEncoder) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def lines(folder: Path, name: str = "log.jsonl") -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_the_assistant_overfits_a_few_pairs(tmp_path: Path) -> None:
    objective = stage_one(tiny_sentence_encoder())
    first = sum(value.item() for value in objective.losses(np.arange(40)).values())
    run(objective, tmp_path, rounds=40)
    assert first == pytest.approx(4.0, abs=0.8)  # two unrelated unit vectors are 2 apart, for each of the two terms
    assert lines(tmp_path)[-1]["source"] + lines(tmp_path)[-1]["target"] < 0.25 * first


class KilledError(BaseException):
    """Stands for a signal: no handler of ours catches it."""


def killed_at(objective: Objective, step: int) -> Objective:
    """The objective, until its `step`-th batch."""
    seen = iter(range(1, step + 1))

    def losses(batch: np.ndarray) -> dict[str, torch.Tensor]:
        if next(seen) == step:
            raise KilledError
        return objective.losses(batch)

    return Objective(objective.model, losses)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulation": 3, "sparse_embeddings": True, "weight_decay": 0.1},
        {"cycles": 4, "average_cycles": 5},
        {"dropout": True, "bucketed": False, "betas": [0.9, 0.999]},
    ],
)
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, settings: dict[str, object]) -> None:
    whole, killed = tiny_sentence_encoder(), tiny_sentence_encoder()
    run(stage_one(whole), tmp_path / "whole", rounds=4, **settings)
    with pytest.raises(KilledError):  # in the third round of five batches
        run(killed_at(stage_one(killed), 13), tmp_path / "killed", rounds=4, minutes=0.0, **settings)
    resumed = tiny_sentence_encoder(seed=9)  # other weights: all must come from the checkpoint
    run(stage_one(resumed), tmp_path / "killed", rounds=4, **settings)
    assert lines(tmp_path / "killed")[-1]["pairs"] == 160
    assert_same_weights(resumed, whole)


def test_the_ends_of_the_last_cycles_are_averaged(tmp_path: Path) -> None:
    """Three cycles of 40 pairs; a run of fewer goes as far in the same way. The start is the end before the first."""
    ends = [state_of(tiny_sentence_encoder())]
    for cycles in (1, 2, 3):
        student = tiny_sentence_encoder()
        run(stage_one(student), tmp_path / str(cycles), cycles, cycles=cycles)
        ends.append(state_of(student))
    for count in (2, 4):
        averaged = tiny_sentence_encoder()
        run(stage_one(averaged), tmp_path / f"averaged {count}", 3, cycles=3, average_cycles=count)
        for name, weights in averaged.state_dict().items():
            torch.testing.assert_close(weights, torch.stack([end[name] for end in ends[-count:]]).mean(dim=0))


def test_dropout_is_on_in_steps_and_off_for_scores(tmp_path: Path) -> None:
    model, modes, scored = tiny_sentence_encoder(), [], []
    objective = stage_one(model)

    def losses(batch: np.ndarray) -> dict[str, torch.Tensor]:
        modes.append(model.training)
        return objective.losses(batch)

    def validate() -> float:
        scored.append(model.training)
        return 1.0

    rest = {"learning_rate": 0.0, "embedding_learning_rate": 0.0, "validate": validate, "validate_pairs": 8}
    found = {}
    for name, dropout in (("without", False), ("with", True), ("again", True)):
        run(Objective(model, losses), tmp_path / name, dropout=dropout, **rest)
        assert not model.training
        found[name] = lines(tmp_path / name)[-1]["source"]
    assert modes == [False] * 5 + [True] * 10
    assert len(scored) > 3
    assert not any(scored)
    assert found["with"] == found["again"] != found["without"]


def test_accumulated_batches_are_one_large_batch(tmp_path: Path) -> None:
    large, accumulated = tiny_sentence_encoder(), tiny_sentence_encoder()
    for model, size, accumulation in ((large, 40, 1), (accumulated, 8, 5)):
        run(stage_one(model), tmp_path / str(size), batch_size=size, accumulation=accumulation, bf16=False)
    assert lines(tmp_path / "40")[-1]["source"] == pytest.approx(lines(tmp_path / "8")[-1]["source"], abs=1e-5)
    for expected, actual in zip(large.parameters(), accumulated.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


def test_a_log_line_says_how_far_the_stage_is(tmp_path: Path) -> None:
    run(stage_one(tiny_sentence_encoder()), tmp_path, rounds=6)
    first, last = lines(tmp_path)
    assert (first["step"], first["pairs"], first["epoch"]) == (25, 200, 5.0)
    assert (last["step"], last["pairs"], last["epoch"]) == (30, 240, 6.0)


def test_dev_scores_are_written_at_intervals_and_the_end(tmp_path: Path) -> None:
    scores = iter([0.1, 0.2, 0.3])
    run(stage_one(tiny_sentence_encoder()), tmp_path, rounds=4, validate=lambda: next(scores), validate_pairs=60)
    found = [(line["pairs"], line["epoch"], line["score"]) for line in lines(tmp_path, "dev.jsonl")]
    assert found == [(64, 1.6, 0.1), (120, 3.0, 0.2), (160, 4.0, 0.3)]


def test_dev_score_is_the_mean_of_its_pairs(tmp_path: Path) -> None:
    scores = {"en-de": 60.0, "en-fr": 80.00004}
    run(stage_one(tiny_sentence_encoder()), tmp_path, validate=lambda: scores, validate_pairs=40)
    (line,) = lines(tmp_path, "dev.jsonl")
    assert (line["score"], line["by_pair"]) == (70.0, {"en-de": 60.0, "en-fr": 80.0})


def test_a_killed_stage_repeats_no_dev_score(tmp_path: Path) -> None:
    def scored(*pairs_seen: int) -> dict[str, object]:
        scores = iter([{40: 0.1, 80: 0.9, 120: 0.3, 160: 0.2}[pairs] for pairs in pairs_seen])
        return {"rounds": 4, "minutes": 0.0, "validate_pairs": 40, "validate": lambda: next(scores)}

    whole, killed, resumed = (tiny_sentence_encoder(seed=seed) for seed in (0, 0, 9))
    run(stage_one(whole), tmp_path / "whole", **scored(40, 80, 120, 160))
    with pytest.raises(KilledError):
        run(killed_at(stage_one(killed), 13), tmp_path / "killed", **scored(40, 80, 120, 160))
    run(stage_one(resumed), tmp_path / "killed", **scored(120, 160))
    assert lines(tmp_path / "killed", "dev.jsonl") == lines(tmp_path / "whole", "dev.jsonl")
    assert_same_weights(resumed, whole)


def test_a_loss_that_is_not_finite_stops_the_run_with_the_step(tmp_path: Path) -> None:
    model = tiny_sentence_encoder()
    parameter = next(model.parameters())
    objective: Objective = Objective(model, lambda batch: {"loss": parameter.sum() * float("nan")})
    with pytest.raises(DivergedError, match=r"the loss is nan at step 0; lower its learning_rate"):
        run(objective, tmp_path)


def test_infinite_gradient_stops_before_the_weights(tmp_path: Path) -> None:
    model = tiny_sentence_encoder()
    before = state_of(model)
    parameter = next(model.parameters())
    objective: Objective = Objective(model, lambda batch: {"loss": (parameter.sum() * 0.0).sqrt()})  # 0, slope inf
    with pytest.raises(DivergedError, match="the gradient is nan at step 0"):
        run(objective, tmp_path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_log_forgets_the_steps_that_a_kill_undid(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 25}\n{"step": 50}\n{"step": 75}\n{"st', encoding="utf-8")
    forget_lines_after(path, 60)
    assert path.read_text(encoding="utf-8") == '{"step": 25}\n{"step": 50}\n'


def test_the_student_starts_as_the_assistant_when_nothing_is_cut() -> None:
    assistant = tiny_sentence_encoder()
    student = student_of(assistant, bottleneck_size=None)
    with torch.no_grad():
        expected, actual = (PAIRS.encode(model, np.arange(6)) for model in (assistant, student))
    torch.testing.assert_close(actual, expected)


def test_a_unit_deeper_than_the_assistant_is_refused() -> None:
    with pytest.raises(ConfigError, match="unit_layers is 3; the assistant has 2"):
        student_of(tiny_sentence_encoder(), unit_layers=3)


@pytest.mark.parametrize(("pooled", "part"), [(False, "tokens"), (True, "sentences")])
def test_stage_two_trains_the_embedding_layer_alone_and_helps(tmp_path: Path, pooled: bool, part: str) -> None:
    assistant = tiny_sentence_encoder()
    student = student_of(assistant)
    before = state_of(student)
    objective = bottleneck_objective(assistant, student, PAIRS, BottleneckConfig(pooled=pooled))
    first = objective.losses(np.arange(40))[part].item()
    run(objective, tmp_path, rounds=10)
    assert objective.losses(np.arange(40))[part].item() < first
    changed = {name for name, tensor in student.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith("encoder.body.embeddings.") for name in changed)


def test_stage_three_adds_weighed_token_distances() -> None:
    assistant, student = tiny_sentence_encoder(seed=1), tiny_sentence_encoder(seed=2)
    config = StudentStageConfig(pairs=40, source_share=0.5, token_weight=0.25)
    batch_B = np.arange(8)
    losses = student_objective(assistant, student, PAIRS, config).losses(batch_B)
    texts = np.unique(np.concatenate([CORPUS.english[batch_B[drawn_rows(batch_B, 0.5)]], CORPUS.other[batch_B]]))
    distances = []
    for text in texts:
        ids_1L, mask_1L = TOKENS.batch(np.array([text]), max_length=16)
        one, other = (model.token_embeddings(ids_1L, mask_1L)[0] for model in (assistant, student))
        distances += (one - other).square().sum(dim=-1).tolist()
    assert losses["tokens"].item() == pytest.approx(0.25 * np.mean(distances), rel=1e-5)
    assert "tokens" not in student_objective(assistant, student, PAIRS).losses(batch_B)


def test_mean_reduction_divides_stage_twos_error_by_h() -> None:
    assistant, student = tiny_sentence_encoder(), tiny_sentence_encoder(seed=1)
    summed, mean = (
        bottleneck_objective(assistant, student, PAIRS, BottleneckConfig(reduction=name)).losses(np.arange(8))["tokens"]
        for name in ("sum", "mean")
    )
    torch.testing.assert_close(mean, summed / 16)


def test_the_rows_of_the_teacher_follow_the_texts() -> None:
    labels = teacher_labels()
    shuffled = np.random.default_rng(1).permutation(40)
    moved = TeacherLabels(labels.vectors[shuffled], np.concatenate([np.argsort(shuffled), np.full(40, -1)]))
    torch.testing.assert_close(PAIRS.labels(moved, np.array([7, 3])), PAIRS.labels(labels, np.array([7, 3])))
