"""What browsers open: the search page at GET /, Swagger UI at GET /docs without a CDN, GET /openapi.json."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import get_args

import fastapi_offline
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy
from service.api.request import RuntimeDependency
from service.documents.names import Mode
from service.errors import NotFound
from service.runtime import Runtime

STATIC_PATH = "/docs/static"
STATIC_FILES = Path(fastapi_offline.__file__).parent / "static"
# Swagger UI has a dark style, but turns it on only in a layout with a bar that has its switch.
COLOUR_SCHEME = """<meta name="color-scheme" content="light dark">
    <script>
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
    dark.addEventListener("change", follow);
    follow();
    </script>
    """

PAGE_FILES = Path(__file__).resolve().parents[2] / "web"
PAGE_PATH = "/page"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml"}
# Nothing from another host, no script or style in the page itself, no HTML made of text.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE_HEADERS = {
    "cache-control": "no-cache",  # kept, but asked for again: an update must not mix old scripts with new ones
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

docs_router = APIRouter(include_in_schema=False, route_class=JsonRoute)
root_router = APIRouter(include_in_schema=False, route_class=JsonRoute)  # where there is no page at GET /
page_router = APIRouter(include_in_schema=False, route_class=JsonRoute)


@docs_router.get("/docs")
@Policy(Access.PUBLIC)
async def docs(runtime: RuntimeDependency) -> Response:
    """Swagger UI; its scripts are in an installed package."""
    root = runtime.settings.root_path
    page = get_swagger_ui_html(
        title="crosslet",
        openapi_url=f"{root}/openapi.json",
        swagger_js_url=f"{root}{STATIC_PATH}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{STATIC_PATH}/swagger-ui.css",
        swagger_favicon_url=f"{root}{STATIC_PATH}/favicon.png",
    )
    return HTMLResponse(bytes(page.body).decode().replace("<title>", f"{COLOUR_SCHEME}<title>"))


@docs_router.get("/openapi.json")
@Policy(Access.PUBLIC)
async def openapi(request: Request) -> Response:
    """The OpenAPI schema, built on the first request."""
    return JSONResponse(request.app.openapi())


@root_router.get("/")
@Policy(Access.PUBLIC)
async def to_docs(runtime: RuntimeDependency) -> Response:
    """Redirect to /docs, keeping the client's scheme and host."""
    root = runtime.settings.root_path
    return RedirectResponse(f"{root}/docs" if root else "docs")  # relative: a proxy may add a prefix that is not set


@page_router.get("/")
@Policy(Access.PUBLIC)
async def page(request: Request, runtime: RuntimeDependency) -> Response:
    """The page for whoever accepts HTML; other clients are led to /docs."""
    accepted = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")}
    if "text/html" not in accepted:
        answer = await to_docs(runtime)
    else:
        content = await asyncio.to_thread((PAGE_FILES / "index.html").read_bytes)
        answer = _file(request, _filled_in(content, runtime), "text/html")
    answer.headers["vary"] = "Accept"
    return answer


@page_router.get(f"{PAGE_PATH}/{{name}}")
@Policy(Access.PUBLIC)
async def page_file(name: str, request: Request) -> Response:
    """A script, a style, an icon or the words of a language; read from the disk each time: they are small."""
    path = PAGE_FILES / name
    if path.suffix not in MEDIA_TYPES or name not in await asyncio.to_thread(os.listdir, PAGE_FILES):
        raise NotFound("the page has no such file")
    return _file(request, await asyncio.to_thread(path.read_bytes), MEDIA_TYPES[path.suffix])


def _filled_in(page: bytes, runtime: Runtime) -> bytes:
    """Fill in what depends on the service: where its paths begin, and the modes of a search, the default first."""
    root_path, own = runtime.settings.root_path, runtime.default_mode
    # Without a prefix, paths are relative: a proxy may add one that is not set.
    base = f"{root_path}/" if root_path else "./"
    modes = [own, *(mode for mode in get_args(Mode) if mode != own and runtime.collections.has_keywords)]
    return page.replace(b"{base}", base.encode()).replace(b"{modes}", " ".join(modes).encode())


def _file(request: Request, content: bytes, media_type: str) -> Response:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**PAGE_HEADERS, "etag": etag}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
