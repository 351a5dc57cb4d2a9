"""Imports the web framework. Knows what of it a start does not need."""

import pydantic


def import_framework() -> None:
    """Import FastAPI, but do not make what its models of OpenAPI validate with: a quarter of its time, for /docs alone.

    Models that are declared meanwhile inherit pydantic's `defer_build`; they are made complete when first used.
    """
    pydantic.BaseModel.model_config["defer_build"] = True
    try:
        import fastapi  # noqa: F401
    finally:
        del pydantic.BaseModel.model_config["defer_build"]
