"""The objective of each training stage of Ding et al. 2022: losses of a batch of pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config.run import BottleneckConfig, ContrastiveConfig, Reduction, StageConfig, StudentStageConfig
from training.losses import (
    bool_contrastive,
    cross_entropy_contrastive,
    embedding_mse,
    hard_cross_entropy,
    multilingual_contrastive,
    pooled_embedding_mse,
    squared_distance,
    token_embedding_mse,
)
from training.models.sentence_encoder import SentenceEncoder
from training.optimisation.loop import Objective
from training.optimisation.processes import sum_over_processes
from training.stages.pairs import PairEncoder, TeacherLabels, TokenEmbeddings, drawn_rows

Contrast = Callable[[Tensor, Tensor, Tensor, NDArray[np.int64]], Tensor]  # labels, sources, targets, the sources' rows


def assistant_objective(
    model: SentenceEncoder,
    teacher: TeacherLabels,
    pairs: PairEncoder,
    config: StageConfig | None = None,
    contrast: Contrast | None = None,
) -> Objective:
    """||h_T(s) - h_A(s)||^2 + ||h_T(s) - h_A(t)||^2: the teacher is monolingual, so both targets are h_T(s).

    `source_share` trains on only a sample of a batch's English sides (not in the paper). An assistant initialised from
    the teacher already matches it on English, so time is better spent on targets.

    Args: contrast: a loss to add.
    """
    config = config or StageConfig()
    reduction = config.reduction

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        label_BD, taught_S = pairs.labels(teacher, batch_B), drawn_rows(batch_B, config.source_share)
        source_SD, target_BD = pairs.encode(model, batch_B, sources_S=batch_B[taught_S])
        parts = {
            "source": embedding_mse(source_SD, label_BD[taught_S], reduction),
            "target": embedding_mse(target_BD, label_BD, reduction),
        }
        return parts | ({"contrastive": contrast(label_BD, source_SD, target_BD, taught_S)} if contrast else {})

    return Objective(model, losses)


def bottleneck_objective(
    assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder, config: BottleneckConfig | None = None
) -> Objective:
    """Eq. (3): trains only the student's embedding layer, on its output at real tokens.

    The loss compares token by token or, if `pooled`, each sentence's mean over tokens, summed over s and t.
    """
    config = config or BottleneckConfig()
    student.requires_grad_(False)
    student.encoder.body.embeddings.requires_grad_(True)

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        input_ids_BL, attention_mask_BL = pairs.own_token_ids(batch_B)
        with torch.no_grad():
            target_BLH = assistant.encoder.embed_tokens(input_ids_BL)
        student_BLH = student.encoder.embed_tokens(input_ids_BL)
        loss, counted = (
            (pooled_embedding_mse, attention_mask_BL.any(dim=1).sum())
            if config.pooled
            else (token_embedding_mse, attention_mask_BL.sum())
        )
        share = counted / sum_over_processes(counted)
        own_loss = loss(student_BLH, target_BLH, attention_mask_BL, config.reduction)
        mean = sum_over_processes(share * own_loss)  # over the tokens or sentences of all processes
        return {"sentences": 2 * mean} if config.pooled else {"tokens": mean}

    return Objective(student, losses)


def student_objective(
    assistant: SentenceEncoder, student: SentenceEncoder, pairs: PairEncoder, config: StudentStageConfig | None = None
) -> Objective:
    """||h_A(s) - h_S(s)||^2 + ||h_A(t) - h_S(t)||^2.

    `token_weight` adds the squared distance between the last hidden states of assistant and student, mean over the
    batch's tokens (not in the paper). A sentence then gives one target a token, so a student with fewer layers than
    the assistant recovers on a tenth of the text.
    """
    config = config or StudentStageConfig()
    reduction = config.reduction

    def losses(batch_B: NDArray[np.int64]) -> dict[str, Tensor]:
        sources_S = batch_B[drawn_rows(batch_B, config.source_share)]
        with torch.no_grad():
            label_source_SD, label_target_BD, labels = pairs.encode_tokens(assistant, batch_B, sources_S=sources_S)
        source_SD, target_BD, tokens = pairs.encode_tokens(student, batch_B, sources_S=sources_S)
        parts = {
            "source": embedding_mse(source_SD, label_source_SD, reduction),
            "target": embedding_mse(target_BD, label_target_BD, reduction),
        }
        if config.token_weight is not None:
            count = pairs.token_count(batch_B, sources_S)
            parts["tokens"] = config.token_weight * token_distance(tokens, labels, count=count)
        return parts

    return Objective(student, losses)


def token_distance(tokens: TokenEmbeddings, labels: TokenEmbeddings, *, count: int) -> Tensor:
    """Squared distance between two models' token embeddings of the same texts, summed over H, mean over `count` tokens.

    Args: tokens, labels: of the texts that this process encoded.  count: tokens over all processes.
    """
    own = [
        squared_distance(student_BLH, label_BLH, mask_BL)
        for student_BLH, label_BLH, mask_BL in zip(tokens.groups, labels.groups, tokens.masks, strict=True)
    ]
    return sum_over_processes(torch.stack(own).sum() if own else torch.zeros(())) / count


def contrastive_objective(
    student: SentenceEncoder, teacher: TeacherLabels, pairs: PairEncoder, config: ContrastiveConfig
) -> Objective:
    """Eq. (7): a contrastive loss, Eq. (5), (8) or (9), plus the distillation loss, Eq. (6).

    The labels are the monolingual teacher's embeddings of the source sides. Without a contrastive loss, Eq. (5) is
    measured without a gradient: the log then shows how far Eq. (6) alone lowers it.
    With `source_share`, the contrastive loss compares the sampled English sides with every target of the batch.
    """

    def contrast(label_BD: Tensor, source_SD: Tensor, target_BD: Tensor, rows_S: NDArray[np.int64]) -> Tensor:
        if config.objective in ("soft", "none"):
            loss = multilingual_contrastive(label_BD, source_SD, target_BD, rows_S)
        elif config.objective in ("bool", "bool_equal"):
            equal_BD = label_BD if config.objective == "bool_equal" else None
            loss = bool_contrastive(source_SD, target_BD, rows_S, teacher_source_BD=equal_BD)
        elif config.objective == "ce_hard":
            loss = hard_cross_entropy(source_SD, target_BD, rows_S, temperature=config.temperature)
        else:
            over_anchors: Reduction = "sum" if config.objective == "ce_sum" else "mean"
            loss = cross_entropy_contrastive(
                label_BD, source_SD, target_BD, rows_S, temperature=config.temperature, over_anchors=over_anchors
            )
        loss = config.mcl_weight * loss
        return loss.detach() if config.objective == "none" else loss

    return assistant_objective(student, teacher, pairs, config, contrast)
