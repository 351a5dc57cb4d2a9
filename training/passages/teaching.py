"""What the retrieval teacher says of questions and passages, and the loss that takes it over.

Shapes: Q questions of all, B of a batch, P passages of a batch, N texts, K texts to keep, D dims, C hard passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from training.config.run import PassagesConfig
from training.errors import ConfigError
from training.evaluation.encoders import search_prompts
from training.losses import cosine_matrix
from training.models.sentence_encoder import SentenceEncoder
from training.models.teacher import EmbeddingStore, embed_missing
from training.optimisation.batches import FixedPlan
from training.optimisation.loop import Objective
from training.passages.questions import Questions
from training.stages.pairs import GROUP_TEXTS, TextShare, groups_of
from training.vocabulary.tokens import TokenStore

SLACK = 0.003  # a passage this much below the answer's cosine may be an answer, too
CHUNK = 2_048  # questions whose hard passages are looked up together
GROUP_TOKENS = 4_096  # of a forward pass on a CPU, padding included


@dataclass(frozen=True)
class Taught:
    """The teacher's unit vectors, and the passages that it finds nearest to each question in its language.

    vector_ND: of all texts.  hard_QC: texts, nearest first; -1: of a held-out question.
    """

    vector_ND: NDArray[np.float32]
    hard_QC: NDArray[np.int32]


def teach(teacher: SentenceTransformer, questions: Questions, folder: Path, config: PassagesConfig) -> None:
    """Write the teacher's view of the questions that are trained on; a kill loses little of the encoding."""
    query, document = search_prompts(teacher)
    teacher.default_prompt_name, teacher.max_seq_length = None, config.max_length
    asked = set(questions.question_Q.tolist())
    texts = [f"{query if row in asked else document}{text}" for row, text in enumerate(questions.texts)]
    store = EmbeddingStore(folder / "vectors", dim=int(teacher.get_embedding_dimension() or 0))
    embed_missing(teacher, texts, store, total=len(texts), bf16=config.bf16)
    vector_ND = np.array(store.vectors()[store.rows(texts)])
    vector_ND /= np.linalg.norm(vector_ND, axis=1, keepdims=True)
    hard_QC = np.full((len(questions.question_Q), config.hard), -1, dtype=np.int32)
    for rows in questions.rows(held_out=False).values():
        pool = np.unique(questions.passage_Q[rows])
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            cosine = vector_ND[questions.question_Q[some]] @ vector_ND[pool].T
            nearest = np.argsort(-cosine, axis=1, kind="stable")
            hard_QC[some] = pool[nearest[:, np.arange(config.hard) % len(pool)]]
    np.savez(folder / "taught.npz", vector_ND=vector_ND, hard_QC=hard_QC)


def load_taught(folder: Path) -> Taught:
    """Read what `teach` wrote."""
    with np.load(folder / "taught.npz") as arrays:
        return Taught(arrays["vector_ND"], arrays["hard_QC"])


def plan_questions(
    rows: Mapping[str, NDArray[np.int64]], batch: int, count: int, *, exponent: float, seed: int
) -> FixedPlan:
    """Questions in training order, each batch in one language.

    A language of n questions has turns in proportion to n ** `exponent`; 0: languages take equal turns. One with fewer
    questions than a batch is left out. All questions of a language come once before one comes again.

    Raises: ConfigError: no language has enough for a batch.
    """
    rows = {name: found for name, found in rows.items() if len(found) >= batch}
    if not rows:
        raise ConfigError(f"passages.batch_size is {batch}; no language has as many questions to train on")
    names = list(rows)
    share = np.array([float(len(rows[name])) ** exponent for name in names])
    share /= share.sum()
    given, batches = np.zeros(len(names)), []
    draws = {name: _draws(rows[name], batch, seed=(seed, number)) for number, name in enumerate(names)}
    for turn in range(1, -(-count // batch) + 1):
        number = int(np.argmax(share * turn - given))
        given[number] += 1
        batches.append(next(draws[names[number]]))
    return FixedPlan(np.concatenate(batches))


def _draws(rows: NDArray[np.int64], batch: int, *, seed: tuple[int, int]) -> Iterator[NDArray[np.int64]]:
    """Endless batches of distinct questions."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(rows)
        for start in range(0, len(order) - batch + 1, batch):
            yield order[start : start + batch]


@dataclass(frozen=True)
class Kept:
    """Sentences that shall stay where they were.  texts_K: of the corpus.  vector_KD: of the model before."""

    texts_K: NDArray[np.int32]
    vector_KD: Tensor

    @classmethod
    def load(cls, path: Path) -> Kept:
        """Read the sentences and vectors of a file."""
        with np.load(path) as arrays:
            return cls(arrays["texts_K"], torch.from_numpy(arrays["vector_KD"]))


def passages_objective(
    model: SentenceEncoder,
    questions: Questions,
    taught: Taught,
    kept: Kept,
    tokens: tuple[TokenStore, TokenStore],
    config: PassagesConfig,
    device: torch.device,
) -> Objective:
    """KL(teacher || student) over a batch's passages, cross-entropy on the answers, and 1 - cosine of kept sentences.

    The passages of a batch are its answers and `negatives` hard ones a question. In the cross-entropy (Eq. (9) of the
    paper with one anchor side), passages that the teacher puts beside the answer or above it are masked: they may
    answer, too.

    Args: tokens: of the questions' texts, and of the corpus.
    """
    of_questions, of_corpus = tokens
    depth = taught.hard_QC.shape[1]
    vector_ND = torch.from_numpy(taught.vector_ND)

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        generator = np.random.default_rng(batch_B)  # the same batch has the same negatives: runs can be resumed
        asked_B, answer_B = questions.question_Q[batch_B], questions.passage_Q[batch_B]
        drawn = generator.integers(1, depth, (len(batch_B), config.negatives))  # the nearest is mostly the answer
        hard = taught.hard_QC[batch_B[:, None], drawn].ravel()
        passage_P, place = np.unique(np.concatenate([answer_B, hard]), return_inverse=True)
        right_B = torch.from_numpy(place[: len(batch_B)]).to(device)
        some = generator.choice(len(kept.texts_K), min(config.kept, len(kept.texts_K)), replace=False)

        said_BP = cosine_matrix(vector_ND[asked_B], vector_ND[passage_P]).to(device)
        both = encode_texts(model, of_questions, np.concatenate([asked_B, passage_P]), config.max_length, device)
        score_BP = cosine_matrix(both[: len(asked_B)], both[len(asked_B) :]) / config.temperature
        kept_KD = encode_texts(model, of_corpus, kept.texts_K[some], config.max_length, device)

        is_false_BP = said_BP > said_BP.gather(1, right_B[:, None]) - SLACK
        is_false_BP.scatter_(1, right_B[:, None], value=False)
        return {
            "teacher": F.kl_div(
                F.log_softmax(score_BP, dim=1),
                F.log_softmax(said_BP / config.teacher_temperature, dim=1),
                log_target=True,
                reduction="batchmean",
            ),
            "answers": config.answer_weight * F.cross_entropy(score_BP.masked_fill(is_false_BP, -1e4), right_B),
            "kept": config.kept_weight * (1 - F.cosine_similarity(kept_KD, kept.vector_KD[some].to(device))).mean(),
        }

    return Objective(model, losses)


def encode_texts(
    model: SentenceEncoder, tokens: TokenStore, texts_N: NDArray[np.int32], max_length: int, device: torch.device
) -> Tensor:
    """The vectors of texts, (N, D), equal in all processes; each text is encoded once, by one process."""

    def lengths_of(texts: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.minimum(tokens.lengths_of(texts), max_length)

    share = TextShare.of(texts_N, lengths_of)
    size = max(1, min(GROUP_TEXTS, GROUP_TOKENS // int(lengths_of(share.to_encode).max())))
    parts = []
    for group in groups_of(share.to_encode, device, size):
        ids_BL, mask_BL = (tensor.to(device) for tensor in tokens.batch(group, max_length=max_length))
        if torch.is_grad_enabled() and device.type == "cpu":  # memory of one group: the backward pass encodes it again
            parts.append(checkpoint(model, ids_BL, mask_BL, use_reentrant=False))
        else:
            parts.append(model(ids_BL, mask_BL))
    return share.gather(torch.cat(parts))
