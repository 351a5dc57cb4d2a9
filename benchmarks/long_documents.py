"""How well long documents are found, cut, as the mean of their passages, and by passages; memory and time.

python -m benchmarks.long_documents --data DIR [--words 300 1000 3000] [--step 4]

Prints a table, keeps nothing.

DIR/passages.LANG.tsv.gz (id, passage) and queries.LANG.tsv.gz (id, passage's id, question): XQuAD, in 9 languages. A
document is passages of one language, shuffled and joined until it has so many words; zh counts 1.6 characters a word.
One store has the documents of all languages. Right is a document, of any language, that has the question's passage.
`cut` and `mean` are values of CROSSLET_LONG_TEXTS.
"""

import argparse
import gzip
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from service.api.request import means_of
from service.documents.collections import Collection, IndexOptions
from service.documents.document import Document, Vectors
from service.documents.ingest import parts_of
from service.documents.interface import Match, Query
from service.documents.store.store import DocumentStore
from service.model.encoder import Encoder, load_encoder
from service.settings import BUNDLED_MODEL

CHARS_A_WORD = 1.6  # of Chinese
TOP_K, BATCH = 10, 64
Form = Literal["cut", "mean", "passages"]
FORMS: tuple[Form, ...] = ("cut", "mean", "passages")
MIB = 2**20
EXACT_DOCUMENTS = 20_000  # as the service's default


@dataclass(frozen=True)
class Question:
    """A question. passage: the id of the one that answers it.  text: of that passage, in the question's language."""

    text: str
    passage: str
    answer: str


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_documents", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--words", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--step", type=int, default=4, help="ask every so manieth question (4)")
    options = parser.parse_args()
    encoder = load_encoder(BUNDLED_MODEL)
    passages = {path.name.split(".")[1]: dict(_lines(path)) for path in sorted(options.data.glob("passages.*.tsv.gz"))}
    questions = list(_questions(options.data, passages))[:: options.step]
    queries_QD = _embedded(encoder, [encoder.prompts.query + question.text for question in questions])
    print(f"{len(questions)} questions in {len(passages)} languages, artifact {encoder.manifest.fingerprint[:12]}")
    print("| words | documents | | vectors | MiB | dense, % first | hybrid, % first | passage, % right | search, ms |")
    print("|---:|---:|---|---:|---:|---:|---:|---:|---:|")
    for words in options.words:
        documents, contents = _documents(passages, words)
        for form in FORMS:
            row = _row(encoder, documents, contents, questions, queries_QD, words=words, form=form)
            print(row, flush=True)


def _row(
    encoder: Encoder,
    documents: list[Document],
    contents: dict[str, set[str]],
    questions: list[Question],
    queries_QD: Vectors,
    *,
    words: int,
    form: Form,
) -> str:
    is_split = form == "passages"
    split = encoder.splitter.split if is_split else lambda text: ()
    documents = [Document(one.id, one.text, {}, split(one.text)) for one in documents]
    vectors_PD = _in_form(encoder, parts_of(documents), form)
    with tempfile.TemporaryDirectory() as folder:
        options = IndexOptions(Path(folder), "long", encoder.manifest.dim, exact_documents=EXACT_DOCUMENTS)
        store = DocumentStore(Path(folder) / "documents.sqlite3", fingerprint="long", dim=options.dim)
        collection = Collection(store, options)
        collection.put(documents, vectors_PD)
        shares = []
        for is_hybrid in (False, True):
            asked = [
                Query(query_D, question.text if is_hybrid else None)
                for query_D, question in zip(queries_QD, questions, strict=True)
            ]
            started_at = time.thread_time()
            best = [collection.search_all([query], top_k=TOP_K)[0][0] for query in asked]
            took_ms = 1000 * (time.thread_time() - started_at) / len(asked)
            pairs = list(zip(best, questions, strict=True))
            shares.append(_percent(question.passage in contents[one.document.id] for one, question in pairs))
        passage = _percent(_is_in(one, question) for one, question in pairs) if is_split else "-"
        size = collection.size_bytes / MIB
        collection.close()
    found = f"{shares[0]} | {shares[1]} | {passage} | {took_ms:.1f}"
    return f"| {words} | {len(documents)} | {form} | {len(vectors_PD)} | {size:.2f} | {found} |"


def _in_form(encoder: Encoder, texts: list[str], form: Form) -> Vectors:
    """Return a vector a text, of its beginning or as the service makes means."""
    prompt = encoder.prompts.document
    if form != "mean":
        return _embedded(encoder, [prompt + text for text in texts])
    parts = [[prompt + part for part in encoder.passages(text, prompt=prompt)] for text in texts]
    owners = [position for position, part in enumerate(parts) for _ in part]
    flat = [*chain.from_iterable(parts)]
    return means_of(_embedded(encoder, flat), flat, owners)


def _is_in(match: Match, question: Question) -> bool:
    """Whether the passage that was found overlaps the one that answers."""
    start = match.document.text.find(question.answer)
    if start < 0 or match.passage is None:
        return False
    return match.passage.start < start + len(question.answer) and start < match.passage.stop


def _percent(hits: Iterator[bool]) -> str:
    return f"{100 * float(np.mean(list(hits))):.1f}"


def _documents(passages: dict[str, dict[str, str]], words: int) -> tuple[list[Document], dict[str, set[str]]]:
    """The documents, and the ids of the passages in each."""
    documents: list[Document] = []
    contents: dict[str, set[str]] = defaultdict(set)
    for language, texts in passages.items():
        order = sorted(texts)
        random.Random(language).shuffle(order)
        chosen: list[str] = []
        for number, id_ in enumerate(order):
            chosen.append(id_)
            size = sum(_words(texts[one], language) for one in chosen)
            if size >= words or number == len(order) - 1:
                name = f"{language}/{len(documents)}"
                documents.append(Document(name, "\n\n".join(texts[one] for one in chosen), {}))
                contents[name], chosen = set(chosen), []
    return documents, contents


def _words(text: str, language: str) -> float:
    return len(text) / CHARS_A_WORD if language == "zh" else len(text.split())


def _questions(folder: Path, passages: dict[str, dict[str, str]]) -> Iterator[Question]:
    for language, texts in passages.items():
        for _, rest in _lines(folder / f"queries.{language}.tsv.gz"):
            passage, text = rest.split("\t")
            yield Question(text, passage, texts[passage])


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            id_, _, rest = line.rstrip("\n").partition("\t")
            yield id_, rest


def _embedded(encoder: Encoder, texts: list[str]) -> Vectors:
    parts = [encoder.encode_all(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
    return np.stack([one.vector for part in parts for one in part])


if __name__ == "__main__":
    main()
