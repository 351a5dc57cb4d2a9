"""Splits, embeds and writes the documents of a request: the ingest core driven on the event loop.

Knows the engine and the collection; shapes no answer.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from service.api.request import Embedder
from service.documents.collections import Versions
from service.documents.document import Document
from service.documents.ingest import join_passages, owners_of, parts_of
from service.documents.own_fields import OwnFields
from service.engine.fair_queue import EncodedBatch
from service.errors import Conflict, InvalidInput
from service.model.passages import Splitter
from service.runtime import Runtime, Steps

TRIES = 3  # of a change that other changes of the document overtake

Change = Callable[[dict[str, Any], OwnFields | None], Mapping[str, Any]]


@dataclass(frozen=True)
class Written:
    """What became of documents. failed: position -> why the model failed.  truncated: ids, in order.

    cost: of all passages; its positions are those of the documents.
    """

    stored: int
    revision: int
    failed: dict[int, str]
    truncated: list[str]
    cost: EncodedBatch


async def split_documents(
    documents: Sequence[Document], embedder: Embedder, runtime: Runtime, *, chunk: bool | None
) -> list[Document]:
    """Return the documents, long ones with their passages, once there is room for them.

    chunk: whether to split, as the request says; None: as the settings or the store do.

    Raises: InvalidInput, TextTooLong: a text is empty or over a limit, there are too many passages, or none can be.
            TooLarge, Overloaded: as `Embedder`.  StorageFull: their vectors do not fit.
    """
    texts = [document.text for document in documents]
    embedder.check(texts, name="documents", place=_place)
    collections, name, settings = runtime.collections, runtime.collection_name, runtime.settings

    def split() -> Steps[list[Document]]:
        if not collections.is_chunked(name, settings.chunk if chunk is None else chunk):
            return list(documents)
        return (yield from _in_passages(documents, runtime.encoder.splitter, limit=settings.max_passages))

    with embedder.memory_for(texts):
        in_passages = await embedder.prepare(
            split(), what="splitting documents", way_out="send fewer documents, or shorter ones, or chunk: false"
        )
        await runtime.check_room(in_passages)
    return in_passages


async def write_documents(
    documents: Sequence[Document], versions: Versions, *, embedder: Embedder, runtime: Runtime
) -> Written:
    """Embed documents in their passages, each id at most once, and write those that the model did not fail on.

    Durable on return.

    Raises: StorageFull: there is no room for them; nothing changed.  InferenceFailed: the model failed on all.
            Conflict: as `Collections.put`.  What `Embedder` does.
    """
    owners = owners_of(documents).tolist()
    batch = await embedder.compute(
        parts_of(documents),
        prompt=runtime.encoder.prompts.document,
        place=lambda position: _place(owners[position]),
        skip_failed=True,
        space=embedder.document_space,
    )
    kept, vectors_PD, failed = join_passages(
        documents, batch.embeddings, failed=batch.failed, truncated=batch.truncated
    )
    if not kept:
        position, error = next(iter(failed.items()))
        raise error.at(_place(position)) from error
    revision = await runtime.put(kept, vectors_PD, versions)
    truncated = tuple(dict.fromkeys(owners[position] for position in batch.truncated))
    return Written(
        len(kept),
        revision,
        failed={position: str(error) for position, error in failed.items()},
        truncated=[documents[position].id for position in truncated if position not in failed],
        cost=replace(batch, embeddings=vectors_PD, failed=failed, truncated=truncated),
    )


async def patch_own_fields(
    id_: str, change: Change, *, embedder: Embedder, runtime: Runtime
) -> tuple[int | None, EncodedBatch | None]:
    """Change a document's own fields; if its text changes with them, embed it anew.

    Returns: the change's revision, None if there is no such document; and the cost where a text was embedded.

    Raises: InvalidInput: the text would be empty or too long, or what `change` raises.  What `write_documents` does.
            Conflict: other changes of the document came first, `TRIES` times.
    """
    collections, name = runtime.collections, runtime.collection_name
    limit = runtime.settings.max_text_chars

    def rendered(metadata: Mapping[str, Any], own_fields: OwnFields | None) -> str:
        return "" if own_fields is None else own_fields.text_of({**metadata, "id": id_}, max_chars=limit)

    def change_same_text(before: dict[str, Any]) -> Mapping[str, Any]:
        own_fields = collections.own_fields(name)
        after = change(before, own_fields)
        if rendered(after, own_fields) != rendered(before, own_fields):
            raise _TextChangesError
        return after

    for tries_left in reversed(range(TRIES)):
        with suppress(_TextChangesError):
            revision = await runtime.update_metadata(id_, change_same_text)
            return revision, None
        own_fields = await runtime.own_fields()
        before = await runtime.read(runtime.collection.get, id_)
        if before is None:
            return None, None
        after = await runtime.read(change, dict(before.metadata), own_fields)
        changed = [Document(id_, rendered(after, own_fields), after)]
        changed = await split_documents(changed, embedder, runtime, chunk=None)
        try:
            versions = Versions(own_fields, replaced=before)
            written = await write_documents(changed, versions, embedder=embedder, runtime=runtime)
        except Conflict:
            if not tries_left:
                raise
        else:
            return written.revision, written.cost
    raise AssertionError("the last try raises or returns")


class _TextChangesError(Exception):
    """A change of fields changes the text: it must be embedded first."""


def _place(position: int) -> str:
    return f"documents[{position}].text"


def _in_passages(documents: Sequence[Document], splitter: Splitter, *, limit: int) -> Steps[list[Document]]:
    """Split documents step by step. Raises: InvalidInput: they have more passages than the limit."""
    in_passages, count = [], 0
    for position, document in enumerate(documents):
        spans = []
        for span in splitter.passages(document.text):
            spans.append(span)
            if count + len(spans) > limit:
                break
            yield
        count += max(1, len(spans))
        if count > limit:
            raise InvalidInput(
                f"documents has more than {limit} passages up to position {position}; the limit is {limit} "
                "(CROSSLET_MAX_PASSAGES): send fewer documents, or shorter ones, or chunk: false"
            )
        in_passages.append(replace(document, passages=tuple(spans)))
        yield
    return in_passages
