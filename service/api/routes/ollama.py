"""POST /api/embed, /api/embeddings, GET /api/tags, /api/version: what Ollama's clients ask, in Ollama's shapes."""

from fastapi import APIRouter, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import EmbedderDependency, RuntimeDependency, cost_headers
from service.api.responses import dump_in_turns, dump_json, dumped_response, json_response
from service.api.routes.openapi import answers, inference
from service.api.schemas.ollama import (
    OllamaEmbedRequest,
    OllamaEmbedResponse,
    OllamaModels,
    OllamaPromptRequest,
    OllamaPromptResponse,
    OllamaVersion,
)
from service.version import VERSION

router = APIRouter(prefix="/api", tags=["embeddings"], route_class=JsonRoute)


@router.post("/embed", response_model=OllamaEmbedResponse, responses=inference(), summary="Embed texts, as Ollama does")
@Policy(Access.READ, Reach.NOTHING)
async def ollama_embed(body: OllamaEmbedRequest, embedder: EmbedderDependency) -> Response:
    """Drop-in for Ollama's clients: change the host. Vectors have norm 1, as Ollama's. No input gets no vectors."""
    model = {"model": embedder.runtime.manifest.name}
    if not body.input:
        return json_response(model | {"embeddings": [], "total_duration": 0, "prompt_eval_count": 0})
    batch = await embedder.embed(body.input, body, name="input", limit="max_openai_texts")
    took_ns = round((batch.queue_s + batch.inference_s) * 1e9)
    rest = dump_json(model | {"total_duration": took_ns, "prompt_eval_count": batch.tokens})
    embeddings = await dump_in_turns(batch.embeddings)
    return dumped_response(b"".join([b'{"embeddings":[', *embeddings, b"],", rest[1:]]), headers=cost_headers(batch))


@router.post(
    "/embeddings",
    response_model=OllamaPromptResponse,
    responses=inference(),
    summary="Embed one text, as Ollama did first",
)
@Policy(Access.READ, Reach.NOTHING)
async def ollama_embed_prompt(body: OllamaPromptRequest, embedder: EmbedderDependency) -> Response:
    """The same for one text. Differs from Ollama: this vector has norm 1, too."""
    if not body.prompt:
        return json_response({"embedding": []})
    batch = await embedder.embed(body.prompt, body, name="prompt")
    return json_response({"embedding": batch.embeddings[0]}, headers=cost_headers(batch))


@router.get("/tags", response_model=OllamaModels, responses=answers(401), summary="List the model, as Ollama does")
@Policy(Access.READ, Reach.NOTHING)
async def list_ollama_models(runtime: RuntimeDependency) -> Response:
    """The served model. The other routes accept any name."""
    manifest = runtime.manifest
    name = f"{manifest.name}:latest"  # clients add this tag to a name without one
    details = {
        "format": "onnx",
        "family": "crosslet",
        "families": ["crosslet"],
        "parameter_size": f"{manifest.parameters / 1e6:.1f}M",
        "quantization_level": manifest.precision,
    }
    model = {
        "name": name,
        "model": name,
        "modified_at": manifest.created_at,
        "size": sum(file.size_bytes for file in manifest.files.values()),
        "digest": manifest.fingerprint,
        "details": details,
    }
    return json_response({"models": [model]})


@router.get("/version", response_model=OllamaVersion, responses=answers(401), summary="Name the version")
@Policy(Access.READ, Reach.NOTHING)
async def ollama_version() -> Response:
    """The version of crosslet."""
    return json_response({"version": VERSION})
