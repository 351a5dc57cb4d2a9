"""Imports the server, and with it the web framework. Knows what of it a start does not need."""

import pydantic


def import_server() -> None:
    """Import `service.server`, but do not make what FastAPI's models of OpenAPI validate with: that is for /docs alone.

    It is a quarter of FastAPI's import. Models that are declared meanwhile inherit pydantic's `defer_build`; they are
    made complete when first used.
    """
    pydantic.BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401
    finally:
        del pydantic.BaseModel.model_config["defer_build"]
    import service.server  # noqa: F401
