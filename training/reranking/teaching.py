"""The re-ranker teaches a bi-encoder its margins between positives and negatives (Hofstätter et al. 2020, eq. 4).

The bi-encoder is any sentence-transformers model; its score is cosine * scale. Shapes: T triples, B of a batch, D dims.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional as F

from training.evaluation.encoders import search_prompts
from training.losses import margin_mse
from training.models.teacher import load_teacher
from training.optimisation.batches import BatchStream, Indices
from training.optimisation.loop import Objective, train
from training.reranking.config import TeachConfig
from training.reranking.pairs import TextPair
from training.reranking.ranking import RankingSet, score_ranking
from training.reranking.scorers import BiEncoderScorer
from training.reranking.trainer import EpochPlan, pairs_to_train
from training.system.files import share, write_atomically

MODEL = "model"  # in the step's folder: the bi-encoder, a sentence-transformers folder
MARGINS = "margins-{}.npy"  # with a hash of their triples
BATCH = 64  # texts, when it is measured
PairScores = Callable[[list[str], list[str]], NDArray[np.float32]]  # queries, passages -> logits


@dataclass(frozen=True)
class Triple:
    """A query, a passage that answers it and one that does not."""

    query: str
    positive: str
    negative: str


def triples_of(pairs: Sequence[TextPair]) -> list[Triple]:
    """Pair each negative of a query with one of its positives, in turn."""
    positives: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.label:
            positives.setdefault(pair.query, []).append(pair.passage)
    triples = []
    for number, pair in enumerate(pairs):
        answers = positives.get(pair.query, [])
        if not pair.label and answers and pair.passage not in answers:
            triples.append(Triple(pair.query, answers[number % len(answers)], pair.passage))
    return list(dict.fromkeys(triples))


def margins_of(triples: Sequence[Triple], scores: PairScores) -> NDArray[np.float32]:
    """Return the re-ranker's margins, (T,): logit of the positive minus logit of the negative."""
    queries = [triple.query for triple in triples]
    answers = dict.fromkeys((triple.query, triple.positive) for triple in triples)  # scored once each
    logits = scores([query for query, _ in answers], [passage for _, passage in answers])
    of_answer = dict(zip(answers, logits.tolist(), strict=True))
    positive_T = np.array([of_answer[triple.query, triple.positive] for triple in triples], dtype=np.float32)
    return positive_T - scores(queries, [triple.negative for triple in triples])


class Pupil:
    """A bi-encoder in training: texts with their prompts in, unit vectors out."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self._query_prompt, self._passage_prompt = search_prompts(model)

    def queries(self, texts: Sequence[str]) -> Tensor:
        """(B, D), of unit length."""
        return self._vectors(self._query_prompt, texts)

    def passages(self, texts: Sequence[str]) -> Tensor:
        """(B, D), of unit length."""
        return self._vectors(self._passage_prompt, texts)

    def _vectors(self, prompt: str, texts: Sequence[str]) -> Tensor:
        features = self.model.preprocess([prompt + text.strip() for text in texts])
        on_device = {name: value.to(self.model.device) for name, value in features.items() if isinstance(value, Tensor)}
        return F.normalize(self.model(on_device)["sentence_embedding"], dim=-1)

    @torch.inference_mode()
    def acc1(self, ranking_set: RankingSet) -> float:
        """acc@1 x 100."""
        scorer = BiEncoderScorer(partial(_in_batches, self.queries), partial(_in_batches, self.passages))
        return score_ranking(ranking_set, scorer(ranking_set))["acc@1"]


def _in_batches(side: Callable[[Sequence[str]], Tensor], texts: list[str]) -> NDArray[np.float32]:
    chunks = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    return np.concatenate([side(chunk).float().cpu().numpy() for chunk in chunks])


def margin_objective(pupil: Pupil, triples: Sequence[Triple], margin_T: Tensor, *, scale: float) -> Objective:
    """Margin MSE of cosine * scale against the re-ranker's margins."""

    def losses(batch: Indices) -> dict[str, Tensor]:
        chosen = [triples[index] for index in batch.tolist()]
        query_BD = pupil.queries([triple.query for triple in chosen])
        positive_BD, negative_BD = pupil.passages(
            [triple.positive for triple in chosen] + [triple.negative for triple in chosen]
        ).chunk(2)
        positive_B = (query_BD * positive_BD).sum(dim=1) * scale
        negative_B = (query_BD * negative_BD).sum(dim=1) * scale
        return {"margin": margin_mse(positive_B, negative_B, margin_T[batch].to(positive_B.device))}

    return Objective(pupil.model, losses)


def teach(
    pairs: Sequence[TextPair],
    scores: PairScores,
    validation: RankingSet,
    config: TeachConfig,
    folder: Path,
    *,
    seed: int,
    checkpoint_minutes: float,
    device: torch.device,
) -> None:
    """Train the bi-encoder to the end, or go on where a killed run left it; writes `model/` beside the loop's logs.

    Of a stage shorter than an epoch as many triples are drawn, by the seed.

    Args:   scores: the re-ranker's. Margins are computed once and stored.
    Raises: ConfigError: the bi-encoder cannot be loaded.
    """
    pupil = Pupil(load_teacher(config.encoder, device=device).float().eval())
    stage, triples = config.stage, triples_of(pairs)
    total = pairs_to_train(stage, len(triples))
    if total < len(triples):  # the re-ranker is slow: only what is trained on gets a margin
        drawn = np.random.default_rng(seed).choice(len(triples), total, replace=False)
        triples = [triples[index] for index in np.sort(drawn).tolist()]
    margins = folder / MARGINS.format(hashlib.sha256(repr(triples).encode()).hexdigest()[:12])
    if not margins.exists():
        margin_T = margins_of(triples, scores)
        write_atomically(margins, lambda path: _save(path, margin_T))
    length_T = np.array([len(triple.positive) + len(triple.negative) for triple in triples])
    plan = EpochPlan(len(triples), total, seed)
    batches = BatchStream(plan, lambda rows: length_T[rows], stage.batch_size, seed=seed, epoch_pairs=len(triples))
    train(
        margin_objective(pupil, triples, torch.from_numpy(np.load(margins)), scale=config.scale),
        batches,
        stage,
        folder,
        name=folder.name,
        checkpoint_minutes=checkpoint_minutes,
        device=device,
        validate=lambda: pupil.acc1(validation),
    )
    shutil.rmtree(folder / MODEL, ignore_errors=True)
    pupil.model.save(str(folder / MODEL), create_model_card=False)
    share(folder / MODEL)


def _save(path: Path, values: NDArray[np.float32]) -> None:
    with path.open("wb") as file:
        np.save(file, values)
