from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.reranking.small import PAIRS, a_ranking_set, student_base
from training.errors import ConfigError
from training.models.teacher import load_teacher
from training.reranking.config import RerankStageConfig, TeachConfig
from training.reranking.pairs import TextPair
from training.reranking.teaching import MODEL, Pupil, Triple, margins_of, teach, triples_of

EN = ("en", "en")
CPU = torch.device("cpu")


def overlap(queries: list[str], passages: list[str]) -> np.ndarray:
    """A re-ranker whose logit is the number of shared words."""
    shared = [len(set(query.split()) & set(passage.split())) for query, passage in zip(queries, passages, strict=True)]
    return np.array(shared, dtype=np.float32)


def run(base: Path, folder: Path, *, epochs: float = 4.0) -> None:
    stage = RerankStageConfig(epochs=epochs, batch_size=16, learning_rate=3e-3, bf16=False)
    folder.mkdir(parents=True, exist_ok=True)
    config = TeachConfig(encoder=str(base), scale=5.0, stage=stage)
    teach(PAIRS, overlap, a_ranking_set(), config, folder, seed=1, checkpoint_minutes=0.0, device=CPU)


def error(model: str) -> float:
    """Mean squared error of the bi-encoder's margins."""
    pupil, triples = Pupil(load_teacher(model, device=CPU).eval()), triples_of(PAIRS)
    with torch.no_grad():
        query = pupil.queries([one.query for one in triples])
        positive = (query * pupil.passages([one.positive for one in triples])).sum(dim=1)
        negative = (query * pupil.passages([one.negative for one in triples])).sum(dim=1)
    return float(np.square(5 * (positive - negative).numpy() - margins_of(triples, overlap)).mean())


def test_each_negative_meets_a_positive_of_its_query() -> None:
    pairs = [
        TextPair("q", "yes", EN, 1.0), TextPair("q", "also", EN, 1.0), TextPair("q", "no", EN, 0.0),
        TextPair("q", "never", EN, 0.0), TextPair("q", "yes", EN, 0.0), TextPair("r", "no", EN, 0.0),
    ]  # fmt: skip
    assert triples_of(pairs) == [Triple("q", "yes", "no"), Triple("q", "also", "never")]


def test_a_margin_is_the_positives_logit_less_the_negatives() -> None:
    triples = [Triple("a b c", "a b c", "a x"), Triple("a b c", "a b c", "x"), Triple("d", "y", "d")]
    assert margins_of(triples, overlap).tolist() == [2.0, 3.0, -1.0]


def test_a_short_stage_scores_only_what_it_trains_on(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(queries: list[str], passages: list[str]) -> np.ndarray:
        asked.extend(passages)
        return overlap(queries, passages)

    stage = RerankStageConfig(pairs=20, batch_size=10, learning_rate=1e-4, bf16=False)
    config, folder = TeachConfig(encoder=str(student_base(tmp_path / "base")), stage=stage), tmp_path / "taught"
    folder.mkdir()
    teach(PAIRS, counted, a_ranking_set(), config, folder, seed=1, checkpoint_minutes=1.0, device=CPU)
    (margins,) = folder.glob("margins-*.npy")
    assert len(np.load(margins)) == 20
    assert len(asked) <= 2 * 20 < len(triples_of(PAIRS))


def test_margins_of_other_triples_are_not_used(tmp_path: Path) -> None:
    base, folder, asked = str(student_base(tmp_path / "base")), tmp_path / "taught", []
    folder.mkdir()

    def start(encoder: str, pairs: int) -> None:
        def scores(queries: list[str], passages: list[str]) -> np.ndarray:
            asked.append(pairs)
            return overlap(queries, passages)

        stage = RerankStageConfig(pairs=pairs, batch_size=10, learning_rate=1e-4, bf16=False)
        config = TeachConfig(encoder=encoder, stage=stage)
        teach(PAIRS, scores, a_ranking_set(), config, folder, seed=1, checkpoint_minutes=1.0, device=CPU)

    with pytest.raises(ConfigError, match="is neither a folder nor"):
        start(str(tmp_path / "none"), 20)
    assert not asked  # the encoder fails before the re-ranker works
    for pairs in (20, 30):
        start(base, pairs)
    assert set(asked) == {20, 30}


def words_first(base: Path, folder: Path) -> Path:
    """The same bi-encoder with word embeddings that outweigh positions: a fresh one's vectors are all alike."""
    model = load_teacher(str(base), device=CPU)
    with torch.no_grad():
        for parameter in model[0].auto_model.get_input_embeddings().parameters():
            parameter.mul_(20)
    model.save(str(folder), create_model_card=False)
    return folder


def test_the_bi_encoder_learns_the_margins(tmp_path: Path) -> None:
    base = words_first(student_base(tmp_path / "base"), tmp_path / "words")
    run(base, tmp_path / "taught", epochs=6.0)
    assert error(str(tmp_path / "taught" / MODEL)) < 0.5 * error(str(base))


def test_a_killed_teaching_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = student_base(tmp_path / "base")
    run(base, tmp_path / "whole", epochs=1.0)
    queries, calls = Pupil.queries, []

    def killed(self: Pupil, texts: list[str]) -> torch.Tensor:
        calls.append(len(texts))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return queries(self, texts)

    with monkeypatch.context() as patched:
        patched.setattr(Pupil, "queries", killed)
        with pytest.raises(KeyboardInterrupt):
            run(base, tmp_path / "resumed", epochs=1.0)
    assert not (tmp_path / "resumed" / MODEL).exists()
    run(base, tmp_path / "resumed", epochs=1.0)
    assert error(str(tmp_path / "resumed" / MODEL)) == pytest.approx(error(str(tmp_path / "whole" / MODEL)), abs=1e-5)
