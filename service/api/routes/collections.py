"""/collections: lists, sets up and drops collections, and has each one's documents and searches below its name."""

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from fastapi.routing import APIRoute

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import RuntimeDependency
from service.api.responses import fields_of, json_response
from service.api.routes import documents, search
from service.api.routes.openapi import BODY_ERRORS, answers
from service.api.schemas.info import CollectionInfo, CollectionsOut, DropCollectionResponse, PutCollectionRequest
from service.documents.interface import DocumentIndex
from service.documents.names import LONGEST_NAME
from service.documents.own_fields import OwnFields
from service.errors import NotFound
from service.runtime import Runtime

CollectionInPath = Annotated[
    str,
    Path(
        description=f"The collection's name: up to {LONGEST_NAME} English letters, digits and . _ -", examples=["shop"]
    ),
]


async def _documented(collection: CollectionInPath) -> None:
    """Describe the parameter in OpenAPI; `RuntimeDependency` reads it."""


router = APIRouter(prefix="/collections", tags=["collections"], route_class=JsonRoute)
NAMED = [Depends(_documented)]


@router.get("", response_model=CollectionsOut, responses=answers(401, 422, 429, 503), summary="List collections")
@Policy(Access.READ, Reach.REACHED, strict=True)
async def list_collections(runtime: RuntimeDependency) -> Response:
    """Every collection that the key reaches, with its documents and the memory of its index; the default one first."""
    return json_response({"collections": await runtime.read(described, runtime)})


@router.get(
    "/{collection}",
    dependencies=NAMED,
    response_model=CollectionInfo,
    responses=answers(401, 403, 404, 422, 429, 503),
    summary="Read a collection",
)
@Policy(Access.READ, Reach.COLLECTION, strict=True)
async def get_collection(runtime: RuntimeDependency) -> Response:
    """One collection."""
    return json_response(await runtime.read(_described, runtime.collection_name, runtime.collection))


@router.put(
    "/{collection}",
    dependencies=NAMED,
    response_model=CollectionInfo,
    responses=answers(*BODY_ERRORS, 403, 409, 503, 507),
    summary="Make or set up a collection",
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True)
async def put_collection(body: PutCollectionRequest, runtime: RuntimeDependency) -> Response:
    """Say what the collection takes of documents with their own fields; it is made if there is none.

    With documents in it, of `text` and `fields` only what it says already is accepted.
    """
    name, collections, sent = runtime.collection_name, runtime.collections, body.model_fields_set
    is_set = body.text is not None or body.fields is not None
    own_fields = OwnFields.parsed(body.text, body.fields) if is_set else None

    def set_up() -> None:
        # If of documents' fields nothing is said, they stay as they are by now.
        collections.configure(name, collections.own_fields(name) if sent == {"confidence"} else own_fields)
        if "confidence" in sent:
            collections.of(name).recalibrate(body.confidence)

    await runtime.write(set_up)
    return json_response(await runtime.read(_described, name, runtime.collection))


@router.delete(
    "/{collection}",
    dependencies=NAMED,
    response_model=DropCollectionResponse,
    responses=answers(401, 403, 404, 422, 503, 507),
    summary="Drop a collection",
)
@Policy(Access.WRITE, Reach.COLLECTION, strict=True)
async def drop_collection(runtime: RuntimeDependency) -> Response:
    """Remove a collection with all its documents. The default one stays."""
    name = runtime.collection_name
    documents = await runtime.write(runtime.collections.drop, name)
    runtime.metrics.forget(name)
    return json_response({"dropped": name, "documents": documents})


def described(runtime: Runtime) -> list[dict[str, object]]:
    """Describe every collection that the request reaches, for /collections and /info. Blocks."""
    collections = []
    for name, index in runtime.collections.named().items():
        if runtime.grant.may_read(name):
            with suppress(NotFound):  # it was dropped meanwhile
                collections.append(_described(name, index))
    return collections


def _described(name: str, index: DocumentIndex) -> dict[str, object]:
    own = index.own_fields
    settings = {"text": None, "fields": None} if own is None else fields_of(own, "text", "fields")
    counted = {"name": name, "documents": len(index)}  # first: Milvus is asked then
    counted |= settings | {"confidence": index.recalibration}
    return counted | fields_of(index, "backend", "has_keywords", "size_bytes", "recall")


for route in (*search.router.routes, *documents.router.routes):  # of the default collection
    if isinstance(route, APIRoute):
        router.add_api_route(
            f"/{{collection}}{route.path}",
            route.endpoint,
            methods=list(route.methods or ()),
            response_model=route.response_model,
            responses=answers(404) | route.responses,
            summary=route.summary,
            description=route.description,
            dependencies=NAMED,
            openapi_extra=route.openapi_extra,
        )
