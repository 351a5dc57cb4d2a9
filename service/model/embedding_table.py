"""Reads from an ONNX file how many token ids it has embeddings for. Knows protobuf's encoding; knows no ONNX Runtime.

Only names and sizes are looked at, so that it takes a millisecond and no memory, however large the tables are.
"""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

LOOK_UPS = {b"Gather", b"GatherBlockQuantized"}  # operators: a table, then the ids
# Fields of ModelProto, GraphProto, NodeProto and TensorProto in onnx.proto.
GRAPH, NODE, INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_OPERATOR = 1, 4
TENSOR_DIMS, TENSOR_NAME = 1, 8
# How protobuf writes a value: the low bits of a field's key.
VARINT, LENGTH_FIRST, FIXED_BYTES = 0, 2, {1: 8, 5: 4}

Place = tuple[int, int]  # where something begins and ends in the file


def embedding_rows(path: Path, ids: str) -> int | None:
    """Rows of the smallest table in which a valid graph looks up its input `ids`.

    None: it looks them up in another way, after a Cast, say.
    """
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as file:
        tables: set[bytes] = set()
        tensors: list[Place] = []
        for graph in _values(file, (0, len(file)), GRAPH):
            for node in _values(file, graph, NODE):
                if file.find(ids.encode(), *node) >= 0:  # few have it: the others need not be read
                    tables |= _tables_of(file, node, ids.encode())
            tensors += _values(file, graph, INITIALIZER)
        return min((_rows(file, tensor) for tensor in tensors if _name(file, tensor) in tables), default=None)


def _tables_of(file: mmap, node: Place, ids: bytes) -> set[bytes]:
    (operator,) = (file[slice(*value)] for value in _values(file, node, NODE_OPERATOR))
    table, *indices = [file[slice(*value)] for value in _values(file, node, NODE_INPUT)] or [b""]
    return {table} if operator in LOOK_UPS and indices[:1] == [ids] else set()


def _name(file: mmap, tensor: Place) -> bytes:
    return next((file[slice(*value)] for value in _values(file, tensor, TENSOR_NAME)), b"")


def _rows(file: mmap, tensor: Place) -> int:
    dims = next(_values(file, tensor, TENSOR_DIMS), None)  # the first of them, or a list that begins with it
    return 0 if dims is None else _varint(file, dims[0])[0]


def _values(file: mmap, message: Place, wanted: int) -> Iterator[Place]:
    """Where the values of one field of a message are, in order."""
    start, stop = message
    while start < stop:
        key, start = _varint(file, start)
        kind = key & 7
        if kind == LENGTH_FIRST:
            size, start = _varint(file, start)
        elif kind == VARINT:
            size = _varint(file, start)[1] - start
        else:
            size = FIXED_BYTES[kind]
        if key >> 3 == wanted:
            yield start, start + size
        start += size


def _varint(file: mmap, start: int) -> tuple[int, int]:
    """A number in groups of 7 bits, the low ones first, and where it ends."""
    number = shift = 0
    while True:
        byte = file[start]
        number |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return number, start
