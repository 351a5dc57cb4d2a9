"""GET /health, /ready, /metrics and /info; none of them enters the queue."""

import asyncio

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.api.access import BEARER
from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import RuntimeDependency
from service.api.responses import fields_of, json_response
from service.api.routes.collections import described
from service.api.routes.openapi import answers
from service.api.schemas.info import (
    ConfidenceInfo,
    InfoResponse,
    KeyInfo,
    Limits,
    ReportInfo,
    RerankerInfo,
    SpaceInfo,
    StatusResponse,
)
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME
from service.documents.report_file import read_summary
from service.errors import NotReady
from service.keys import FULL, READ_ONLY, Grant, Quota
from service.model.artifact import Manifest
from service.model.encoder import PASS_PLACES
from service.model.spaces import stored_as
from service.runtime import Runtime
from service.version import VERSION

router = APIRouter(tags=["operation"], route_class=JsonRoute)
metrics_router = APIRouter(tags=["operation"], route_class=JsonRoute)  # optionally on a port of its own

MODEL_FACTS = ["fingerprint", "dim", "max_length", "languages", "precision", "parameters", "prompts"]
MODEL_FACTS += ["default_prompt_name", "min_scores"]
METRICS_CONTENT = {CONTENT_TYPE_LATEST: {"schema": {"type": "string"}, "example": "crosslet_index_documents 200.0\n"}}


@router.get("/health", response_model=StatusResponse, responses=answers(), summary="Is the process alive?")
@Policy(Access.PROBE)
async def health() -> Response:
    """200 as long as the process answers."""
    return json_response({"status": "ok"})


@router.get(
    "/ready", response_model=StatusResponse, responses=answers(503), summary="Is the service ready for requests?"
)
@Policy(Access.PROBE)
async def ready(runtime: RuntimeDependency) -> Response:
    """200, or 503 with the reason: starting, shutting down, workers that make no progress, or a store that is gone."""
    trouble = runtime.trouble()
    if trouble is not None:
        raise NotReady(trouble)
    await asyncio.to_thread(runtime.collections.check_files)  # in a thread: a disk may not answer
    return json_response({"status": "ok"})


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses=answers(401, 403, content=METRICS_CONTENT),
    dependencies=[BEARER],
    summary="Prometheus metrics",
)
@Policy(Access.METRICS, Reach.ALL)
async def metrics(runtime: RuntimeDependency) -> Response:
    """Counters, gauges and histograms in Prometheus' text format."""
    # In a thread: counting documents may ask another process (Milvus). Not by `runtime.read`, whose queue may be full.
    return Response(await asyncio.to_thread(runtime.metrics.exposition), media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/info",
    response_model=InfoResponse,
    responses=answers(401, 429, 503),
    dependencies=[BEARER],
    summary="Describe the service",
)
@Policy(Access.READ, Reach.REACHED)
async def info(runtime: RuntimeDependency) -> Response:
    """The model, the limits in force and the index."""
    manifest, settings = runtime.manifest, runtime.settings
    collections = await runtime.read(described, runtime)
    default, index = next((one for one in collections if one["name"] == DEFAULT_NAME), None), None
    if default is not None:
        index = {name: value for name, value in default.items() if name != "name"}
        index["report"] = await runtime.read(_report, runtime)
    return json_response(
        {
            "model": manifest.name,
            "is_fallback": runtime.refused is not None,
            **fields_of(manifest, *MODEL_FACTS),
            **tei_facts(runtime, manifest),
            "model_id": manifest.name,
            "auto_truncate": settings.long_texts != "refuse",
            "long_texts": settings.long_texts,
            "model_type": {"embedding": {"pooling": "graph"}},
            "white_space_stripped_by": "model" if runtime.encoder.strips_white_space else "service",
            "spaces": [fields_of(space, *SpaceInfo.model_fields) for space in manifest.spaces],
            "confidence": None if manifest.confidence is None else fields_of(settings, *ConfidenceInfo.model_fields),
            "document_space": settings.space or None,
            "reranker": _reranker(runtime),
            "limits": fields_of(settings, *Limits.model_fields),
            "index": index,
            "collections": collections,
            "key": _key(runtime.grant),
        }
    )


def tei_facts(runtime: Runtime, manifest: Manifest) -> dict[str, object]:
    """Return what both of TEI's /info have of a model."""
    return {
        "model_sha": manifest.fingerprint,
        "model_dtype": manifest.precision,
        "max_concurrent_requests": runtime.settings.max_queue_texts,
        "max_input_length": manifest.max_length,
        "max_batch_tokens": max(manifest.max_length, PASS_PLACES * runtime.encoder.shares_passes),
        "max_client_batch_size": runtime.settings.max_texts,
        "tokenization_workers": runtime.pool.workers,
        "version": VERSION,
    }


def _key(grant: Grant) -> dict[str, object] | None:
    """Return what a key of some collections, or with limits, may do; None: everything, or reading everything."""
    if grant in {FULL, READ_ONLY}:
        return None
    quota = grant.quota or Quota()
    names = {
        name: None if allowed is None else sorted(allowed)
        for name, allowed in vars(grant).items()
        if name in KeyInfo.model_fields
    }
    return names | fields_of(quota, "max_documents", "max_bytes")


def _report(runtime: Runtime) -> dict[str, object] | None:
    """Return the summary of the last `crosslet index report`, if there is one."""
    if runtime.settings.index != EMBEDDED:
        return None
    stored = stored_as(runtime.manifest, runtime.settings.space)
    summary = read_summary(runtime.settings.data, fingerprint=stored.fingerprint)
    return None if summary is None else fields_of(summary, *ReportInfo.model_fields)


def _reranker(runtime: Runtime) -> dict[str, object] | None:
    if runtime.reranker is None:
        return None
    facts = fields_of(runtime.reranker.manifest, *(RerankerInfo.model_fields.keys() - {"weight"}))
    return facts | {"weight": runtime.settings.rerank_weight}
