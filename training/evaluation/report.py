"""Everything measured of one encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from training.device import autocast
from training.evaluation.retrieval import evaluate_tatoeba
from training.evaluation.sts import Encode, evaluate_sts
from training.sentence import SentenceEncoder

ENCODE_BATCH = 64


class TextEncoder:
    """Encodes texts with a `SentenceEncoder`, each distinct text once."""

    def __init__(self, model: SentenceEncoder, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.cache: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        """(N, D) float32, in the order of `texts`."""
        new = sorted(set(texts) - self.cache.keys(), key=lambda text: (len(text), text))  # by length: less padding
        device = next(self.model.parameters()).device
        for start in range(0, len(new), ENCODE_BATCH):
            chunk = new[start : start + ENCODE_BATCH]
            batch = self.tokenizer(
                chunk, padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
            ).to(device)
            with torch.inference_mode(), autocast(device):
                vectors = self.model(batch["input_ids"], batch["attention_mask"]).float().cpu().numpy()
            self.cache.update(zip(chunk, vectors, strict=True))
        return np.stack([self.cache[text] for text in texts])


def evaluate(encode: Encode, data: Path, languages: list[str]) -> dict[str, dict[str, float]]:
    """STSb dev and test (monolingual and against English) and Tatoeba P@1, each with its average."""
    crosslingual = [f"en-{language}" for language in languages]
    monolingual = [f"{language}-{language}" for language in ["en", *languages]]
    scores = {
        "stsb_dev": evaluate_sts(encode, data / "eval/stsb/dev", crosslingual),
        "stsb_test": evaluate_sts(encode, data / "eval/stsb/test", crosslingual),
        "stsb_test_monolingual": evaluate_sts(encode, data / "eval/stsb/test", monolingual),
        "tatoeba_p1": evaluate_tatoeba(encode, data / "eval/tatoeba", languages),
    }
    return {name: with_average(values) for name, values in scores.items() if values}


def with_average(values: dict[str, float]) -> dict[str, float]:
    """The scores and their mean."""
    return {**values, "average": round(sum(values.values()) / len(values), 2)}
