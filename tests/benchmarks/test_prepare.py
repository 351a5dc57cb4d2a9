import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.serving.prepare import TOKENS_OUTPUT, _identity, cut_before_pooling
from tests.graphs import model_of

V, H = 11, 8


def small_encoder() -> onnx.ModelProto:
    """Gather, two normalisations with a matrix between them, sum over tokens: as an exported graph ends."""
    draw = np.random.default_rng(0)
    weights = {
        "table": draw.standard_normal((V, H)), "scale": np.ones(H), "shift": np.zeros(H),
        "matrix": draw.standard_normal((H, H)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["embedded"]),
        helper.make_node("LayerNormalization", ["embedded", "scale", "shift"], ["first"]),
        helper.make_node("MatMul", ["first", "matrix"], ["mixed"]),
        helper.make_node("LayerNormalization", ["mixed", "scale", "shift"], ["last"]),
        helper.make_node("Identity", ["last"], ["moved"]),  # in an exported graph, tokens back to their texts
        helper.make_node("Cast", ["attention_mask"], ["mask_BL"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask_BL", "one"], ["mask_B1L"]),
        helper.make_node("MatMul", ["mask_B1L", "moved"], ["summed"]),
        helper.make_node("Squeeze", ["summed", "one"], ["sentence_embedding"]),
    ]
    tensors = {name: value.astype(np.float32) for name, value in weights.items()} | {"one": np.array([1])}
    return model_of(nodes, tensors, {"sentence_embedding": ["B", H]})


def run(model: onnx.ModelProto, output: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    known = {value.name for value in session.get_inputs()}
    (found,) = session.run([output], {name: value for name, value in feeds.items() if name in known})
    return np.asarray(found)


def test_cut_graph_pools_to_the_vectors_of_the_whole_one() -> None:
    whole = small_encoder()
    cut = cut_before_pooling(small_encoder())
    mask_BL = np.array([[1, 1, 1], [1, 1, 0]])
    feeds = {"input_ids": np.array([[1, 2, 3], [4, 5, 0]]), "attention_mask": mask_BL}
    tokens_BLH = run(cut, TOKENS_OUTPUT, feeds)
    assert tokens_BLH.shape == (2, 3, H)
    np.testing.assert_allclose(
        (tokens_BLH * mask_BL[:, :, None]).sum(axis=1), run(whole, "sentence_embedding", feeds), rtol=1e-5
    )


def test_other_sentences_are_another_artifact() -> None:
    assert _identity(["one", "two"]) == _identity(["one", "two"]) != _identity(["one"])


def test_the_weights_of_the_cut_graph_are_the_same_bytes() -> None:
    whole = {tensor.name: tensor.raw_data for tensor in small_encoder().graph.initializer}
    cut = {tensor.name: tensor.raw_data for tensor in cut_before_pooling(small_encoder()).graph.initializer}
    assert cut
    assert cut.items() <= whole.items()
