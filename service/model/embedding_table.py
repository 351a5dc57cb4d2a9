"""Reads from an ONNX file how many token ids have embeddings, by parsing its protobuf encoding.

It reads only names and sizes: that takes a millisecond and no memory, however large the tables are.
"""

from mmap import ACCESS_READ, mmap
from pathlib import Path

from service.model.protobuf import Place, values, varint

LOOK_UPS = {b"Gather", b"GatherBlockQuantized"}  # operators whose inputs are a table, then the ids
# Fields of ModelProto, GraphProto, NodeProto and TensorProto in onnx.proto.
GRAPH, NODE, INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_OPERATOR = 1, 4
TENSOR_DIMS, TENSOR_NAME = 1, 8


def embedding_rows(path: Path, ids: str) -> int | None:
    """Return the rows of the smallest table in which a valid graph looks up its input `ids`.

    None: it looks them up in another way, for example after a Cast.
    """
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as file:
        tables: set[bytes] = set()
        tensors: list[Place] = []
        for graph in values(file, (0, len(file)), GRAPH):
            for node in values(file, graph, NODE):
                if file.find(ids.encode(), *node) >= 0:  # skip the others unparsed
                    tables |= _tables_of(file, node, ids.encode())
            tensors += values(file, graph, INITIALIZER)
        return min((_rows(file, tensor) for tensor in tensors if _name(file, tensor) in tables), default=None)


def _tables_of(file: mmap, node: Place, ids: bytes) -> set[bytes]:
    (operator,) = (file[slice(*value)] for value in values(file, node, NODE_OPERATOR))
    table, *indices = [file[slice(*value)] for value in values(file, node, NODE_INPUT)] or [b""]
    return {table} if operator in LOOK_UPS and indices[:1] == [ids] else set()


def _name(file: mmap, tensor: Place) -> bytes:
    return next((file[slice(*value)] for value in values(file, tensor, TENSOR_NAME)), b"")


def _rows(file: mmap, tensor: Place) -> int:
    dims = next(values(file, tensor, TENSOR_DIMS), None)  # the first dim, or a packed list that begins with it
    return 0 if dims is None else varint(file, dims[0])[0]
