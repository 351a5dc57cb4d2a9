"""Imports the server and FastAPI, leaving out what the start does not need."""

import pydantic


def import_server() -> None:
    """Import `service.api.server` without building the validators of FastAPI's OpenAPI models, which only /docs needs.

    They take a quarter of FastAPI's import time. Models declared meanwhile inherit pydantic's `defer_build` and are
    built on first use.
    """
    pydantic.BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401
    finally:
        del pydantic.BaseModel.model_config["defer_build"]
    import service.api.server  # noqa: F401
