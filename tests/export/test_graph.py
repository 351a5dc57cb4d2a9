from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import nn

from export.errors import BadCheckpoint
from export.graph import SentenceGraph, build_graph
from tests.export.checkpoints import MINILM

TEXTS = ["A man is playing a guitar.", "The train leaves at noon.", "Bees"]


def joined(*modules: nn.Module) -> SentenceTransformer:
    return SentenceTransformer(modules=[Transformer(str(MINILM)), *modules], device="cpu").eval()


def run(graph: SentenceGraph, model: SentenceTransformer) -> np.ndarray:
    batch = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        return graph(batch["input_ids"], batch["attention_mask"]).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_graph_gives_what_sentence_transformers_gives(pooling: str) -> None:
    torch.manual_seed(0)
    model = joined(Pooling(384, pooling), Dense(384, 24, activation_function=nn.Tanh()), Normalize())
    expected = model.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(run(build_graph(model), model), expected, atol=2e-6)


@pytest.mark.parametrize("is_student", [False, True])
def test_vectors_have_norm_one_for_any_checkpoint(student: Path, is_student: bool) -> None:
    model = SentenceTransformer(str(student), device="cpu") if is_student else joined(Pooling(384, "mean"))
    expected = model.encode(TEXTS, show_progress_bar=False, normalize_embeddings=True)
    np.testing.assert_allclose(run(build_graph(model), model), expected, atol=2e-6)


def test_the_pooler_of_pre_training_is_not_counted() -> None:
    model = joined(Pooling(384, "mean"))
    before = sum(parameter.numel() for parameter in model.parameters())
    assert build_graph(model).parameter_count == before - (384 * 384 + 384)


@pytest.mark.parametrize(
    ("modules", "complaint"),
    [
        ([Pooling(384, "max")], "pools by max; the graph can pool by mean or cls"),
        ([Pooling(384, "mean"), nn.Dropout()], "has a Dropout after its pooling"),
        ([], "must begin with Transformer, Pooling"),
    ],
)
def test_what_the_graph_cannot_compute_is_refused(modules: list[nn.Module], complaint: str) -> None:
    with pytest.raises(BadCheckpoint, match=complaint):
        build_graph(joined(*modules))
