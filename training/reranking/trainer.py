"""One stage of a re-ranker: pairs of texts, binary cross-entropy, acc@1 on the way; best and last weights are kept.

The loop, its checkpoints and its log are those of every stage (`training.optimisation.loop`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from training.config.run import LoopConfig
from training.errors import ConfigError
from training.losses import relevance
from training.models.cross_encoder import CrossEncoder
from training.models.encoder import CrossletEncoder, compile_layers
from training.optimisation.batches import BatchStream, Indices
from training.optimisation.loop import Objective, train
from training.reranking.checkpoint import save_cross_encoder
from training.reranking.config import RerankConfig, RerankStageConfig
from training.reranking.pair_tokens import PairTokenizer
from training.reranking.pairs import TextPair
from training.reranking.ranking import RankingSet, score_ranking
from training.reranking.scorers import CrossEncoderScorer
from training.system.files import write_json_atomically
from training.vocabulary.tokens import TokenStore

BEST, LAST = "best", "last"  # subfolders of a stage, each a checkpoint
SCORE = "acc1.json"  # in the best checkpoint: its score on the validation set
FACTS = {"name", "languages", "max_length"}  # of the configuration, kept in a checkpoint


@dataclass(frozen=True)
class EpochPlan:
    """`pairs` draws from `count` pairs: each once, in a new order, then again; the last round may be cut."""

    count: int
    pairs: int
    seed: int

    @property
    def rounds(self) -> int:
        """Epochs, the last one begun."""
        return math.ceil(self.pairs / self.count)

    def __len__(self) -> int:
        return self.pairs

    def round(self, index: int) -> NDArray[np.int64]:
        """One epoch's pairs."""
        order = np.random.default_rng((self.seed, index)).permutation(self.count)
        return order[: self.pairs - index * self.count]


def pairs_to_train(stage: LoopConfig, count: int) -> int:
    """Return how many pairs a stage draws from `count`: its `pairs`, or its `epochs` of them."""
    return int(stage.pairs or 2) if stage.epochs is None else max(2, round(stage.epochs * count))


def train_stage(
    model: CrossEncoder,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[TextPair],
    validation: RankingSet,
    config: RerankConfig,
    stage: RerankStageConfig,
    folder: Path,
    *,
    device: torch.device,
) -> None:
    """Train to the end, or go on where a killed run left it; writes `best/` and `last/` beside the loop's logs.

    `best/` is the checkpoint of the highest acc@1 on the way, `last/` the one of the end.
    """
    pair_tokenizer = PairTokenizer(tokenizer, max_length=min(stage.max_length, config.max_length))
    store = pair_tokenizer.store([pair.query for pair in pairs], [pair.passage for pair in pairs])
    label_N = torch.tensor([pair.label for pair in pairs])
    seed = config.seed if stage.seed is None else stage.seed
    batches = BatchStream(
        EpochPlan(len(pairs), pairs_to_train(stage, len(pairs)), seed),
        lambda rows: store.lengths_of(rows.astype(np.int32)),
        stage.batch_size,
        seed=seed,
        epoch_pairs=len(pairs),
    )
    if stage.compile:
        if not isinstance(model.encoder, CrossletEncoder):
            raise ConfigError(f"{folder.name} has compile, which base {config.base} does not take: leave it out")
        compile_layers(model.encoder)
    keeper = BestKeeper(model, tokenizer, validation, config, folder, bf16=stage.bf16)
    train(
        relevance_objective(model.to(device).eval(), store, label_N, device),
        batches,
        stage,
        folder,
        name=folder.name,
        checkpoint_minutes=config.checkpoint_minutes,
        device=device,
        validate=keeper,
    )
    keeper.save(folder / LAST)


def relevance_objective(model: CrossEncoder, store: TokenStore, label_N: Tensor, device: torch.device) -> Objective:
    """Eqs. (2) and (4) over pairs whose tokens are in `store`."""
    longest = int(store.lengths.max())

    def losses(batch: Indices) -> dict[str, Tensor]:
        ids_BL, mask_BL = store.batch(batch.astype(np.int32), max_length=longest)
        return {"relevance": relevance(model(ids_BL.to(device), mask_BL.to(device)), label_N[batch].to(device))}

    return Objective(model, losses)


@dataclass
class BestKeeper:
    """Measures acc@1 and keeps the checkpoint that has most of it; a resumed stage knows the score of the one kept."""

    model: CrossEncoder
    tokenizer: PreTrainedTokenizerFast
    validation: RankingSet
    config: RerankConfig
    folder: Path
    bf16: bool = True

    def __call__(self) -> float:
        """acc@1 x 100 of the model as it is now."""
        measure = CrossEncoderScorer(self.model, self.tokenizer, max_length=self.config.max_length, bf16=self.bf16)
        score = score_ranking(self.validation, measure(self.validation))["acc@1"]
        best = self.folder / BEST / SCORE
        if not best.is_file() or score > json.loads(best.read_text(encoding="utf-8"))["acc@1"]:
            best.unlink(missing_ok=True)  # it comes last: a half-written checkpoint counts as none
            self.save(best.parent)
            write_json_atomically(best, {"acc@1": score})
        return score

    def save(self, folder: Path) -> None:
        """Write the model as it is now."""
        save_cross_encoder(self.model, self.tokenizer, folder, **self.config.model_dump(include=FACTS))
