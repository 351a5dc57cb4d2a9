"""Documents in a folder, found by meaning and by words, in this process."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self, get_args

from crosslet.encoder import Encoder
from service.api.schemas.embed import visible
from service.document_index import load_collection
from service.documents.ingest import Report
from service.documents.interface import Query, ResultOptions
from service.documents.names import DEFAULT_NAME, Mode
from service.documents.readers.records import Record
from service.errors import InferenceFailed, InvalidInput
from service.offline.embedding import engine_of
from service.offline.loading import Load, to_document
from service.settings import Settings


@dataclass(frozen=True)
class Hit:
    """A document that a search found.

    score: the cosine with the query; with words, fused with theirs.  passage: the part of the text that answers best.
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, Any]
    passage: str


class Index:
    """Documents kept in a folder: the store of `crosslet serve` (CROSSLET_DATA), which serves it when this is closed.

    What `put` returned from is on disk. One thread at a time may write, any may search. Close it, or use `with`.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        encoder: Encoder | None = None,
        *,
        collection: str = DEFAULT_NAME,
        read_only: bool = False,
    ) -> None:
        """Open the documents of a folder, which is made if there is none.

        Args:   encoder: None: the bundled model.  collection: a named set of documents in the folder.
                read_only: search only what is there now; a service may have the folder open meanwhile.
        Raises: CrossletError: the folder is in use, has documents of another model, or (read_only) has none.
        """
        self.encoder = encoder or Encoder()
        self._read_only = read_only
        # Not from the environment: CROSSLET_* are settings of the service.
        self._settings = Settings.model_construct(data=Path(folder), workers=self.encoder.threads)
        self._model = self.encoder._model
        self._collection = load_collection(self._settings, self._model.manifest, name=collection, read_only=read_only)

    def __repr__(self) -> str:
        return f"Index({str(self._settings.data)!r}, {self.encoder!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder for others to open."""
        self._collection.close()

    def __len__(self) -> int:
        return len(self._collection)

    def put(self, documents: Iterable[Mapping[str, Any]]) -> Report:
        """Insert or replace documents: `{"id": .., "text": .., "metadata": {..}}`, the metadata any JSON object.

        Long ones are split into passages. Those that are stored as they are are not embedded again.

        Returns: counts; as text one sentence.
        Raises: CrossletError: a document is malformed, named by its place; those before it may be stored. Or the model
                fails on some, and the others are stored; or the disk is full.
        """
        return self._put((f"documents[{position}]", document) for position, document in enumerate(documents))

    def put_files(self, folder: str | PathLike[str], *, patterns: str | Sequence[str] = ("*.txt", "*.md")) -> Report:
        """Put the text files of a folder and those below it; a file's id is its path from there.

        Blank files and those of hidden folders are left out. A file that is gone stays until `delete`.

        Raises: CrossletError: a pattern is malformed, a file is not UTF-8, and what `put` raises.
        """
        root = Path(folder)
        if not root.is_dir():
            raise InvalidInput(f"{root} is not a folder")
        return self._put(_files(root, [patterns] if isinstance(patterns, str) else patterns))

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        mode: Mode = "hybrid",
        filter: Mapping[str, object] | None = None,  # noqa: A002 - as the route calls it
        min_score: float | None = None,
    ) -> list[Hit]:
        """Return the best documents for a query in any language, best first.

        Args:   mode: by meaning (dense), by words (keywords), or both.
                filter: conditions on the metadata, such as `{"lang": "de"}` or `{"year": {"gte": 2020}}`.
                min_score: documents with a lower score are left out.
        Raises: CrossletError: the query is blank, or the filter malformed.
        """
        if mode not in get_args(Mode):
            raise InvalidInput(f"mode is {mode}; it is dense, keywords or hybrid")
        if top_k < 1:
            raise InvalidInput(f"top_k is {top_k}; give at least 1")
        try:
            visible(query).encode()
        except UnicodeEncodeError as exc:
            raise InvalidInput("the query is not valid UTF-8") from exc
        except ValueError as exc:
            raise InvalidInput(f"the query {exc}") from exc
        if not query:
            raise InvalidInput("the query is empty; it needs at least one character")
        vector_D = None
        if mode != "keywords":
            vector_D = self._model.encode(self._model.prompts.query + query).vector
        asked = Query(vector_D, None if mode == "dense" else query, text=query)
        options = ResultOptions(min_score=min_score)
        (matches,) = self._collection.search_all([asked], top_k=top_k, filter_=filter, options=options)
        return [
            Hit(
                match.document.id,
                float(match.score or 0),
                match.document.text,
                match.document.metadata,
                match.document.text if match.passage is None else match.passage.text,
            )
            for match in matches
        ]

    def get(self, id_: str) -> dict[str, Any] | None:
        """Return a document as `put` takes it; None: no document has the id."""
        document = self._collection.get(id_)
        if document is None:
            return None
        return {"id": document.id, "text": document.text, "metadata": dict(document.metadata)}

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents by id. Return how many there were."""
        self._check_writable()
        return self._collection.delete([ids] if isinstance(ids, str) else ids)

    def _check_writable(self) -> None:
        if self._read_only:
            raise InvalidInput("the index is open for reading; open it without read_only to change documents")

    def _put(self, given: Iterable[tuple[str, Mapping[str, Any]]]) -> Report:
        """Put documents, each with its name for error messages."""
        self._check_writable()
        split = self._model.splitter.split if self._collection.is_chunked(None) else None
        own_fields, most = self._collection.own_fields, self._settings.max_text_chars
        name, failures = "", list[str]()

        def records() -> Iterator[Record]:
            nonlocal name
            for number, (name, fields) in enumerate(given, start=1):
                if not isinstance(fields, Mapping):
                    raise InvalidInput(f'{name} is of type {type(fields).__name__}; give {{"id": .., "text": ..}}')
                yield Record(number, number, fields)

        def refuse(reason: str) -> None:
            raise InvalidInput(f"{name}: {reason.partition(': ')[2]}")  # without the line

        read = partial(to_document, max_text_chars=most, split=split, own_fields=own_fields)
        engine = engine_of("threads", self._model, self._settings, prompt=self._model.prompts.document)
        report = Load(read, refuse, failures.append).run(records(), self._collection, engine)
        if failures:
            raise InferenceFailed(f"{len(failures)} documents were not stored, the others are: {failures[0]}")
        return report


def _files(root: Path, patterns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the document of each text file, in the order of the paths."""
    try:
        paths = {path for pattern in patterns for path in root.rglob(pattern) if path.is_file()}
    except (NotImplementedError, ValueError) as exc:
        raise InvalidInput(f"patterns: {exc}; write them like *.txt or manuals/*.md") from exc
    for path in sorted(paths):
        id_ = path.relative_to(root).as_posix()
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            raise InvalidInput(f"{path} cannot be read ({reason})") from exc
        if text.strip():
            yield str(path), {"id": id_, "text": text}
