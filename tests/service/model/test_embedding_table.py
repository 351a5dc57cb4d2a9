from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.model.embedding_table import embedding_rows
from service.settings import BUNDLED_MODEL


def written(path: Path, nodes: list[onnx.NodeProto], **tables: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes,
        "looks up",
        inputs=[helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["B", "L"])],
        outputs=[helper.make_tensor_value_info("found", TensorProto.FLOAT, None)],
        initializer=[numpy_helper.from_array(table, name) for name, table in tables.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def gather(table: str, ids: str = "input_ids", output: str = "found") -> onnx.NodeProto:
    return helper.make_node("Gather", [table, ids], [output])


@pytest.mark.parametrize("rows", [1, 127, 128, 70_000])
def test_the_rows_are_those_of_the_table_that_the_ids_are_looked_up_in(tmp_path: Path, rows: int) -> None:
    tables = {"positions": np.zeros((9, 2), np.float32), "words": np.zeros((rows, 2), np.float32)}
    path = written(tmp_path / "a.onnx", [gather("positions", "other", "unused"), gather("words")], **tables)
    assert embedding_rows(path, "input_ids") == rows
    assert embedding_rows(path, "other") == 9


def test_of_several_tables_the_smallest_counts(tmp_path: Path) -> None:
    tables = {"values": np.zeros((12, 2), np.int8), "scales": np.zeros((11, 1), np.float32)}
    path = written(tmp_path / "a.onnx", [gather("values", output="v"), gather("scales")], **tables)
    assert embedding_rows(path, "input_ids") == 11


def test_a_look_up_of_another_kind_is_not_guessed_at(tmp_path: Path) -> None:
    table = np.zeros((12, 2), np.float32)
    cast = helper.make_node("Cast", ["input_ids"], ["narrow"], to=TensorProto.INT32)
    assert embedding_rows(written(tmp_path / "a.onnx", [cast, gather("t", "narrow")], t=table), "input_ids") is None
    twice = helper.make_node("Add", ["t", "t"], ["table"])  # a table that is computed
    assert embedding_rows(written(tmp_path / "b.onnx", [twice, gather("table")], t=table), "input_ids") is None


def test_the_bundled_models_table_of_4_bits_has_the_rows_that_onnx_reads() -> None:
    path = BUNDLED_MODEL / "model.onnx"
    tables = {tensor.name: tensor.dims[0] for tensor in onnx.load(str(path)).graph.initializer if tensor.dims}
    (codes,) = (name for name in tables if name.endswith("_block_codes"))
    assert embedding_rows(path, "input_ids") == tables[codes]
