"""Tensors of a graph that lie in other files: which ones are found, and that none is loaded unhashed."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from service.errors import ArtifactError
from service.model.artifact import load_manifest, verify_files
from service.model.encoder import load_encoder
from service.model.onnx_file import embedding_rows, external_files
from service.settings import BUNDLED_MODEL, BUNDLED_RERANKER
from tests.artifacts import build_artifact, write_manifest
from tests.graphs import model_of

UNKNOWN_GROUP = b"\xf3\x06\xf4\x06"  # an unknown field that ONNX Runtime skips


def outside(location: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), location)
    set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    return tensor


def graph_of(*nodes: onnx.NodeProto, initializers: tuple[onnx.TensorProto, ...] = ()) -> onnx.GraphProto:
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    return helper.make_graph(nodes, "g", [], [output], initializers)


def constant(tensor: onnx.TensorProto) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["y"], value=tensor)


def test_external_files_are_found_in_every_part_of_a_graph(tmp_path: Path) -> None:
    branch = graph_of(constant(outside("../branch")))
    sparse = helper.make_sparse_tensor(outside("values"), outside("indices"), [4])
    nodes = [
        constant(outside("a constant")),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=graph_of()),
        helper.make_node("Many", [], ["y"], tensors=[outside("/many")], graphs=[graph_of(constant(outside("graphs")))]),
    ]
    graph = graph_of(*nodes, initializers=(outside("model.onnx.data"), numpy_helper.from_array(np.ones(9), "inside")))
    graph.sparse_initializer.append(sparse)
    function = helper.make_function("f", "F", [], ["y"], [constant(outside("function"))], [])
    model = helper.make_model(graph, functions=[function])
    model.training_info.add().algorithm.CopyFrom(graph_of(constant(outside("training"))))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert external_files(tmp_path / "model.onnx") == {
        *("../branch", "values", "indices", "a constant", "/many", "graphs", "model.onnx.data", "function", "training"),
    }


@pytest.mark.parametrize("folder", [BUNDLED_MODEL, BUNDLED_RERANKER])
def test_bundled_graphs_have_no_external_file(folder: Path) -> None:
    assert external_files(folder / "model.onnx") == set()


def with_tensors_outside(folder: Path, location: str) -> None:
    """The artifact of a folder with the tensors of its graph in another file, and hashes of what is there."""
    build_artifact(folder)
    model = onnx.load(folder / "model.onnx")
    (folder / "model.onnx").unlink()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="data", size_threshold=100)
    if location != "data":
        (folder / "data").replace(folder / location)
        model = onnx.load(folder / "model.onnx", load_external_data=False)
        for entry in (entry for tensor in model.graph.initializer for entry in tensor.external_data):
            entry.value = location if entry.key == "location" else entry.value
        (folder / "model.onnx").write_bytes(model.SerializeToString())
    write_manifest(folder)


@pytest.mark.parametrize("location", ["../data", "data"])
def test_graph_with_external_tensors_is_refused(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # onnx refuses to save where this folder has a `data`, as after `make serve`
    with_tensors_outside(tmp_path / "artifact", location)
    with pytest.raises(ArtifactError, match=f"reads tensors from another file, '{location}': export it with its"):
        load_encoder(tmp_path / "artifact")


@pytest.mark.parametrize("prefix", [UNKNOWN_GROUP, b"\xff" * 9, b"\x0a\x7f"])
def test_unreadable_graph_is_refused(tmp_path: Path, prefix: bytes) -> None:
    build_artifact(tmp_path)
    content = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").write_bytes(prefix + content if prefix == UNKNOWN_GROUP else prefix)
    write_manifest(tmp_path)
    with pytest.raises(ArtifactError, match=r"model\.onnx cannot be loaded: it is no ONNX graph"):
        verify_files(tmp_path, load_manifest(tmp_path))


def written(path: Path, nodes: list[onnx.NodeProto], **tables: np.ndarray) -> Path:
    onnx.save(model_of(nodes, tables, {"found": None}), str(path))
    return path


def gather(table: str, ids: str = "input_ids", output: str = "found") -> onnx.NodeProto:
    return helper.make_node("Gather", [table, ids], [output])


@pytest.mark.parametrize("rows", [1, 127, 128, 70_000])
def test_embedding_rows_are_those_of_the_table_of_the_ids(tmp_path: Path, rows: int) -> None:
    tables = {"positions": np.zeros((9, 2), np.float32), "words": np.zeros((rows, 2), np.float32)}
    path = written(tmp_path / "a.onnx", [gather("positions", "other", "unused"), gather("words")], **tables)
    assert embedding_rows(path, "input_ids") == rows
    assert embedding_rows(path, "other") == 9


def test_smallest_table_counts(tmp_path: Path) -> None:
    tables = {"values": np.zeros((12, 2), np.int8), "scales": np.zeros((11, 1), np.float32)}
    path = written(tmp_path / "a.onnx", [gather("values", output="v"), gather("scales")], **tables)
    assert embedding_rows(path, "input_ids") == 11


def test_other_look_ups_give_no_rows(tmp_path: Path) -> None:
    table = np.zeros((12, 2), np.float32)
    cast = helper.make_node("Cast", ["input_ids"], ["narrow"], to=TensorProto.INT32)
    assert embedding_rows(written(tmp_path / "a.onnx", [cast, gather("t", "narrow")], t=table), "input_ids") is None
    twice = helper.make_node("Add", ["t", "t"], ["table"])  # a table that is computed
    assert embedding_rows(written(tmp_path / "b.onnx", [twice, gather("table")], t=table), "input_ids") is None


def test_rows_of_the_4_bit_table_are_those_onnx_reads() -> None:
    path = BUNDLED_MODEL / "model.onnx"
    tables = {tensor.name: tensor.dims[0] for tensor in onnx.load(str(path)).graph.initializer if tensor.dims}
    (codes,) = (name for name in tables if name.endswith("_block_codes"))
    assert embedding_rows(path, "input_ids") == tables[codes]
