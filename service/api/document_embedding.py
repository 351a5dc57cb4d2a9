"""Splits the documents of a request into passages, and embeds these. Knows requests and the engine; stores nothing."""

from collections.abc import Sequence
from dataclasses import replace

from service.api.embedder import Embedder
from service.documents.collections import Collections
from service.documents.store.document import Document, owners_of, parts_of, whole
from service.engine.fair_queue import EncodedBatch
from service.errors import InvalidInput
from service.model.passages import Splitter
from service.preparation import Steps
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
    splitting = _in_passages(
        documents,
        runtime.collections,
        runtime.collection_name,
        runtime.splitter,
        wanted,
        limit=runtime.settings.max_passages,
    )
    with embedder.room_for(texts):
        found = await embedder.prepare(
            splitting, what="splitting documents", way_out="send fewer documents, or shorter ones, or chunk: false"
        )
        await runtime.read(runtime.collections.check_room, runtime.collection_name, found)
    return found


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
        raise error.at(_place(position)) from error
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
) -> Steps[list[Document]]:
    if not collections.is_chunked(name, wanted):
        return list(documents)
    found, count = [], 0
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
        found.append(replace(document, passages=tuple(spans)))
        yield
    return found
