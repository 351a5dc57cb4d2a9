"""Assembles the application: routes, middleware, error handlers, lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from service.api.access import BEARER, AccessCheck, Cors
from service.api.body_limit import BodyLimit
from service.api.request_log import RequestLog
from service.api.response_limit import ResponseLimit
from service.api.responses import NO_SUCH_ROUTE, on_http_error, on_service_error, on_validation_error
from service.api.routes import (
    backup,
    cohere,
    collections,
    documents,
    embed,
    health,
    ollama,
    openai,
    pages,
    rerank,
    search,
    similarity,
    tokenize,
)
from service.api.routes.backup import Backups
from service.api.routing import Dispatch, PathPrefix, RouteTable
from service.errors import ServiceError, StartError
from service.process.files import resolved
from service.runtime import Runtime
from service.version import VERSION

ROUTERS = [
    module.router
    for module in (
        *(embed, similarity, tokenize, openai, cohere, ollama, rerank),
        *(search, documents, collections, backup),
    )
]
DESCRIPTION = """Small cross-lingual sentence encoders, served from little memory.

A text becomes a vector of norm 1; texts with the same meaning are near each other, whatever their languages."""


def create_app(runtime: Runtime) -> FastAPI:
    """Return the ASGI application of a loaded runtime. Its lifespan starts the workers and closes the runtime."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runtime.start()
        async with AsyncExitStack() as opened:
            if runtime.settings.mcp:
                from service.api.routes.mcp import answering

                await opened.enter_async_context(answering(app, runtime))
            yield
        await asyncio.to_thread(runtime.close)

    app = _framework(
        runtime,
        servers=[{"url": runtime.settings.root_path}] if runtime.settings.root_path else [],  # the prefix of all paths
        title="crosslet",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
    )
    app.state.backups = Backups(resolved(runtime.settings.documents_path), runtime.collections.check_files)
    for router in ROUTERS:
        app.include_router(router, dependencies=[BEARER])
    at_root = pages.page_router if runtime.settings.page else pages.root_router
    others = [health.router, pages.docs_router, at_root]
    if not runtime.settings.metrics_port:
        others.append(health.metrics_router)
    if runtime.settings.mcp:  # here: it needs an extra, and 28 MiB
        from service.api.routes.mcp import router as mcp_router

        others.append(mcp_router)
    for router in others:
        app.include_router(router)
    app.mount(pages.STATIC_PATH, StaticFiles(directory=pages.STATIC_FILES))
    _add_layers(app, runtime, _routes_of(*ROUTERS, *others))
    return app


def create_metrics_app(runtime: Runtime) -> FastAPI:
    """Return the application that serves /metrics on a port of its own, without a key, under any host name."""
    app = _framework(runtime)
    app.include_router(health.metrics_router)
    app.add_middleware(Dispatch, unknown="this port serves only GET /metrics (CROSSLET_METRICS_PORT)")
    app.add_middleware(AccessCheck, hosts=None)
    app.add_middleware(RequestLog, metrics=runtime.metrics, table=RouteTable(_routes_of(health.metrics_router)))
    return app


def _framework(runtime: Runtime, **options: Any) -> FastAPI:
    app = FastAPI(
        openapi_url=None,  # served by routes/pages.py
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # else FastAPI looks it up on every request
        **options,
    )
    app.state.runtime = runtime
    app.add_exception_handler(ServiceError, on_service_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)
    return app


def _add_layers(app: FastAPI, runtime: Runtime, routes: list[Route]) -> None:
    settings = runtime.settings
    # Added last, called first: prefix -> traces -> log -> CORS -> response limit -> gzip -> access -> body -> routes.
    # Host, key and origin are checked before the body is read.
    mounts = [route for route in app.routes if isinstance(route, Mount)]
    app.add_middleware(Dispatch, unknown=NO_SUCH_ROUTE)
    app.add_middleware(
        BodyLimit,
        max_body_bytes=settings.max_body_bytes,
        max_inflight_bytes=settings.max_inflight_bytes,
        body_timeout_s=settings.body_timeout_s,
        check_memory=runtime.memory.check_body,
    )
    app.add_middleware(
        AccessCheck,
        keys=settings.keys(),
        metrics_open=settings.metrics_need_no_key,
        hosts=settings.hosts(),
        origins=settings.origins(),
    )
    if settings.gzip_min_bytes:
        # Level 1: vectors are random decimals; higher levels take much longer and save little.
        app.add_middleware(GZipMiddleware, minimum_size=settings.gzip_min_bytes, compresslevel=1)
    app.add_middleware(ResponseLimit, max_unread_bytes=settings.max_unread_bytes)
    log = partial(RequestLog, metrics=runtime.metrics, table=RouteTable([*routes, *mounts]))
    if origins := settings.origins():
        methods = sorted({"HEAD", "OPTIONS"}.union(*(route.methods or () for route in routes)))
        cors = partial(Cors, origins=origins, methods=methods)
        app.add_middleware(cors)
        app.add_middleware(log, answer_through=cors)
    else:
        app.add_middleware(log)
    if runtime.traces is not None:  # imported where they are on: they need an extra
        from service.api.request_tracing import RequestTracing

        app.add_middleware(RequestTracing, traces=runtime.traces)
    if settings.root_path:
        _check_prefix(settings.root_path, routes)
        app.add_middleware(PathPrefix, prefix=settings.root_path)


def _check_prefix(prefix: str, routes: list[Route]) -> None:
    # /api is a usual prefix: behind it, Ollama's routes need a proxy that does not strip it (/api/api/embed).
    taken = sorted({f"/{route.path.split('/')[1]}" for route in routes} - {"/", "/api"})
    if f"/{prefix.split('/')[1]}" in taken:  # a path would be ambiguous: the proxy may or may not cut the prefix off
        raise StartError(
            f"CROSSLET_ROOT_PATH is {prefix}, which begins like a route; it must not begin with {', '.join(taken)}"
        )


def _routes_of(*routers: APIRouter) -> list[Route]:
    return [route for router in routers for route in router.routes if isinstance(route, Route)]
