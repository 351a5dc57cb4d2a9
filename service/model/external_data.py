"""Finds the files that an ONNX graph reads besides its own, by parsing its protobuf encoding.

ONNX Runtime loads them when it loads the graph, also from outside its folder.
"""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path

from service.model.protobuf import Place, fields, values

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
EXTERNAL_DATA, DATA_LOCATION = 13, 14  # of a tensor
KEY, VALUE = 1, 2  # of an entry of EXTERNAL_DATA


def external_files(path: Path) -> set[str]:
    """The names, as the graph gives them, of all files with its tensors.

    Raises: ValueError: the file is no ONNX graph.  OSError.
    """
    if not path.stat().st_size:
        return set()
    with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as file:
        found: set[str] = set()
        waiting: list[tuple[str, Place]] = [("model", (0, len(file)))]
        while waiting:
            kind, message = waiting.pop()
            if kind == "tensor":
                found |= set(_files_of(file, message))
                continue
            parts = PARTS[kind]
            waiting += [(parts[number], place) for number, place in fields(file, message) if number in parts]
        return found


def _files_of(file: mmap, tensor: Place) -> Iterator[str]:
    entries: list[Place] = []
    is_external = False
    for number, place in fields(file, tensor):
        if number == EXTERNAL_DATA:
            entries.append(place)
        is_external = is_external or (number == DATA_LOCATION and file[slice(*place)] != b"\0")
    for entry in entries:
        if any(file[slice(*key)] == b"location" for key in values(file, entry, KEY)):
            yield from (file[slice(*value)].decode(errors="replace") for value in values(file, entry, VALUE))
    if is_external and not entries:
        yield ""
