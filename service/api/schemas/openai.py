"""The JSON of OpenAI's routes, described field by field."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.api.schemas.embed import GUITAR, Listed, VectorOptions
from service.api.schemas.foreign_options import VECTORS

TokenId = Annotated[int, Field(strict=True)]
TokenIds = Annotated[tuple[TokenId, ...], Field(fail_fast=True)]
OPENAI_EMBEDDING = {"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}


class OpenAIEmbeddingsRequest(VectorOptions):
    """OpenAI's request for embeddings, with the options of /embed."""

    refused = VECTORS

    input: str | Listed[str] | TokenIds | Listed[TokenIds] = Field(
        description="A text or texts; with CROSSLET_TOKEN_IDS also token ids of this model's tokenizer.",
        examples=[GUITAR],
    )
    model: str | None = Field(
        "", description="Any name: there is only one model, which the answer names.", examples=["default"]
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        "float", description="base64: little-endian float32; null means float.", examples=["float"]
    )
    user: str | None = Field(None, description="Accepted, but not used.", examples=["me"])


class OpenAIEmbedding(BaseModel):
    """One vector of OpenAI's answer."""

    object: Literal["embedding"] = Field(description="Always embedding.", examples=["embedding"])
    index: int = Field(description="Position of the input.", examples=[0])
    embedding: list[float] | str = Field(description="Numbers, or base64.", examples=[[0.1, -0.2]])


class OpenAIUsage(BaseModel):
    """The tokens of the request."""

    prompt_tokens: int = Field(description="Tokens read by the model.", examples=[9])
    total_tokens: int = Field(description="The same.", examples=[9])


class OpenAIEmbeddingsResponse(BaseModel):
    """OpenAI's answer."""

    object: Literal["list"] = Field(description="Always list.", examples=["list"])
    data: list[OpenAIEmbedding] = Field(
        description="One entry for each input, in order.", examples=[[OPENAI_EMBEDDING]]
    )
    model: str = Field(description="The model that answered.", examples=["default"])
    usage: OpenAIUsage = Field(description="Token counts.", examples=[{"prompt_tokens": 9, "total_tokens": 9}])


class OpenAIModel(BaseModel):
    """A model, as OpenAI describes one."""

    id: str = Field(description="Its name.", examples=["default"])
    object: Literal["model"] = Field(description="Always model.", examples=["model"])
    created: int = Field(description="When it was exported, in seconds since 1970; 0: unknown.", examples=[1767225600])
    owned_by: str = Field(description="Always crosslet.", examples=["crosslet"])


class OpenAIModels(BaseModel):
    """OpenAI's list of models."""

    object: Literal["list"] = Field(description="Always list.", examples=["list"])
    data: list[OpenAIModel] = Field(
        description="The one model.",
        examples=[[{"id": "default", "object": "model", "created": 1767225600, "owned_by": "crosslet"}]],
    )


class OpenAIError(BaseModel):
    """An error, in OpenAI's shape."""

    message: str = Field(
        description="One sentence; for a limit it gives both numbers and the setting.",
        examples=["input has 3000 texts; the limit is 2048 (CROSSLET_MAX_OPENAI_TEXTS)"],
    )
    type: str = Field(description="OpenAI's kind of error.", examples=["invalid_request_error"])
    param: None = Field(description="Always null.", examples=[None])
    code: str = Field(description="The error_type of the other routes.", examples=["Validation"])


class OpenAIErrorResponse(BaseModel):
    """The body of every error on OpenAI's routes."""

    error: OpenAIError = Field(
        description="What went wrong.",
        examples=[{"message": "input is empty", "type": "invalid_request_error", "param": None, "code": "Validation"}],
    )
