from pathlib import Path

import numpy as np
import onnx
import pytest
from sentence_transformers import SentenceTransformer

from export.graph import build_graph
from export.onnx import export_fp32
from export.quantization.quantize import quantise
from tests.export.checkpoints import save_student
from tests.export.sessions import session_of

EAGER = {"attn_implementation": "eager"}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """K -> int8 file of a two-layer unit applied K times."""
    paths = {}
    for recurrences in (1, 3):
        folder = tmp_path_factory.mktemp(f"k{recurrences}")
        save_student(folder / "checkpoint", layers=2, recurrences=recurrences)
        model = SentenceTransformer(str(folder / "checkpoint"), device="cpu", model_kwargs=EAGER)
        paths[recurrences] = folder / "int8.onnx"
        quantise(export_fp32(build_graph(model), folder), paths[recurrences])
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
