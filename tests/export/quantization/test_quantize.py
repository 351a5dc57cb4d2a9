from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from export.quantization.quantize import copy_shared_weights, quantise
from service.model import session
from tests.export.checkpoints import save_student
from tests.export.sessions import fp32_graph, session_of
from tests.graphs import model_of

WIDTH, TIMES = 64, 4
STEP, ZERO = np.float32(0.01), np.uint8(100)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """K -> int8 file of a two-layer unit applied K times."""
    paths = {}
    for recurrences in (1, 3):
        folder = tmp_path_factory.mktemp(f"k{recurrences}")
        save_student(folder / "checkpoint", layers=2, recurrences=recurrences)
        paths[recurrences] = folder / "int8.onnx"
        quantise(fp32_graph(folder / "checkpoint", folder), paths[recurrences])
    return paths


def test_recurrences_cost_no_size(graphs: dict[int, Path]) -> None:
    layer_bytes = 12 * 128 * 128
    assert graphs[3].stat().st_size - graphs[1].stat().st_size < layer_bytes / 2  # nodes of eight more layers


def test_every_large_weight_is_int8(graphs: dict[int, Path]) -> None:
    tensors = onnx.load(graphs[3]).graph.initializer
    large = {
        tensor.name: tensor.data_type
        for tensor in tensors
        if np.prod(tensor.dims) >= 128 * 16 and "scale" not in tensor.name
    }
    assert large
    assert set(large.values()) == {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}  # uint8: stored by block


def test_a_text_alone_gives_the_same_vector_to_the_bit(graphs: dict[int, Path]) -> None:
    session = session_of(graphs[3])
    first, other = np.array([[101, 2158, 2003, 102]]), np.array([[101, 4937, 102]])
    before, _, after = (
        session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0] for ids in (first, other, first)
    )
    np.testing.assert_array_equal(before, after)


def recurrent(weight_KK: np.ndarray) -> onnx.ModelProto:
    """One matrix, full range, applied four times."""
    tensors = {"w": weight_KK, "w_zeros": np.zeros(WIDTH, np.int8), "w_scale": np.full(WIDTH, STEP)}
    tensors |= {"step": np.asarray(STEP), "zero": np.asarray(ZERO)}
    nodes = []
    for time in range(TIMES):
        inputs = [f"codes{time}", "w", "step", "w_scale", "zero", "w_zeros"]
        nodes += [
            helper.make_node("QuantizeLinear", [f"h{time}", "step", "zero"], inputs[:1]),
            helper.make_node("MatMulIntegerToFloat", inputs, [f"h{time + 1}"], domain="com.microsoft"),
        ]
    return model_of(nodes, tensors, {f"h{TIMES}": None}, {"h0": None}, input_type=onnx.TensorProto.FLOAT)


@pytest.mark.parametrize("vnni", [None, False])  # as this processor is; as one is that would overflow
def test_recurrences_are_exact_and_store_their_matrix_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vnni: bool | None
) -> None:
    if vnni is not None:
        monkeypatch.setattr(session, "has_vnni", lambda: vnni)
    generator = np.random.default_rng(1)
    weight_KK = generator.integers(-127, 128, (WIDTH, WIDTH)).astype(np.int8)
    x = generator.standard_normal((3, WIDTH)).astype(np.float32)
    model = recurrent(weight_KK)
    copy_shared_weights(model)
    onnx.save(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size < 2 * WIDTH * WIDTH
    (found,) = session_of(tmp_path / "model.onnx").run(None, {"h0": x})
    expected = x
    for _ in range(TIMES):
        code = np.clip(np.rint(expected / STEP) + ZERO, 0, 255) - ZERO
        expected = (code @ weight_KK.astype(np.float64)) * float(STEP) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_without_recurrences_the_graph_stays_as_it_is() -> None:
    model = recurrent(np.ones((WIDTH, WIDTH), np.int8))
    del model.graph.node[2:]
    before = model.SerializeToString()
    copy_shared_weights(model)
    assert model.SerializeToString() == before
