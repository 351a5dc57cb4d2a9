"""Time and size of keywords: words as they are, with a typo, as a beginning; and one document that is replaced.

python -m benchmarks.keywords TEXTS.gz .. [--documents 100000]

TEXTS: a language each, a sentence a line. A document is two sentences and a part number; it says its language. One
thread, words alone: nothing is embedded. Takes some minutes, and 300 MB in TMPDIR.
"""

import argparse
import gzip
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from service.documents.document import Document
from service.documents.keywords.terms import document_terms
from service.documents.store.store import DocumentStore

BATCH = 1000
QUERIES = 300

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keywords", description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+", help="text files, gzip, named by language")
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    chosen = random.Random(0)
    documents = made(options.texts, options.documents, chosen)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "documents.sqlite3"
        with closing(DocumentStore(path, fingerprint="none", dim=1)) as store:
            start = time.monotonic()
            for first in range(0, len(documents), BATCH):
                put(store, documents[first : first + BATCH])
            say(f"{len(documents)} documents put in {time.monotonic() - start:.1f} s")
            for table, size in sizes(store.writer).items():
                say(f"{table}: {size / 1e6:.1f} MB")
            measure(store, documents, chosen)


def made(paths: Sequence[Path], count: int, chosen: random.Random) -> list[Document]:
    sentences_of = {path.name[:2]: gzip.decompress(path.read_bytes()).decode().splitlines() for path in paths}
    languages = [*sentences_of]
    return [document(number, languages[number % len(languages)], sentences_of, chosen) for number in range(count)]


def document(number: int, language: str, sentences_of: Mapping[str, Sequence[str]], chosen: random.Random) -> Document:
    text = " ".join([*chosen.sample(sentences_of[language], 2), f"{code(chosen)}."])
    return Document(f"{number}", text, {"lang": language})


def code(chosen: random.Random) -> str:
    letters = "ABCDEFGHKLMNPQRSTUVWXZ"
    return (
        f"{chosen.choice(letters)}{chosen.choice(letters)}-{chosen.randrange(10_000, 100_000)}{chosen.choice(letters)}"
    )


def put(store: DocumentStore, documents: Sequence[Document]) -> None:
    with store.transaction() as transaction:
        transaction.upsert(documents, np.ones((len(documents), 1), np.float32))
        transaction.commit()


def sizes(connection: sqlite3.Connection) -> dict[str, int]:
    like = "sum(iif(name LIKE '%{0}%', pgsize, 0))"
    kinds = ["keywords", "vocabulary", "trigrams"]
    stored = connection.execute(f"SELECT {', '.join(map(like.format, kinds))} FROM dbstat").fetchone()
    return dict(zip(kinds, stored, strict=True))


def measure(store: DocumentStore, documents: Sequence[Document], chosen: random.Random) -> None:
    asked = chosen.sample(documents, QUERIES)
    codes = [document.text.split()[-1].rstrip(".") for document in asked]
    words = [max(document_terms(document.text), key=len) for document in asked]
    queries = {
        "a sentence": [document.text.rsplit(".", 2)[0] for document in asked],
        "a sentence, its last word typed": [document.text.rsplit(".", 2)[0][:-2] for document in asked],
        "a word": words,
        "a word with a typo": [misspelt(word, chosen) for word in words],
        "four letters, typed": [word[:4] for word in words],
        "two letters, typed": [word[:2] for word in words],
        "a code": codes,
        "a code, two digits swapped": [f"{code[:4]}{code[5]}{code[4]}{code[6:]}" for code in codes],
        "a code's digits": [code[3:8] for code in codes],
        "ten words with typos": [" ".join(misspelt(word, chosen) for word in words[at : at + 10]) for at in range(290)],
    }
    for name, texts in queries.items():
        say(f"{name}: {timed(partial(search, store, typing='typed' in name), texts)}")
    say(f"a document replaced: {timed(lambda new: put(store, [new]), made_anew(asked, chosen))}")


def search(store: DocumentStore, text: str, *, typing: bool) -> None:
    with store.snapshot() as snapshot:
        snapshot.with_keywords(text, typing=typing)


def made_anew(documents: Sequence[Document], chosen: random.Random) -> list[Document]:
    """Return the documents with each other's texts and words that are new."""
    texts = [document.text for document in documents]
    chosen.shuffle(texts)
    return [
        Document(document.id, f"{text} {misspelt(text.split()[0], chosen)} {code(chosen)}", {})
        for document, text in zip(documents, texts, strict=True)
    ]


def misspelt(word: str, chosen: random.Random) -> str:
    """Return a word with one letter left out, doubled or swapped with the next."""
    at = chosen.randrange(max(1, len(word) - 1))
    return chosen.choice(
        [word[:at] + word[at + 1 :], word[: at + 1] + word[at:], word[:at] + word[at : at + 2][::-1] + word[at + 2 :]]
    )


def timed(call: Callable[[T], object], values: Iterable[T]) -> str:
    took_ms: list[float] = []
    for value in values:
        start = time.perf_counter()
        call(value)
        took_ms.append(1000 * (time.perf_counter() - start))
    return f"{np.median(took_ms):.2f} ms, 99 % {np.percentile(took_ms, 99):.2f}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
