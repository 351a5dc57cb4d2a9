"""Embeds and writes the documents of a request. Knows engine and collection; shapes no answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.api.document_embedding import embedded
from service.api.embedder import Embedder
from service.documents.store.document import Document
from service.engine.fair_queue import EncodedBatch
from service.runtime import Runtime


@dataclass(frozen=True)
class Written:
    """What became of documents. failed: position -> why the model failed.  truncated: ids, in order."""

    stored: int
    revision: int
    failed: dict[int, str]
    truncated: list[str]
    batch: EncodedBatch


async def write_documents(documents: Sequence[Document], *, embedder: Embedder, runtime: Runtime) -> Written:
    """Embed documents in their passages, each id at most once, and write those that the model did not fail on.

    Durable on return.

    Raises: StorageFull: there is no room for them; nothing changed.  What `embedded` does.
    """
    kept, batch = await embedded(documents, embedder)
    revision = await runtime.write(runtime.collections.put, runtime.collection_name, kept, batch.embeddings)
    failed = {position: str(error) for position, error in batch.failed.items()}
    truncated = [documents[position].id for position in batch.truncated if position not in failed]
    return Written(len(kept), revision, failed, truncated, batch)
