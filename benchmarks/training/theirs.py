"""Runs each stage in sentence-transformers' trainer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MSELoss
from torch import Tensor, nn
from transformers import TrainerCallback

from benchmarks.training.bench import CPU, Bench
from training.losses import embedding_mse, multilingual_contrastive, token_embedding_mse
from training.system.device import has_bf16


class Stopwatch(TrainerCallback):
    """Measures the time from the trainer's first batch to its last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.seconds = clock, 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.seconds -= self.clock()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.seconds += self.clock()


class TheirLoss(nn.Module):
    """The loss of a stage as their trainer calls it: with the features of both columns, and the labels."""

    def __init__(self, model: SentenceTransformer, assistant: SentenceTransformer | None, stage: str) -> None:
        super().__init__()
        self.model, self.stage = model, stage
        self.frozen = [assistant]  # in a list, so that it is not a submodule

    def forward(self, features: list[dict[str, Tensor]], label_BD: Tensor) -> Tensor:
        if self.stage == "bottleneck":
            return sum(self.tokens(side) for side in features) / 2
        h_source, h_target = (self.model(dict(side))["sentence_embedding"] for side in features)
        if self.stage == "student":
            with torch.no_grad():
                a_source, a_target = (self.frozen[0](dict(side))["sentence_embedding"] for side in features)
            return embedding_mse(h_source, a_source) + embedding_mse(h_target, a_target)
        distilled = embedding_mse(h_source, label_BD) + embedding_mse(h_target, label_BD)
        return distilled + multilingual_contrastive(label_BD, h_source, h_target)

    def tokens(self, side: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            expected = self.frozen[0][0].auto_model.embed_tokens(side["input_ids"])
        return token_embedding_mse(
            self.model[0].auto_model.embed_tokens(side["input_ids"]), expected, side["attention_mask"]
        )


def run_theirs(bench: Bench, stage: str, attention: str) -> float:
    """Train a stage on the same pairs with their trainer; returns seconds."""
    name = "assistant" if stage == "assistant" else "student"
    model, assistant = (load_theirs(bench, which, attention) for which in (name, "assistant"))
    assistant.requires_grad_(False)
    if stage == "bottleneck":
        model.requires_grad_(False)
        model[0].auto_model.body.embeddings.requires_grad_(True)
    rows = {"english": bench.english, "non_english": bench.other, "label": list(bench.label_ND)}
    watch = Stopwatch(bench.clock)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=bench.batch_size,
            learning_rate=2e-5,
            warmup_ratio=0.1,
            bf16=has_bf16(CPU),
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(rows),
            loss=MSELoss(model) if stage == "assistant" else TheirLoss(model, assistant, stage),
            callbacks=[watch],
        ).train()
    return watch.seconds


def load_theirs(bench: Bench, name: str, attention: str) -> SentenceTransformer:
    model = SentenceTransformer(
        str(bench.folders[name]), device="cpu", model_kwargs={"attn_implementation": attention, "dtype": torch.float32}
    )
    model.max_seq_length = bench.max_length
    return model
