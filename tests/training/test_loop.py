import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.tiny import tiny_corpus, tiny_sentence_encoder
from training import loop
from training.batches import length_bucketed
from training.config import StudentConfig
from training.errors import ConfigError, DivergedError
from training.loop import Objective, train, warmup_then_linear
from training.sentence import SentenceEncoder
from training.stages.assistant import assistant_objective
from training.stages.bottleneck import bottleneck_objective, student_from_assistant
from training.stages.config import ContrastiveConfig, StageConfig
from training.stages.contrastive import contrastive_objective
from training.stages.pairs import PairEncoder, TeacherLabels
from training.stages.student import student_objective

CPU = torch.device("cpu")
CORPUS, TOKENS = tiny_corpus(40)
PAIRS = PairEncoder(CORPUS, TOKENS, max_length=16, device=CPU)
FREQUENCY = np.bincount(TOKENS.ids, minlength=60)


def teacher_labels() -> TeacherLabels:
    vectors = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TeacherLabels(vectors, np.arange(80))


def stage(**changes: float) -> StageConfig:
    values = {"pairs": 40, "batch_size": 8, "learning_rate": 3e-3, "embedding_learning_rate": 3e-3, **changes}
    return StageConfig(**values)  # type: ignore[arg-type]


def batches(rounds: int = 1) -> list[np.ndarray]:
    return length_bucketed(np.tile(np.arange(40), rounds), PAIRS.pair_lengths(), 8, seed=1)


def run(objective: Objective, folder: Path, rounds: int = 1, *, minutes: float = 60.0) -> None:
    train(objective, batches(rounds), stage(), folder, name="test", checkpoint_minutes=minutes, device=CPU)


def state_of(model: SentenceEncoder) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def last_line(folder: Path) -> dict[str, float]:
    return json.loads((folder / "log.jsonl").read_text().splitlines()[-1])


def test_the_assistant_overfits_a_few_pairs(tmp_path: Path) -> None:
    assistant = tiny_sentence_encoder()
    objective = assistant_objective(assistant, teacher_labels(), PAIRS)
    first = sum(value.item() for value in objective.losses(np.arange(40)).values())
    run(objective, tmp_path, rounds=40)
    assert first == pytest.approx(4.0, abs=0.8)  # two unrelated unit vectors are 2 apart, for each of the two terms
    assert last_line(tmp_path)["source"] + last_line(tmp_path)["target"] < 0.25 * first


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "whole", tmp_path / "killed"
    for folder in folders:
        folder.mkdir()
    whole, killed = tiny_sentence_encoder(), tiny_sentence_encoder()
    run(assistant_objective(whole, teacher_labels(), PAIRS), folders[0], rounds=4)

    class Killed(BaseException):
        pass

    real_append = loop._append

    def kill_at_step(path: Path, line: dict) -> None:
        raise Killed  # the first log line comes after LOG_STEPS steps, when checkpoints exist

    monkeypatch.setattr(loop, "_append", kill_at_step)
    monkeypatch.setattr(loop, "LOG_STEPS", 11)
    with pytest.raises(Killed):
        run(assistant_objective(killed, teacher_labels(), PAIRS), folders[1], rounds=4, minutes=0.0)
    monkeypatch.setattr(loop, "_append", real_append)
    resumed = tiny_sentence_encoder(seed=9)  # other weights: all must come from the checkpoint
    run(assistant_objective(resumed, teacher_labels(), PAIRS), folders[1], rounds=4)
    logged = [[json.loads(line)["step"] for line in (f / "log.jsonl").read_text().splitlines()] for f in folders]
    assert logged[1] == sorted(set(logged[1]))
    assert logged[1][-1] == logged[0][-1]
    for (name, expected), actual in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(expected, actual), name


def test_a_loss_that_is_not_finite_stops_the_run_with_the_step(tmp_path: Path) -> None:
    model = tiny_sentence_encoder()
    parameter = next(model.parameters())
    objective: Objective = Objective(model, lambda batch: {"loss": parameter.sum() * float("nan")})
    with pytest.raises(DivergedError, match=r"the loss is nan at step 0 of 5; lower its learning_rate"):
        run(objective, tmp_path)


def test_a_gradient_that_is_not_finite_stops_the_run_before_it_reaches_the_weights(tmp_path: Path) -> None:
    model = tiny_sentence_encoder()
    before = state_of(model)
    parameter = next(model.parameters())
    objective: Objective = Objective(model, lambda batch: {"loss": (parameter.sum() * 0.0).sqrt()})  # 0, slope inf
    with pytest.raises(DivergedError, match="the gradient is nan at step 0 of 5"):
        run(objective, tmp_path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_log_forgets_the_steps_that_a_kill_undid(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 25}\n{"step": 50}\n{"step": 75}\n{"st', encoding="utf-8")
    loop._forget_lines_after(path, 60)
    assert path.read_text(encoding="utf-8") == '{"step": 25}\n{"step": 50}\n'


def test_the_learning_rate_warms_up_and_falls_to_zero() -> None:
    factor = warmup_then_linear(100, 0.1)
    rates = [factor(step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == 0.0


def test_the_student_starts_as_the_assistant_when_nothing_is_cut() -> None:
    assistant = tiny_sentence_encoder()
    student = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=None, unit_layers=2, recurrences=1), FREQUENCY
    ).eval()
    with torch.no_grad():
        expected, actual = (PAIRS.encode(model, np.arange(6)) for model in (assistant, student))
    torch.testing.assert_close(actual, expected)


def test_a_unit_deeper_than_the_assistant_is_refused() -> None:
    with pytest.raises(ConfigError, match="unit_layers is 3; the assistant has 2"):
        student_from_assistant(
            tiny_sentence_encoder(), StudentConfig(bottleneck_size=4, unit_layers=3, recurrences=1), FREQUENCY
        )


def test_stage_two_trains_the_embedding_layer_alone_and_helps(tmp_path: Path) -> None:
    assistant = tiny_sentence_encoder()
    student = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=4, unit_layers=2, recurrences=1), FREQUENCY
    ).eval()
    before = state_of(student)
    objective = bottleneck_objective(assistant, student, PAIRS)
    first = objective.losses(np.arange(40))["tokens"].item()
    run(objective, tmp_path, rounds=10)
    assert objective.losses(np.arange(40))["tokens"].item() < first
    changed = {name for name, tensor in student.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith("encoder.body.embeddings.") for name in changed)


def test_the_svd_start_is_closer_than_a_random_one() -> None:
    assistant = tiny_sentence_encoder()
    start = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=4, unit_layers=2, recurrences=1), FREQUENCY
    ).eval()
    loss = bottleneck_objective(assistant, start, PAIRS).losses(np.arange(40))["tokens"].item()
    words = start.encoder.get_input_embeddings()
    with torch.no_grad():
        words.table.weight.copy_(words.table.weight[torch.randperm(60)])
    assert loss < 0.7 * bottleneck_objective(assistant, start, PAIRS).losses(np.arange(40))["tokens"].item()


def test_stage_three_pulls_the_student_to_the_assistant(tmp_path: Path) -> None:
    assistant = tiny_sentence_encoder()
    student = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=4, unit_layers=1, recurrences=2), FREQUENCY
    ).eval()
    before = state_of(assistant)
    objective = student_objective(assistant.requires_grad_(False), student, PAIRS)
    first = sum(value.item() for value in objective.losses(np.arange(40)).values())
    run(objective, tmp_path, rounds=40)
    assert sum(value.item() for value in objective.losses(np.arange(40)).values()) < 0.7 * first
    assert all(torch.equal(tensor, before[name]) for name, tensor in assistant.state_dict().items())


@pytest.mark.parametrize(
    ("objective", "parts"), [("soft", {"source", "target", "contrastive"}), ("none", {"source", "target"})]
)
def test_stage_four_trains_what_its_objective_names(tmp_path: Path, objective: str, parts: set[str]) -> None:
    student = tiny_sentence_encoder()
    config = ContrastiveConfig(pairs=40, objective=objective)  # type: ignore[arg-type]
    stage_four = contrastive_objective(student, teacher_labels(), PAIRS, config)
    assert set(stage_four.losses(np.arange(8))) == parts
    run(stage_four, tmp_path, rounds=30)
    assert last_line(tmp_path)["target"] < 1.0


def test_the_rows_of_the_teacher_follow_the_texts() -> None:
    labels = teacher_labels()
    shuffled = np.random.default_rng(1).permutation(40)
    moved = TeacherLabels(labels.vectors[shuffled], np.concatenate([np.argsort(shuffled), np.full(40, -1)]))
    torch.testing.assert_close(PAIRS.labels(moved, np.array([7, 3])), PAIRS.labels(labels, np.array([7, 3])))
