"""Splits the documents of a request into passages, and embeds these. Knows requests and the engine; stores nothing."""

from collections.abc import Sequence
from dataclasses import replace

from service.documents.collections import Collections
from service.documents.store.document import Document, owners_of, parts_of, whole
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput
from service.http.dependencies import Embedder
from service.model.passages import Splitter
from service.runtime import Runtime


async def in_passages(
    documents: Sequence[Document], embedder: Embedder, runtime: Runtime, *, wanted: bool | None
) -> list[Document]:
    """The documents, long ones with their passages. wanted: as the request says; None: as the settings or the store do.

    Raises: InvalidInput, TextTooLong: a text is empty or over a limit, there are too many passages, or none can be.
            TooLarge, Overloaded: as `Embedder`.  StorageFull: their vectors do not fit.
    """
    texts = [document.text for document in documents]
    embedder.check(texts, name="documents", place=_place)
    wanted = runtime.settings.chunk if wanted is None else wanted
    limit = runtime.settings.max_passages
    with embedder.room_for(texts):
        return await runtime.read(
            _in_passages, documents, runtime.collections, runtime.collection_name, runtime.splitter, wanted, limit=limit
        )


async def embedded(documents: Sequence[Document], embedder: Embedder) -> tuple[list[Document], EncodedBatch]:
    """The documents that the model did not fail on, with their vectors; in the batch, positions are of `documents`.

    Raises: as `Embedder`; InferenceFailed: it failed on all.
    """
    owners = owners_of(documents).tolist()
    batch = await embedder.embed_checked(
        parts_of(documents),
        prompt=embedder.prompts.document,
        place=lambda position: _place(owners[position]),
        skip_failed=True,
        space=embedder.document_space,
    )
    kept, vectors_PD, failed = whole(documents, batch.embeddings, failed=batch.failed, truncated=batch.truncated)
    if not kept:
        position, error = next(iter(failed.items()))
        raise type(error)(f"{_place(position)} {error}") from error
    truncated = tuple(dict.fromkeys(owners[position] for position in batch.truncated))
    return kept, replace(batch, embeddings=vectors_PD, failed=failed, truncated=truncated)


def _place(position: int) -> str:
    return f"documents[{position}].text"


def _in_passages(
    documents: Sequence[Document],
    collections: Collections,
    name: str,
    splitter: Splitter,
    wanted: bool | None,
    *,
    limit: int,
) -> list[Document]:
    found = list(documents)
    if collections.is_chunked(name, wanted):
        count = 0
        for position, document in enumerate(documents):
            found[position] = replace(document, passages=splitter.split(document.text))
            count += len(found[position].spans)
            if count > limit:
                raise InvalidInput(
                    f"documents has {count} passages up to position {position}; the limit is {limit} "
                    "(CROSSLET_MAX_PASSAGES): send fewer documents, or shorter ones, or chunk: false"
                )
    collections.check_room(name, found)
    return found
