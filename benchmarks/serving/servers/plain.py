"""A simple embedding server in 25 lines: FastAPI, a tokenizer, and an ONNX Runtime session with default options."""

import os

import numpy as np
import onnxruntime
import orjson
from fastapi import FastAPI, Response
from pydantic import BaseModel
from tokenizers import Tokenizer  # type: ignore[import-untyped]

folder = os.environ["MODEL"]
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.enable_padding()
tokenizer.enable_truncation(256)
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])
app = FastAPI()


class Request(BaseModel):
    inputs: list[str]


@app.post("/embed")
def embed(request: Request) -> Response:
    encodings = tokenizer.encode_batch(request.inputs)
    input_ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
    attention_mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
    (vectors,) = session.run(None, {"input_ids": input_ids, "attention_mask": attention_mask})
    return Response(orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
