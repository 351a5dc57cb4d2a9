import numpy as np
import onnx
from onnx import TensorProto, helper

from export.quantization.blocks import BLOCK_INPUTS, quantise_blocks, quantise_contractions
from tests.export.sessions import session_of
from tests.graphs import model_of


def two_layers(weight_up: np.ndarray, weight_down: np.ndarray) -> onnx.ModelProto:
    """y = x @ up @ down @ up @ down: a feed-forward pair applied twice."""
    names = ["up", "down", "up", "down"]
    nodes = [helper.make_node("MatMul", [f"h{i}", name], [f"h{i + 1}"], f"mm{i}") for i, name in enumerate(names)]
    shape = ["L", len(weight_up)]
    tensors = {"up": weight_up, "down": weight_down}
    return model_of(nodes, tensors, {"h4": shape}, {"h0": shape}, input_type=TensorProto.FLOAT)


def weights() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    up, down = random.standard_normal((64, 256)) / 8, random.standard_normal((256, 64)) / 16
    return up.astype(np.float32), down.astype(np.float32)


def test_blocks_hold_the_matrix_to_half_a_step() -> None:
    _, down = weights()
    values, scales = quantise_blocks(down)
    assert values.shape == (64, 256 // BLOCK_INPUTS, BLOCK_INPUTS)
    restored = ((values.astype(np.float32) - 128) * scales[..., None]).reshape(64, 256).T
    assert (np.abs(restored - down) <= scales.max() * 0.5001).all()


def test_result_stays_close_and_stores_a_shared_matrix_once() -> None:
    up, down = weights()
    model = two_layers(up, down)
    quantise_contractions(model)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "MatMulNBits", "MatMul", "MatMulNBits"]
    assert sorted(tensor.name for tensor in model.graph.initializer) == ["down_block_scale", "down_blocks", "up"]
    session = session_of(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    expected = x @ up @ down @ up @ down
    (found,) = session.run(None, {"h0": x})
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_a_row_does_not_depend_on_the_others() -> None:
    model = two_layers(*weights())
    quantise_contractions(model)
    session = session_of(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    together = session.run(None, {"h0": x})[0]
    loud = np.concatenate([x[:1], x[1:] * 100])  # one scale for all rows would drown the first
    np.testing.assert_allclose(session.run(None, {"h0": loud})[0][0], together[0], atol=1e-5)
