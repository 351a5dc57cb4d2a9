"""PUT, GET, PATCH and DELETE /documents; listing, counting and deleting by filter."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from service.api.document_writing import patch_own_fields, split_documents, write_documents
from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import Embedder, EmbedderDependency, RuntimeDependency, cost_headers, receive_nothing
from service.api.responses import dump_json, dumped_response, fields_of, json_response
from service.api.routes.openapi import BODY_ERRORS, answers, inference
from service.api.routes.search import check_facets, counted
from service.api.schemas.documents import (
    CountDocumentsRequest,
    CountDocumentsResponse,
    DeleteDocumentsRequest,
    DeleteDocumentsResponse,
    DocumentIn,
    DocumentOut,
    DocumentsPage,
    PatchDocumentRequest,
    PatchDocumentResponse,
    PutDocumentsRequest,
    PutDocumentsResponse,
    checked_metadata,
    document_in,
)
from service.api.uploads import Upload
from service.documents.collections import Versions
from service.documents.document import Document, StoredDocument
from service.documents.filters import comparable
from service.documents.interface import PageRequest
from service.documents.own_fields import OwnFields
from service.errors import InvalidInput, NotFound
from service.json_parsing import loads, not_unicode
from service.model.stages import StageTimer
from service.runtime import Runtime, Steps

router = APIRouter(prefix="/documents", tags=["documents"], route_class=JsonRoute)

DocumentIdInPath = Annotated[str, Path(description="The document's id; it may hold slashes.", examples=["de/1"])]
DOCUMENTS_PATH = re.compile(rb"(?:/collections/[^/]+)?/documents/")  # before an id; an id may look like it
LARGEST_ROW = 2**63 - 1
LINE = '{"id": "de/1", "text": "Ein Mann spielt Gitarre.", "metadata": {"lang": "de"}}\n'
LINES_CONTENT = {"application/x-ndjson": {"schema": {"type": "string"}, "example": LINE}}
MAX_PAGE_CHARS = 4_000_000  # of texts and metadata; as much as the default limit on a body


async def put_lines(request: Request, runtime: RuntimeDependency) -> Response:
    """Store documents while they arrive, a line each; the answer comes after the last."""
    embedder = Embedder(Request(request.scope, receive_nothing))  # the upload notices when the client leaves
    report = await Upload(runtime, embedder).run(request.stream())
    return json_response(report.answer, headers=report.headers)


@router.put(
    "",
    response_model=PutDocumentsResponse,
    responses=inference(403, 409, 507),
    summary="Insert or replace documents",
    openapi_extra={"requestBody": {"content": LINES_CONTENT}},
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True, lines=put_lines)
async def put_documents(
    body: PutDocumentsRequest, embedder: EmbedderDependency, runtime: RuntimeDependency
) -> Response:
    """Embed and store documents. Idempotent. The answer comes once they are on disk.

    A document that is longer than the model reads is split into passages with a vector each, unless `chunk` is false.

    The first documents of a named collection make it. A collection with `text` takes documents with their own fields.

    As application/x-ndjson the body may be of any length, with a document a line: they are stored while it arrives,
    and those that are there already are not embedded again.

    If the model fails on some texts, the other documents are stored and `failed` names these; their earlier versions
    stay. If it fails on all, the request fails.
    """
    own_fields = await runtime.own_fields()
    given = body.documents
    if own_fields is not None:
        embedder.check_count(len(body.own), name="documents")
        reading = _own_documents(body.own, own_fields, runtime)
        given = await embedder.prepare(reading, what="reading documents", way_out="send fewer documents")
    elif not body.documents and body.refusal:
        raise RequestValidationError([{**error, "loc": ("body", *error["loc"])} for error in body.refusal])
    _check_ids_differ(given)
    documents = [Document(document.id, document.text, document.metadata) for document in given]
    documents = await split_documents(documents, embedder, runtime, chunk=body.chunk)
    written = await write_documents(documents, Versions(own_fields), embedder=embedder, runtime=runtime)
    answer: dict[str, object] = {"upserted": written.stored, "revision": written.revision}
    if written.truncated:
        answer["truncated"] = written.truncated
    if written.failed:
        failed = written.failed.items()
        answer["failed"] = [{"id": documents[position].id, "error": error} for position, error in failed]
    return json_response(answer, headers=cost_headers(written.cost))


@router.get("", response_model=DocumentsPage, responses=answers(401, 403, 422, 429, 503), summary="List documents")
@Policy(Access.READ, Reach.COLLECTION, strict=True)
async def list_documents(
    runtime: RuntimeDependency,
    cursor: Annotated[
        str, Query(description="`next_cursor` of the previous page; empty for the first.", examples=["12"])
    ] = "",
    limit: Annotated[int, Query(ge=1, description="Maximum number of documents to return.", examples=[100])] = 100,
    filter_: Annotated[
        str | None,
        Query(alias="filter", description="Conditions on the metadata, as JSON.", examples=['{"lang": "de"}']),
    ] = None,
    truncated: Annotated[
        bool, Query(description="Whether to list only documents whose text was cut.", examples=[False])
    ] = False,
) -> Response:
    """Documents in the order they were first inserted, page by page; with a filter, only those that match.

    `truncated=true` lists the documents of which the model read only the beginning, as the answer to their PUT said.
    """
    settings = runtime.settings
    if limit > settings.max_top_k:
        raise InvalidInput(f"limit is {limit}; the limit is {settings.max_top_k} (CROSSLET_MAX_TOP_K)")
    request = PageRequest(
        filter_=_filter_in(filter_),
        after_row=_row_of(cursor),
        limit=limit,
        max_chars=MAX_PAGE_CHARS,
        timeout_s=settings.request_timeout_s,
        truncated=truncated,
    )
    collection = runtime.collection

    def read() -> bytes:
        with StageTimer("store"):
            page = collection.page(request)
        next_cursor = None if page.next_row is None else str(page.next_row)
        total = len(collection) if page.total is None else page.total
        documents = [fields_of(document, *DocumentOut.model_fields) for document in page.documents]
        return dump_json({"documents": documents, "next_cursor": next_cursor, "total": total})

    return dumped_response(await runtime.read(read))


@router.post(
    "/count",
    response_model=CountDocumentsResponse,
    responses=answers(*BODY_ERRORS, 403, 503),
    summary="Count documents",
)
@Policy(Access.READ, Reach.COLLECTION, strict=True)
async def count_documents(body: CountDocumentsRequest, runtime: RuntimeDependency) -> Response:
    """The number of documents, or of those that match a filter; with `facets`, by the values of fields as well."""
    check_facets(body.facets, runtime)
    return json_response(await runtime.read(counted, runtime, body.facets, body.filter))


@router.post(
    "/delete",
    response_model=DeleteDocumentsResponse,
    responses=answers(*BODY_ERRORS, 403, 503, 507),
    summary="Remove several documents",
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True)
async def delete_documents(body: DeleteDocumentsRequest, runtime: RuntimeDependency) -> Response:
    """Remove documents by id, or all that match a filter."""
    if body.ids is not None:
        deleted = await runtime.write(runtime.collection.delete, body.ids)
    else:
        delete, limit_s = runtime.collection.delete_matching, runtime.settings.request_timeout_s
        deleted = await runtime.write(delete, body.filter or {}, timeout_s=limit_s)
    return json_response({"deleted": deleted})


# `path`: an id may hold slashes.
@router.get(
    "/{document_id:path}",
    response_model=DocumentOut,
    responses=answers(401, 403, 404, 429, 503),
    summary="Read a document",
)
@Policy(Access.READ, Reach.COLLECTION, strict=True)
async def get_document(request: Request, document_id: DocumentIdInPath, runtime: RuntimeDependency) -> Response:
    """One document by its id."""
    collection, id_ = runtime.collection, _id_in(request)

    def read() -> StoredDocument | None:
        with StageTimer("store"):
            return collection.get(id_)

    document = await runtime.read(read)
    if document is None:
        raise NotFound("no document has this id")
    return json_response(fields_of(document, *DocumentOut.model_fields))


@router.patch(
    "/{document_id:path}",
    response_model=PatchDocumentResponse,
    responses=inference(403, 404, 409, 507),
    summary="Change a document's metadata",
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True)
async def patch_document(
    request: Request,
    document_id: DocumentIdInPath,
    body: PatchDocumentRequest,
    embedder: EmbedderDependency,
    runtime: RuntimeDependency,
) -> Response:
    """Change some of a document's metadata. Its text stays, and nothing is embedded.

    In a collection with `text`, these are its own fields: if the text that they make changes, it is embedded.
    """
    id_ = _id_in(request)
    change = partial(patched, patch=body.metadata, max_bytes=runtime.settings.max_body_bytes)
    if await runtime.own_fields() is None:
        revision, cost = await runtime.update_metadata(id_, change), None
    else:
        revision, cost = await patch_own_fields(id_, change, embedder=embedder, runtime=runtime)
    if revision is None:
        raise NotFound("no document has this id")
    return json_response({"revision": revision}, headers=None if cost is None else cost_headers(cost))


@router.delete(
    "/{document_id:path}",
    response_model=DeleteDocumentsResponse,
    responses=answers(401, 403, 404, 503, 507),
    summary="Remove a document",
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True)
async def delete_document(request: Request, document_id: DocumentIdInPath, runtime: RuntimeDependency) -> Response:
    """Remove one document by its id."""
    deleted = await runtime.write(runtime.collection.delete, [_id_in(request)])
    if not deleted:
        raise NotFound("no document has this id")
    return json_response({"deleted": deleted})


def _own_documents(documents: Sequence[object], own_fields: OwnFields, runtime: Runtime) -> Steps[list[DocumentIn]]:
    """Read documents with their own fields, step by step. Raises: InvalidInput: one is none; they are too long."""
    settings, given, chars = runtime.settings, [], 0
    for position, fields in enumerate(documents):
        try:
            given.append(document_in(fields, max_text_chars=settings.max_text_chars, own_fields=own_fields))
        except InvalidInput as exc:
            raise exc.at(f"documents[{position}]:") from exc
        chars += len(given[-1].text)
        if chars > settings.max_body_bytes:  # a template may repeat what a body has once
            raise InvalidInput(
                f"the texts of documents have more than {settings.max_body_bytes} characters up to position "
                f"{position} (CROSSLET_MAX_BODY_BYTES); send fewer documents"
            )
        yield
    return given


def _check_ids_differ(documents: list[DocumentIn]) -> None:
    first: dict[str, int] = {}
    for position, document in enumerate(documents):
        if first.setdefault(document.id, position) != position:
            raise InvalidInput(
                f"documents[{position}].id repeats documents[{first[document.id]}].id; send each id once"
            )


def _row_of(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20 and int(cursor) <= LARGEST_ROW):
        raise InvalidInput("cursor is not the next_cursor of a page")
    return int(cursor)


def _filter_in(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        filter_ = loads(text.encode())
    except orjson.JSONDecodeError as exc:
        raise InvalidInput(not_unicode(text.encode(), root="filter") or "filter is not valid JSON") from exc
    if not isinstance(filter_, dict):
        raise InvalidInput('filter is not a JSON object; send one like {"lang": "de"}')
    return filter_


def _id_in(request: Request) -> str:
    """Return the id in a URL, from the raw bytes: in the path the server replaces what is not UTF-8.

    Raises: NotFound: the id is not UTF-8, so no document has it.
    """
    path: bytes = unquote_to_bytes(request.scope["raw_path"])
    try:
        return DOCUMENTS_PATH.split(path, maxsplit=1)[-1].decode()
    except UnicodeDecodeError as exc:
        raise NotFound("no document has this id") from exc


def merged(before: object, patch: object) -> Any:
    """Return `before` with what the patch sets; null removes a key, an object changes the keys in it.

    A key is found in another spelling, as filters find it: é as one character, or as e with an accent.
    """
    if not isinstance(patch, Mapping):
        return patch
    after = dict(before) if isinstance(before, Mapping) else {}
    spellings = {comparable(key): key for key in after}
    for given, value in patch.items():
        key = given if given in after else spellings.setdefault(comparable(given), given)
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


def patched(
    before: dict[str, Any], own_fields: OwnFields | None = None, *, patch: Mapping[str, Any], max_bytes: int
) -> dict[str, Any]:
    """Return the patched metadata of a document. own_fields: what is kept of its own fields; None: it has none.

    Raises: InvalidInput: they are over a limit, which many small patches could pass; or the id would change.
    """
    after: dict[str, Any] = checked_metadata(merged(before, patch))
    if own_fields is not None:
        if "id" in patch:
            raise InvalidInput("metadata.id: an id stays; put the document with the other id, and delete this one")
        after = own_fields.kept(after)
    size_bytes = len(orjson.dumps(after))
    if size_bytes > max_bytes:
        raise InvalidInput(
            f"the metadata would have {size_bytes} bytes; the limit is {max_bytes} (CROSSLET_MAX_BODY_BYTES)"
        )
    return after
