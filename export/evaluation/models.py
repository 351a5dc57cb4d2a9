"""Loads models as they are served, and any other: encoders, and re-rankers alone or behind an encoder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from service.blending import Weight, with_reranker
from service.errors import ArtifactError
from service.model.artifact import MANIFEST_FILE, load_manifest
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.process.cpus import usable_cpus
from training.errors import EvaluationError
from training.evaluation import encoders
from training.evaluation.encoders import Model, encoders_behind_prompts
from training.reranking.ranking import RankingSet, Scorer

CHUNK = 64  # texts a thread takes at once
QueryScores = list[NDArray[np.float32]]


def load_model(name: str, *, trust_remote_code: bool = False) -> Model:
    """Load an artifact, a checkpoint or any sentence-transformers model from a folder, or a model from the hub.

    Raises: EvaluationError: there is no such folder, it holds no model, or the model cannot be loaded.
    """
    folder = Path(name)
    if not (folder / MANIFEST_FILE).is_file():
        return encoders.load_model(name, trust_remote_code=trust_remote_code)
    try:
        encoder = load_encoder(folder)
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc

    def encode_chunk(texts: list[str]) -> NDArray[np.float32]:
        return np.stack([encoding.vector for encoding in encoder.encode_all(texts)])

    def encode(prompt: str, texts: list[str]) -> NDArray[np.float32]:
        texts = [prompt + text for text in texts]
        chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
        with ThreadPoolExecutor(usable_cpus()) as pool:
            return np.concatenate(list(pool.map(encode_chunk, chunks)))

    manifest, prompts = encoder.manifest, encoder.prompts
    return Model(
        *encoders_behind_prompts(encode, prompts.default, prompts.query, prompts.document),
        name=manifest.name,
        revision=manifest.fingerprint,
        languages=list(manifest.languages),
        dim=manifest.dim,
        max_length=manifest.max_length,
        parameters=manifest.parameters,
        split=encoder.splitter.split,
    )


def served_reranker(folder: Path) -> tuple[Scorer, str]:
    """The scorer of an artifact, and its name; on as many threads as there are CPUs, a score is the same on each.

    Raises: EvaluationError: the folder is no whole artifact of a re-ranker.
    """
    try:
        reranker = Reranker.load(folder)
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc

    name = reranker.manifest.name

    def score(query: str, passage: str) -> np.float32:
        return np.float32(reranker.score(reranker.tokenize(query, passage)))

    def score_candidates(ranking_set: RankingSet) -> QueryScores:
        rows = zip(ranking_set.queries, ranking_set.candidates, strict=True)
        with ThreadPoolExecutor(usable_cpus()) as pool:
            return [
                np.array(list(pool.map(partial(score, query), (ranking_set.passages[index] for index in row))))
                for query, row in tqdm(rows, total=len(ranking_set), desc=name, unit="query")
            ]

    return score_candidates, f"{name} ({reranker.manifest.fingerprint})"


def is_served_reranker(folder: Path) -> bool:
    """Whether a folder is an artifact of a re-ranker.

    Raises: EvaluationError: it is an artifact, and a broken one.
    """
    if not (folder / MANIFEST_FILE).is_file():
        return False
    try:
        return load_manifest(folder).kind == "cross-encoder"
    except ArtifactError as exc:
        raise EvaluationError(str(exc)) from exc


def probabilities(logits: Scorer) -> Scorer:
    """Scores in [0, 1] of a scorer that gives logits."""
    return lambda ranking_set: [torch.from_numpy(row).double().sigmoid().numpy() for row in logits(ranking_set)]


def two_stage_scorer(first: Scorer, second: Scorer, rerank_k: int, weight: Weight) -> Scorer:
    """Ranks the first `rerank_k` candidates of `first` by both scores, then the others, as a search with `rerank`.

    Args:    first: cosines.  second: scores in [0, 1].  weight: of the second: the service's `rerank_weight`.
    Returns: a scorer that gives minus the rank of each candidate.
    """

    def score(ranking_set: RankingSet) -> QueryScores:
        cosines = first(ranking_set)
        orders = [np.argsort(-cosine_N, kind="stable") for cosine_N in cosines]
        heads = [row[order[:rerank_k]] for row, order in zip(ranking_set.candidates, orders, strict=True)]
        seconds = second(replace(ranking_set, candidates=heads))
        ranks = []
        for order, cosine_N, score_K in zip(orders, cosines, seconds, strict=True):
            head = order[:rerank_k]
            both_K = with_reranker(cosine_N[head].astype(np.float64), score_K.astype(np.float64), weight)
            rank_N = np.empty(len(order), dtype=np.float32)
            rank_N[head[np.argsort(-both_K, kind="stable")]] = np.arange(len(head))
            rank_N[order[rerank_k:]] = np.arange(len(head), len(order))
            ranks.append(-rank_N)
        return ranks

    return score
