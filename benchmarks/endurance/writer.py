"""Writes random documents until killed; prints each change before and after making it.

python -m benchmarks.endurance.writer FOLDER SEED EXACT_ROWS
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document, Span, Vectors
from service.documents.store.store import DocumentStore
from service.errors import StorageFull, StoreError

DIM = 16
IDS = 2000
FINGERPRINT = "crash"
NO_START = 2  # exit status


def open_collection(folder: Path, *, exact_rows: int) -> Collection:
    store = DocumentStore(folder / "documents.sqlite3", fingerprint=FINGERPRINT, dim=DIM)
    return Collection(store, IndexOptions(folder, FINGERPRINT, DIM, exact_documents=exact_rows))


def vector_of(text: str) -> Vectors:
    """A unit vector unique to this text: (D,)."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    vector_D = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    unit: Vectors = vector_D / np.linalg.norm(vector_D)
    return unit


def passages_of(text: str) -> tuple[Span, ...]:
    """Every other text is in three passages, of which the last has the vector of the text."""
    third = len(text) // 3
    return ((0, third), (third, 2 * third), (2 * third, len(text))) if int(text[-1]) % 2 else ()


def vectors_of(document: Document) -> list[Vectors]:
    others = [vector_of(f"{place} of {document.text}") for place in range(1, len(document.spans))]
    return [*others, vector_of(document.text)]


def random_change(generator: np.random.Generator) -> dict[str, Any]:
    """A random change: {"put": {id: text}} or {"delete": [id]}."""
    size = int(generator.choice([1, 3, 40, 200]))
    ids = [f"d{number}" for number in generator.choice(IDS, size, replace=False)]
    if generator.random() < 0.25:
        return {"delete": ids}
    return {"put": {id_: f"{id_} {generator.integers(2**32)}" for id_ in ids}}


def apply(collection: Collection, change: dict[str, Any]) -> None:
    if "delete" in change:
        collection.delete(change["delete"])
        return
    documents = [Document(id_, text, {"text": text}, passages_of(text)) for id_, text in change["put"].items()]
    collection.put(documents, np.stack([vector_D for document in documents for vector_D in vectors_of(document)]))


def main() -> None:
    """Write until killed; exit with `NO_START` if the disk is too full to open the store."""
    folder, seed, exact_rows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        collection = open_collection(folder, exact_rows=exact_rows)
    except StoreError as exc:
        print(exc, file=sys.stderr)
        sys.exit(NO_START)
    generator = np.random.default_rng(seed)
    print("ready", flush=True)
    while True:
        change = random_change(generator)
        print(json.dumps(change), flush=True)
        try:
            apply(collection, change)
            print("done", flush=True)
        except StorageFull:
            print("no room", flush=True)


if __name__ == "__main__":
    main()
