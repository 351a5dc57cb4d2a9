from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from export.quantization.activations import Seen, observe, quantise_columns, quantise_matrices
from tests.export.sessions import CALIBRATION, session_of
from tests.graphs import model_of

WIDTH = 64


def embed(path: Path, ids: np.ndarray) -> np.ndarray:
    session = session_of(path)
    (found,) = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    rows: np.ndarray = found
    return rows


@pytest.mark.parametrize("length", [2, 3, 7, 8, 15, 16, 17, 31, 32])
def test_vector_is_the_same_bits_in_a_batch_of_its_length(static_graphs: dict[str, Path], length: int) -> None:
    ids = np.random.default_rng(length).integers(1000, 20_000, (9, length))
    alone = np.concatenate([embed(static_graphs["int8"], row[None]) for row in ids])
    for rows in range(2, 10):
        np.testing.assert_array_equal(embed(static_graphs["int8"], ids[:rows]), alone[:rows])


def test_it_stays_close_to_fp32(static_graphs: dict[str, Path]) -> None:
    for ids in CALIBRATION[:10]:
        left, right = (embed(path, np.array([ids])) for path in static_graphs.values())
        assert float((left * right).sum()) > 0.99


def test_weight_products_are_int8_and_store_shared_matrices_once(static_graphs: dict[str, Path]) -> None:
    fp32, int8 = (onnx.load(path).graph for path in static_graphs.values())
    matrices = {tensor.name for tensor in fp32.initializer if len(tensor.dims) == 2}
    products = [node for node in fp32.node if node.op_type == "MatMul" and node.input[1] in matrices]
    made = [node for node in int8.node if node.op_type == "MatMulIntegerToFloat"]
    assert len(made) == len(products) > 12
    shared = {node.input[1] for node in products}
    stored = {one.name for one in int8.initializer}
    assert len(shared) < len(made)
    assert stored & {node.input[1] for node in made} == {f"{name}_int8" for name in shared}
    assert not [node for node in int8.node if node.op_type == "DynamicQuantizeLinear"]
    large = {one.data_type for one in int8.initializer if np.prod(one.dims) >= 128 * 16 and "scale" not in one.name}
    assert large == {onnx.TensorProto.INT8}


def products(*matrices: np.ndarray, bias: bool = False) -> onnx.ModelProto:
    """One input times each matrix, all results added; with a bias after the first."""
    names = [f"w{number}" for number in range(len(matrices))]
    nodes = [helper.make_node("MatMul", ["x", name], [f"x{name}"]) for name in names]
    tensors = dict(zip(names, matrices, strict=True))
    if bias:
        tensors["b"] = np.full(matrices[0].shape[1], 3, np.float32)
        nodes.append(helper.make_node("Add", ["b", "xw0"], ["biased"]))
    first = "biased" if bias else "xw0"
    nodes.append(helper.make_node("Sum", [first, *(f"x{name}" for name in names[1:])], ["sentence_embedding"]))
    nodes.append(helper.make_node("Cast", ["attention_mask"], ["unused"], to=onnx.TensorProto.FLOAT))
    nodes.insert(0, helper.make_node("Gather", ["table", "input_ids"], ["x"]))
    table = np.random.default_rng(0).standard_normal((50, WIDTH)).astype(np.float32)
    table[:, 5] *= 200  # an outlying channel
    return model_of(nodes, tensors | {"table": table}, {"sentence_embedding": None, "unused": None})


def result(model: onnx.ModelProto) -> np.ndarray:
    session = session_of(model.SerializeToString())
    ids = np.arange(50).reshape(1, 50)
    found: np.ndarray = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": ids})[0]
    return found


@pytest.mark.parametrize("bias", [False, True])
def test_an_outlier_channel_does_not_coarsen_the_others(bias: bool) -> None:
    generator = np.random.default_rng(1)
    matrices = [generator.standard_normal((WIDTH, 32)).astype(np.float32) for _ in range(2)]
    for matrix in matrices:
        matrix[5] = 0  # nobody reads the large channel
    model = products(*matrices, bias=bias)
    before = result(model)
    quantise_matrices(model, observe(model, [[number] for number in range(50)]))
    after = result(model)
    assert np.abs(after - before).max() < 0.02 * np.abs(before).max()


def test_a_graph_without_products_stays_as_it_is() -> None:
    model = products(np.eye(WIDTH, dtype=np.float32))
    del model.graph.initializer[0]
    nodes = [node.op_type for node in model.graph.node]
    quantise_matrices(model, {})
    assert [node.op_type for node in model.graph.node] == nodes


def test_zero_has_a_code_and_outlier_texts_are_clipped() -> None:
    low, high = np.full((2000, 3), 1, np.float32), np.full((2000, 3), 2, np.float32)
    high[7] = 1000
    step, zero = Seen(low, high).step_and_zero(np.ones(3, np.float32))
    assert zero == 0  # all values are above it
    assert step == pytest.approx(2 / 255, rel=1e-3)


def test_columns_are_held_to_half_a_step() -> None:
    weight = np.random.default_rng(2).standard_normal((40, 8)).astype(np.float32)
    weight[:, 3] = 0
    code, scale = quantise_columns(weight)
    assert code.dtype == np.int8
    assert (np.abs(code * scale - weight) <= scale / 2 + 1e-6).all()
