"""GET /docs: Swagger UI, served without a CDN; GET /openapi.json."""

from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import JSONResponse, RedirectResponse

from service.api.dependencies import RuntimeDependency
from service.api.json_route import JsonRoute
from service.api.policy import Access, access

STATIC_PATH = "/docs/static"
STATIC_FILES = Path(fastapi_offline.__file__).parent / "static"

router = APIRouter(include_in_schema=False, route_class=JsonRoute)
root_router = APIRouter(include_in_schema=False, route_class=JsonRoute)  # where there is no page at GET /


@router.get("/docs")
@access(Access.PUBLIC)
async def docs(runtime: RuntimeDependency) -> Response:
    """Swagger UI; its scripts are in an installed package."""
    root = runtime.settings.root_path
    return get_swagger_ui_html(
        title="crosslet",
        openapi_url=f"{root}/openapi.json",
        swagger_js_url=f"{root}{STATIC_PATH}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{STATIC_PATH}/swagger-ui.css",
        swagger_favicon_url=f"{root}{STATIC_PATH}/favicon.png",
    )


@router.get("/openapi.json")
@access(Access.PUBLIC)
async def openapi(request: Request) -> Response:
    """The OpenAPI schema, built on the first request."""
    return JSONResponse(request.app.openapi())


@root_router.get("/")
@access(Access.PUBLIC)
async def to_docs(runtime: RuntimeDependency) -> Response:
    """Redirect to /docs, keeping the client's scheme and host."""
    root = runtime.settings.root_path
    return RedirectResponse(f"{root}/docs" if root else "docs")  # relative: a proxy may add a prefix that is not set
