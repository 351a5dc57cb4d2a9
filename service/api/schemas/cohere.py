"""The JSON of Cohere's routes for embeddings, described field by field. Its re-ranking is in rerank.py."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.api.schemas.embed import (
    GUITAR,
    ErrorResponse,
    Listed,
    VectorOptions,
    Whole,
    described,
    optional,
    whole_example,
)
from service.api.schemas.foreign_options import COHERE_VECTORS
from service.api.schemas.rerank import RerankMeta, RerankTokens

EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]


class CohereEmbedRequest(VectorOptions):
    """Cohere's request for embeddings, with the options of /embed."""

    model_config = whole_example({"texts": [*GUITAR], "input_type": "search_document", "embedding_types": ["float"]})
    refused = COHERE_VECTORS
    dimensions_name = "output_dimension"

    texts: Listed[str] = described("The texts.", GUITAR)
    model: str | None = described("Any name: there is only one model.", "default", default="")
    embedding_types: Listed[EmbeddingType] | None = optional(
        "Forms of each vector. int8 and uint8 have one scale for all texts; binary and ubinary hold the signs, eight a "
        "byte; base64 is little-endian float32. null: float.",
        ["float", "int8"],
        min_length=1,
    )
    dimensions: Annotated[Whole | None, Field(alias="output_dimension")] = optional(
        "Number of first dimensions to keep, rescaled to norm 1; null keeps all.", 256, ge=1
    )


class EmbeddingsByType(BaseModel):
    """The vectors in the forms that were asked for."""

    float_: list[list[float]] | None = optional("As numbers of norm 1.", [[0.1, -0.2]], alias="float")
    int8: list[list[int]] | None = optional("In -127 to 127.", [[41, -83]])
    uint8: list[list[int]] | None = optional("int8 with 128 added.", [[169, 45]])
    binary: list[list[int]] | None = optional("ubinary with 128 subtracted.", [[0]])
    ubinary: list[list[int]] | None = optional("Eight signs a byte, the first in its highest bit.", [[128]])
    base64: list[str] | None = optional("Little-endian float32.", ["zczMPc3MTL4="])


class EmbedMeta(RerankMeta):
    """What Cohere's answers say of the request; the counts stand twice, for clients of both versions."""

    billed_units: RerankTokens = described("Token counts.", {"input_tokens": 9})


class CohereEmbedResponse(BaseModel):
    """Cohere's answer."""

    id: str = described("The request's id, as in x-request-id.", "6f1c2a")
    response_type: Literal["embeddings_by_type", "embeddings_floats"] = described(
        "embeddings_floats: `embeddings` is a list, as /v1/embed answers without `embedding_types`.",
        "embeddings_by_type",
    )
    embeddings: EmbeddingsByType | list[list[float]] = described("The vectors, in order.", {"float": [[0.1, -0.2]]})
    texts: list[str] = described("The texts.", GUITAR[:1])
    meta: EmbedMeta = described("What the request cost.", {"tokens": {"input_tokens": 9}})


class CohereErrorResponse(ErrorResponse):
    """The body of every error on Cohere's routes."""

    message: str = described("The same sentence, where Cohere has it.", "texts is empty; send at least one text")
