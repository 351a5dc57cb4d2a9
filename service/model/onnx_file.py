"""Reads from an ONNX file which other files it needs and how many token ids have embeddings, without loading it.

It parses the protobuf encoding, and of it only names and sizes: that takes milliseconds and no memory, however large
the tables are. Each value is checked to lie in its message: what ONNX Runtime would read elsewhere must not be missed.
"""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

# Wire types: the low bits of a field's key.
VARINT, LENGTH_FIRST, FIXED_BYTES = 0, 2, {1: 8, 5: 4}
# Where tensors are, by the fields of onnx.proto.
PARTS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
# Fields of ModelProto, GraphProto, NodeProto and TensorProto.
GRAPH, NODE, INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_OPERATOR = 1, 4
TENSOR_DIMS, TENSOR_NAME = 1, 8
EXTERNAL_DATA, DATA_LOCATION = 13, 14
KEY, VALUE = 1, 2  # of an entry of EXTERNAL_DATA

LOOK_UPS = {b"Gather", b"GatherBlockQuantized"}  # operators whose inputs are a table, then the ids

Place = tuple[int, int]  # start and end of a value in the file


def external_files(path: Path) -> set[str]:
    """Return the names, as the graph gives them, of all other files with its tensors.

    ONNX Runtime loads them with the graph, even from outside its folder.
    Raises: ValueError: the file is no ONNX graph.  OSError.
    """
    if not path.stat().st_size:
        return set()
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as file:
        names: set[str] = set()
        waiting: list[tuple[str, Place]] = [("model", (0, len(file)))]
        while waiting:
            kind, message = waiting.pop()
            if kind == "tensor":
                names |= set(_external_names(file, message))
                continue
            parts = PARTS[kind]
            waiting += [(parts[number], place) for number, place in _fields(file, message) if number in parts]
        return names


def _external_names(file: mmap, tensor: Place) -> Iterator[str]:
    entries = list(_values(file, tensor, EXTERNAL_DATA))
    for entry in entries:
        if b"location" in _contents(file, entry, KEY):
            yield from (name.decode(errors="replace") for name in _contents(file, entry, VALUE))
    if not entries and any(location != b"\0" for location in _contents(file, tensor, DATA_LOCATION)):
        yield ""


def embedding_rows(path: Path, ids: str) -> int | None:
    """Return the rows of the smallest table in which a valid graph looks up its input `ids`.

    None: it looks them up in another way, for example after a Cast.
    """
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as file:
        tables: set[bytes] = set()
        tensors: list[Place] = []
        for graph in _values(file, (0, len(file)), GRAPH):
            for node in _values(file, graph, NODE):
                if file.find(ids.encode(), *node) >= 0:  # skip the others unparsed
                    tables |= _looked_up(file, node, ids.encode())
            tensors += _values(file, graph, INITIALIZER)
        rows = [
            _rows(file, tensor) for tensor in tensors if tables.intersection(_contents(file, tensor, TENSOR_NAME)[:1])
        ]
        return min(rows, default=None)


def _looked_up(file: mmap, node: Place, ids: bytes) -> set[bytes]:
    """Return the name of the table in which a node looks up `ids`, if it does."""
    (operator,) = _contents(file, node, NODE_OPERATOR)
    table, *indices = _contents(file, node, NODE_INPUT) or [b""]
    return {table} if operator in LOOK_UPS and indices[:1] == [ids] else set()


def _rows(file: mmap, tensor: Place) -> int:
    dims = next(_values(file, tensor, TENSOR_DIMS), None)  # the first dim, or a packed list that begins with it
    return 0 if dims is None else _varint(file, dims[0])[0]


def _fields(file: mmap, message: Place) -> Iterator[tuple[int, Place]]:
    """Yield the number of each field of a message with the place of its value, in order.

    Raises: ValueError: it is no message.
    """
    start, stop = message
    while start < stop:
        key, start = _varint(file, start)
        kind = key & 7
        if kind == LENGTH_FIRST:
            size, start = _varint(file, start)
        elif kind == VARINT:
            size = _varint(file, start)[1] - start
        elif kind in FIXED_BYTES:
            size = FIXED_BYTES[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if start + size > stop:
            raise ValueError("a value is cut off")
        yield key >> 3, (start, start + size)
        start += size


def _values(file: mmap, message: Place, wanted: int) -> Iterator[Place]:
    """Yield the places of one field's values in a message, in order."""
    return (place for number, place in _fields(file, message) if number == wanted)


def _contents(file: mmap, message: Place, wanted: int) -> list[bytes]:
    """Return one field's values in a message, in order."""
    return [file[slice(*place)] for place in _values(file, message, wanted)]


def _varint(file: mmap, start: int) -> tuple[int, int]:
    """Read a varint (groups of 7 bits, the lowest first). Return the number and its end.

    Raises: ValueError: it does not end.
    """
    number = 0
    for place in range(start, min(start + 10, len(file))):
        byte = file[place]
        number |= (byte & 127) << 7 * (place - start)
        if byte < 128:
            return number, place + 1
    raise ValueError("a number does not end")
