"""Writes the Python of a card: the model without the service, on the same token ids. Knows tokenizers; runs no model.

The service reads a Unigram vocabulary with SentencePiece, which adds scores in 32 bits. `tokenizers` adds them in 64,
and cuts "hhhhh" elsewhere where two ways have nearly one score.
"""

from __future__ import annotations

from pathlib import Path

from service.model.artifact import TOKENIZER_FILE, Manifest
from service.model.tokenizer import WHITE_SPACE, Tokenizer

PYTHON = """\
With {packages} alone, in this folder:

```python
{standard}

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before it is loaded: ONNX Runtime reports by itself

import numpy as np
import onnxruntime
{imports}

{pieces}
def stripped(text):
    return text.strip({white_space!a}) or text

options = onnxruntime.SessionOptions()
{exactness}session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])

{run}
```
"""
EXACTNESS = """\
options.add_session_config_entry("session.x64quantprecision", "1")  # x86 without VNNI needs it; with VNNI it is slower
"""
TOKENIZERS = """\
tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")

def pieces(text):
    return tokenizer.encode(text, add_special_tokens=False).ids
"""
SENTENCEPIECE = """\
with open("tokenizer.json", encoding="utf-8") as file:
    state = json.load(file)
normalizer = tokenizers.Tokenizer.from_file("tokenizer.json").normalizer
unknown, special = state["model"]["unk_id"], {token["id"] for token in state["added_tokens"]}
model = sentencepiece_model_pb2.ModelProto()
for number, (piece, score) in enumerate(state["model"]["vocab"]):
    model.pieces.add(piece=piece, score=score, type=2 if number == unknown else 3 if number in special else 1)
model.trainer_spec.model_type, model.trainer_spec.unk_id = 1, unknown
model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
spec = model.normalizer_spec
spec.name = "identity"
spec.add_dummy_prefix = spec.remove_extra_whitespaces = spec.escape_whitespaces = False
vocabulary = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())

def pieces(text):
    text = (normalizer.normalize_str(text) if normalizer else text).replace(" ", "▁")
    return vocabulary.encode(text if not text or text.startswith("▁") else "▁" + text)
"""
EMBED = """\
def embed(text{parameter}):
    ids = np.array([[{before}*pieces({prompt}stripped(text))[:{room}]{after}]])
    return session.run(["sentence_embedding"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0][0]

print(embed("A man is playing a guitar.") @ embed("Someone plays an instrument."))"""
SCORE = """\
def score(query, passage):
    query = pieces(stripped(query))[:{half}]
    ids = np.array([[{before}*query, {between}*pieces(stripped(passage))[:{room} - len(query)]{after}]])
    return session.run(["score"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0][0, 0]

print(score("Who plays?", "A man is playing a guitar."))"""


def python_recipe(manifest: Manifest, folder: Path) -> str:
    """The section of a card on Python.  folder: has the tokenizer.json."""
    tokenizer = Tokenizer(folder / TOKENIZER_FILE, max_length=manifest.max_length)
    run = _score(tokenizer) if manifest.kind == "cross-encoder" else _embed(tokenizer, manifest)
    is_unigram = tokenizer.is_unigram
    return PYTHON.format(
        packages="onnxruntime, protobuf, sentencepiece and tokenizers" if is_unigram else "onnxruntime and tokenizers",
        standard="import json\nimport os" if is_unigram else "import os",
        imports="import sentencepiece\nimport tokenizers\nfrom sentencepiece import sentencepiece_model_pb2"
        if is_unigram
        else "import tokenizers",
        pieces=SENTENCEPIECE if is_unigram else TOKENIZERS,
        white_space=WHITE_SPACE,
        exactness=EXACTNESS if manifest.precision == "int8" else "",
        run=run,
    )


def _embed(tokenizer: Tokenizer, manifest: Manifest) -> str:
    whole, count = tokenizer.whole("a"), len(tokenizer.pieces("a"))
    after = tokenizer.closing(whole)
    before = whole[: len(whole) - count - len(after)]
    prompt = manifest.prompts.get(manifest.default_prompt_name or "", "")
    return EMBED.format(
        parameter=f", prompt={prompt!r}" if manifest.prompts else "",
        prompt="prompt + " if manifest.prompts else "",
        before="".join(f"{id_}, " for id_ in before),
        room=tokenizer.max_length - len(before) - len(after),
        after="".join(f", {id_}" for id_ in after),
    )


def _score(tokenizer: Tokenizer) -> str:
    frame = tokenizer.pair_frame
    specials = len(frame.before) + len(frame.between) + len(frame.after)
    return SCORE.format(
        half=tokenizer.max_length // 2,
        before="".join(f"{id_}, " for id_ in frame.before),
        between="".join(f"{id_}, " for id_ in frame.between),
        room=tokenizer.max_length - specials,
        after="".join(f", {id_}" for id_ in frame.after),
    )
