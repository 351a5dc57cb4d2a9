"""GET /docs: the page that describes the routes, without another host. Knows its files; knows no route's work."""

from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import JSONResponse, RedirectResponse

from service.http.dependencies import RuntimeDependency
from service.http.json_route import JsonRoute

STATIC_PATH = "/docs/static"
STATIC_FILES = Path(fastapi_offline.__file__).parent / "static"

router = APIRouter(include_in_schema=False, route_class=JsonRoute)
root_router = APIRouter(include_in_schema=False, route_class=JsonRoute)  # where there is no page at GET /


@router.get("/docs")
async def docs(runtime: RuntimeDependency) -> Response:
    """Swagger's page; its scripts come from a package, not from a CDN."""
    root = runtime.settings.root_path
    return get_swagger_ui_html(
        title="crosslet",
        openapi_url=f"{root}/openapi.json",
        swagger_js_url=f"{root}{STATIC_PATH}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{STATIC_PATH}/swagger-ui.css",
        swagger_favicon_url=f"{root}{STATIC_PATH}/favicon.png",
    )


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """What the page shows; made when it is first asked for."""
    return JSONResponse(request.app.openapi())


@root_router.get("/")
async def to_docs(runtime: RuntimeDependency) -> Response:
    """Lead to the page, with whatever scheme and host the client has used."""
    root = runtime.settings.root_path
    return RedirectResponse(f"{root}/docs" if root else "docs")  # a prefix that nobody has set may be there, too
