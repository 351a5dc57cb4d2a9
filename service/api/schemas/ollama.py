"""The JSON of Ollama's routes, described field by field."""

from pydantic import BaseModel

from service.api.schemas.embed import GUITAR, Listed, VectorOptions, described, optional, whole_example
from service.api.schemas.foreign_options import VECTORS


class OllamaOptions(VectorOptions):
    """What both of Ollama's requests have. `options` and `keep_alive`, which no vector depends on, are ignored."""

    refused = VECTORS

    model: str | None = described("Any name: there is only one model, which the answer names.", "default", default="")


class OllamaEmbedRequest(OllamaOptions):
    """Ollama's request for the vectors of texts, with the options of /embed."""

    model_config = whole_example({"model": "default", "input": [*GUITAR]})

    input: str | Listed[str] | None = optional("One text or a list of texts; empty: no vectors.", GUITAR)


class OllamaPromptRequest(OllamaOptions):
    """Ollama's older request for the vector of one text."""

    model_config = whole_example({"model": "default", "prompt": GUITAR[0]})

    prompt: str | None = optional("The text; empty: no vector.", GUITAR[0])


class OllamaEmbedResponse(BaseModel):
    """Ollama's vectors."""

    model: str = described("The model that answered.", "default")
    embeddings: list[list[float]] = described("One vector a text, in order.", [[0.1, -0.2]])
    total_duration: int = described("Nanoseconds from the queue to the vectors.", 3_000_000)
    prompt_eval_count: int = described("Tokens read by the model.", 9)


class OllamaPromptResponse(BaseModel):
    """Ollama's one vector."""

    embedding: list[float] = described("The vector.", [0.1, -0.2])


class OllamaDetails(BaseModel):
    """What Ollama says of a model's file."""

    format: str = described("Always onnx.", "onnx")
    family: str = described("Always crosslet.", "crosslet")
    families: list[str] = described("The same, as a list.", ["crosslet"])
    parameter_size: str = described("Number of its weights, in millions.", "36.8M")
    quantization_level: str = described("int8 or fp32.", "int8")


class OllamaModel(BaseModel):
    """A model, as Ollama describes one."""

    name: str = described("Its name, with a tag.", "default:latest")
    model: str = described("The same.", "default:latest")
    modified_at: str = described("When it was exported.", "2026-11-26T12:00:00+00:00")
    size: int = described("Bytes of its files.", 31_900_000)
    digest: str = described("Identity of its vector space.", "6f9a3a69")
    details: OllamaDetails = described("More about it.", {"format": "onnx"})


class OllamaModels(BaseModel):
    """Ollama's list of models."""

    models: list[OllamaModel] = described("The one model.", [{"name": "default:latest"}])


class OllamaVersion(BaseModel):
    """The version that runs."""

    version: str = described("Version of crosslet, not of Ollama.", "0.1.0")
