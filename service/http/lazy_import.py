"""Imports the server, and with it the web framework. Knows what of it a start does not need."""

import pydantic


def import_server() -> None:
    """Import `service.http.server` without the validators of FastAPI's OpenAPI models, which only /docs needs.

    They are a quarter of FastAPI's import. Models that are declared meanwhile inherit pydantic's `defer_build`, and
    are completed when first used.
    """
    pydantic.BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401
    finally:
        del pydantic.BaseModel.model_config["defer_build"]
    import service.http.server  # noqa: F401
