"""The JSON of OpenAI's routes, described field by field."""

from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from service.api.schemas.embed import GUITAR, Listed, VectorOptions, described, optional
from service.api.schemas.foreign_options import VECTORS

TokenId = Annotated[int, Field(strict=True)]
TokenIds = Annotated[tuple[TokenId, ...], Field(fail_fast=True)]
OPENAI_EMBEDDING = {"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}


def _kind_of_input(given: object) -> str | None:
    """What `input` holds, by its first element. These tags are no identifiers: messages leave them out."""
    if not isinstance(given, list):
        return "a-text" if isinstance(given, str) else None
    kinds = {str: "of-texts", int: "of-ids", list: "of-id-lists"}
    return kinds.get(type(given[0])) if given else "of-texts"


class OpenAIEmbeddingsRequest(VectorOptions):
    """OpenAI's request for embeddings, with the options of /embed."""

    refused = VECTORS

    input: Annotated[
        Annotated[str, Tag("a-text")]
        | Annotated[Listed[str], Tag("of-texts")]
        | Annotated[TokenIds, Tag("of-ids")]
        | Annotated[Listed[TokenIds], Tag("of-id-lists")],
        Discriminator(
            _kind_of_input,
            custom_error_type="kind_of_input",
            custom_error_message="send a text, a list of texts, the token ids of a text, or a list of those",
        ),
    ] = described("A text or texts, or token ids as CROSSLET_TOKEN_IDS allows.", GUITAR)
    model: str | None = described("Any name: there is only one model, which the answer names.", "default", default="")
    encoding_format: Literal["float", "base64"] | None = described(
        "base64: little-endian float32; null means float.", default="float"
    )
    user: str | None = optional("Accepted, but not used.", "me")


class OpenAIEmbedding(BaseModel):
    """One vector of OpenAI's answer."""

    object: Literal["embedding"] = described("Always embedding.", "embedding")
    index: int = described("Position of the input.", 0)
    embedding: list[float] | str = described("Numbers, or base64.", [0.1, -0.2])


class OpenAIUsage(BaseModel):
    """The tokens of the request."""

    prompt_tokens: int = described("Tokens read by the model.", 9)
    total_tokens: int = described("The same.", 9)


class OpenAIEmbeddingsResponse(BaseModel):
    """OpenAI's answer."""

    object: Literal["list"] = described("Always list.", "list")
    data: list[OpenAIEmbedding] = described("One entry for each input, in order.", [OPENAI_EMBEDDING])
    model: str = described("The model that answered.", "default")
    usage: OpenAIUsage = described("Token counts.", {"prompt_tokens": 9, "total_tokens": 9})


class OpenAIModel(BaseModel):
    """A model, as OpenAI describes one."""

    id: str = described("Its name.", "default")
    object: Literal["model"] = described("Always model.", "model")
    created: int = described("When it was exported, in seconds since 1970; 0: unknown.", 1767225600)
    owned_by: str = described("Always crosslet.", "crosslet")


class OpenAIModels(BaseModel):
    """OpenAI's list of models."""

    object: Literal["list"] = described("Always list.", "list")
    data: list[OpenAIModel] = described(
        "The one model, by its name and by one with `embed` in it.",
        [{"id": "default", "object": "model", "created": 1767225600, "owned_by": "crosslet"}],
    )


class OpenAIError(BaseModel):
    """An error, in OpenAI's shape."""

    message: str = described(
        "One sentence; for a limit it gives both numbers and the setting.",
        "input has 3000 texts; the limit is 2048 (CROSSLET_MAX_OPENAI_TEXTS)",
    )
    type: str = described("OpenAI's kind of error.", "invalid_request_error")
    param: None = described("Always null.", None)
    code: str = described("The error_type of the other routes.", "Validation")


class OpenAIErrorResponse(BaseModel):
    """The body of every error on OpenAI's routes."""

    error: OpenAIError = described(
        "What went wrong.",
        {"message": "input is empty", "type": "invalid_request_error", "param": None, "code": "Validation"},
    )
