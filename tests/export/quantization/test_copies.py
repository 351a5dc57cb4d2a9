from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from export.quantization.quantize import copy_shared_weights
from service.model import session
from tests.export.sessions import session_of

WIDTH, TIMES = 64, 4
STEP, ZERO = np.float32(0.01), np.uint8(100)


def recurrent(weight_KK: np.ndarray) -> onnx.ModelProto:
    """One matrix, full range, applied four times."""
    tensors = {
        "w": weight_KK,
        "w_zeros": np.zeros(WIDTH, np.int8),
        "w_scale": np.full(WIDTH, STEP),
        "step": np.asarray(STEP),
        "zero": np.asarray(ZERO),
    }
    nodes = []
    for time in range(TIMES):
        nodes += [
            helper.make_node("QuantizeLinear", [f"h{time}", "step", "zero"], [f"codes{time}"]),
            helper.make_node(
                "MatMulIntegerToFloat",
                [f"codes{time}", "w", "step", "w_scale", "zero", "w_zeros"],
                [f"h{time + 1}"],
                domain="com.microsoft",
            ),
        ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("h0", f"h{TIMES}")]
    stored = [numpy_helper.from_array(one, name) for name, one in tensors.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("vnni", [None, False])  # as this processor is; as one is that would overflow
def test_recurrences_are_exact_on_every_processor_and_their_matrix_is_stored_once(
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
