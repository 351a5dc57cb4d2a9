"""Writes and reads a cross-encoder as a folder.

config.json, model.safetensors    the body, as transformers reads it
tokenizer.json ..                 its tokenizer
head.safetensors                  weight (1, H), bias (1,)
reranker.json                     kind, max_length, sep_id, segment_ids, languages, name
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from training.errors import ConfigError, EvaluationError
from training.models.cross_encoder import CrossEncoder, load_base
from training.system.files import refuse_pointers, share, write_json_atomically

HEAD, MANIFEST = "head.safetensors", "reranker.json"


@dataclass(frozen=True)
class RerankerFacts:
    """What an exporter must know beside the weights. `segment_ids`: whether the body reads them."""

    name: str
    languages: list[str]
    max_length: int
    sep_id: int
    segment_ids: bool
    kind: str = "cross-encoder"


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds one."""
    return (folder / MANIFEST).is_file()


def save_cross_encoder(
    model: CrossEncoder,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    *,
    name: str,
    languages: list[str],
    max_length: int,
) -> None:
    """Write a folder that `load_cross_encoder` reads; `reranker.json`, without which none does, comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    model.encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    head = {key: value.detach().cpu().contiguous() for key, value in model.head.state_dict().items()}
    save_file(head, folder / HEAD)
    share(folder)
    facts = RerankerFacts(name, languages, max_length, model.sep_id, model.has_segments)
    write_json_atomically(folder / MANIFEST, asdict(facts))


def load_cross_encoder(
    folder: Path, *, attention: str = "eager"
) -> tuple[CrossEncoder, PreTrainedTokenizerFast, RerankerFacts]:
    """Read a checkpoint back.

    Raises: EvaluationError: the folder is none, or not whole.
    """
    try:
        refuse_pointers([folder / MANIFEST, folder / HEAD])
        facts = RerankerFacts(**json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        model, tokenizer = load_base(str(folder), attention=attention)
        model.head.load_state_dict(load_file(folder / HEAD))
    except (OSError, ValueError, TypeError, RuntimeError, ConfigError) as exc:
        raise EvaluationError(f"{folder} is no whole cross-encoder: {exc}") from exc
    return model.to(torch.float32).eval(), tokenizer, facts
