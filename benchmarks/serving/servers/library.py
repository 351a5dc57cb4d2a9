"""A minimal server around a library: POST /embed calls its `encode`, one request at a time.

Both libraries use every core for one call, so concurrent calls would only wait for each other.
LIBRARY names the encoder below, MODEL the folder it loads.
"""

import os
import threading
from collections.abc import Callable

import numpy as np
import orjson
from fastapi import FastAPI, Response
from pydantic import BaseModel

Encode = Callable[[list[str]], np.ndarray]


def sentence_transformers(folder: str, **options: object) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu", local_files_only=True, **options)
    return lambda texts: model.encode(texts, normalize_embeddings=True, show_progress_bar=False).astype(np.float32)


def torch_fp32(folder: str) -> Encode:
    return sentence_transformers(folder)


def torch_bf16(folder: str) -> Encode:
    return sentence_transformers(folder, model_kwargs={"torch_dtype": "bfloat16"})


def onnx(folder: str) -> Encode:
    return sentence_transformers(folder, backend="onnx", model_kwargs={"file_name": "onnx/model.onnx"})


def fastembed(folder: str) -> Encode:
    from fastembed import TextEmbedding  # type: ignore[import-not-found]
    from fastembed.common.model_description import ModelSource, PoolingType  # type: ignore[import-not-found]

    TextEmbedding.add_custom_model(
        model="local",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf="local"),
        dim=384,
        model_file="onnx/model.onnx",
    )
    model = TextEmbedding("local", specific_model_path=folder)
    return lambda texts: np.stack(list(model.embed(texts, batch_size=32)))


LIBRARIES = {library.__name__: library for library in (torch_fp32, torch_bf16, onnx, fastembed)}

encode = LIBRARIES[os.environ["LIBRARY"]](os.environ["MODEL"])
turn = threading.Lock()
app = FastAPI()


class Request(BaseModel):
    inputs: list[str]


@app.post("/embed")
def embed(request: Request) -> Response:
    with turn:
        vectors = encode(request.inputs)
    return Response(orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
