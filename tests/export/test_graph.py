from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from torch import nn
from transformers import AutoModel, BertConfig, DistilBertConfig, PretrainedConfig, RobertaConfig, XLMRobertaConfig

from export.errors import BadCheckpoint
from export.graph import SentenceGraph, build_graph, unpadded
from tests.export.checkpoints import HIDDEN_SIZE, MINILM, SMALL_BODY, save_student
from tests.export.sessions import session_of

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


BODIES = [BertConfig(**SMALL_BODY), RobertaConfig(**SMALL_BODY), XLMRobertaConfig(**SMALL_BODY, pad_token_id=1)]


def body_of(config: PretrainedConfig) -> torch.nn.Module:
    torch.manual_seed(0)
    return AutoModel.from_config(config, attn_implementation="eager").eval()


@pytest.mark.parametrize("config", BODIES, ids=lambda config: config.model_type)
def test_hidden_states_agree_with_transformers(config: PretrainedConfig) -> None:
    body = body_of(config)
    input_ids = torch.randint(5, 100, (4, 9))
    mask = torch.tensor([[1] * length + [0] * (9 - length) for length in (3, 9, 1, 6)])
    input_ids[mask == 0] = config.pad_token_id
    graph = unpadded(body)
    assert graph is not None
    with torch.no_grad():
        expected = body(input_ids=input_ids, attention_mask=mask).last_hidden_state
        found = graph(input_ids, mask)
    torch.testing.assert_close(found[mask == 1], expected[mask == 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "config",
    [
        DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=66),
        BertConfig(**SMALL_BODY, position_embedding_type="relative_key"),
    ],
    ids=["distilbert", "relative positions"],
)
def test_an_unsupported_body_keeps_its_padding(config: PretrainedConfig) -> None:
    assert unpadded(body_of(config)) is None


@pytest.fixture(scope="module")
def session(static_graphs: dict[str, Path]) -> onnxruntime.InferenceSession:
    return session_of(static_graphs["int8"])


def embed(session: onnxruntime.InferenceSession, rows: list[list[int]], places: int) -> np.ndarray:
    ids = np.array([row + [0] * (places - len(row)) for row in rows], dtype=np.int64)
    mask = np.array([[1] * len(row) + [0] * (places - len(row)) for row in rows], dtype=np.int64)
    found: np.ndarray = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": mask})[0]
    return found


def fours(length: int) -> int:
    return -(-length // 4) * 4


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(2, 40), min_size=2, max_size=9), spare=st.integers(0, 3), seed=st.integers(0, 99))
def test_vector_is_the_same_bits_beside_any_length(
    session: onnxruntime.InferenceSession, lengths: list[int], spare: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    rows = [draw.integers(1000, 20_000, length).tolist() for length in lengths]
    together = embed(session, rows, fours(max(lengths)) + 4 * spare)
    alone = np.concatenate([embed(session, [row], fours(len(row))) for row in rows])
    np.testing.assert_array_equal(together, alone)


def test_a_text_alone_needs_no_multiple_of_four(session: onnxruntime.InferenceSession) -> None:
    row = list(range(1000, 1007))
    np.testing.assert_allclose(embed(session, [row], 7), embed(session, [row], 8), atol=1e-5)


def test_padding_costs_no_product_with_a_weight(tmp_path: Path) -> None:
    """What the weights are multiplied with has a row for each token and none for a place without one."""
    save_student(tmp_path / "checkpoint")
    model = SentenceTransformer(
        str(tmp_path / "checkpoint"), device="cpu", model_kwargs={"attn_implementation": "eager"}
    )
    graph, rows = build_graph(model), list[int]()
    products = [part for part in graph.modules() if isinstance(part, nn.Linear) and part.in_features >= HIDDEN_SIZE]
    for product in products:
        product.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape[1]))
    with torch.no_grad():
        graph(torch.full((2, 12), 7), torch.tensor([[1] * 12, [1] * 3 + [0] * 9]))
    assert rows == [15] * 4  # queries, keys and values in one; after the attention; two of the feed-forward part
