"""Builds a tiny real re-ranker artifact without torch: the score is how alike the words of both sides are."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer, processors

from service.model.artifact import Manifest, PairParityPack
from service.model.reranker import PairTokenizer
from service.model.session import Session
from service.model.tokenizer import Tokenizer as ServiceTokenizer
from tests.artifacts import DIM, MAX_LENGTH, TEXTS, build_artifact, write_manifest
from tests.graphs import model_of

SEP = 3
PAIRS = tuple((query, passage) for query in TEXTS[::3] for passage in (query, TEXTS[1], TEXTS[7], " ".join(TEXTS)))


def build_reranker(
    folder: Path, *, seed: int = 0, name: str = "tiny-reranker", fails_on: str | None = None
) -> Manifest:
    """Write a folder that keeps the whole contract; another seed gives other scores.

    fails_on: a word of its own token, whose embedding is not a number: the model fails on pairs that have it.
    """
    build_artifact(folder, seed=seed, name=name, fails_on=fails_on)  # its tokenizer and card
    path = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", SEP)]
    )
    tokenizer.save(str(path))
    _write_graph(folder / "model.onnx", rows=int(tokenizer.get_vocab_size()), seed=seed, fails=fails_on is not None)
    (folder / "parity.json").write_text(_parity_of(folder).to_json(), encoding="utf-8")
    return write_reranker_manifest(folder, name=name)


def write_reranker_manifest(folder: Path, *, name: str = "tiny-reranker", **changes: object) -> Manifest:
    """(Re)write manifest.json from the files as they are now."""
    return write_manifest(folder, name=name, **{"kind": "cross-encoder", "dim": 1, **changes})


def _parity_of(folder: Path) -> PairParityPack:
    tokenizer = PairTokenizer(ServiceTokenizer(folder / "tokenizer.json", max_length=MAX_LENGTH), where=str(folder))
    session = Session(folder / "model.onnx", dim=1, output="score")
    rows = [tokenizer.tokenize(query, passage).input_ids for query, passage in PAIRS]
    scores = tuple(float(session.run([row])[0, 0]) for row in rows)
    return PairParityPack(1, 0.001, PAIRS, tuple(map(tuple, rows)), scores)


def _write_graph(path: Path, *, rows: int, seed: int, fails: bool) -> None:
    """Sigmoid of the product of both sides' mean embeddings; the sides part at the first separator."""
    weight_VD = np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32)
    weight_VD[:4] *= 0.1  # special tokens say little
    if fails:
        weight_VD[-1] = np.nan
    nodes = [
        helper.make_node("Gather", ["weight", "input_ids"], ["token_BLD"]),
        helper.make_node("Equal", ["input_ids", "sep"], ["is_sep"]),
        helper.make_node("Cast", ["is_sep"], ["sep_BL"], to=TensorProto.FLOAT),
        helper.make_node("CumSum", ["sep_BL", "one"], ["seps_so_far_BL"], exclusive=1),
        helper.make_node("Min", ["seps_so_far_BL", "one_float"], ["after_BL"]),
        helper.make_node("Cast", ["attention_mask"], ["mask_BL"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["after_BL", "mask_BL"], ["second_BL"]),
        helper.make_node("Sub", ["mask_BL", "second_BL"], ["first_BL"]),
        *_mean("first_BL", "query_BD"),
        *_mean("second_BL", "passage_BD"),
        helper.make_node("Mul", ["query_BD", "passage_BD"], ["product_BD"]),
        helper.make_node("ReduceSum", ["product_BD", "one"], ["logit_B1"], keepdims=1),
        helper.make_node("Sigmoid", ["logit_B1"], ["score"]),
    ]
    constants = {
        "weight": weight_VD,
        "sep": np.array(SEP),
        "one": np.array([1]),
        "one_float": np.array(1, np.float32),
        "last": np.array([2]),
    }
    model = model_of(nodes, constants, {"score": ["B", 1]})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def _mean(mask: str, output: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Unsqueeze", [mask, "last"], [f"{mask}1"]),
        helper.make_node("Mul", ["token_BLD", f"{mask}1"], [f"{mask}_tokens"]),
        helper.make_node("ReduceSum", [f"{mask}_tokens", "one"], [f"{mask}_sum"], keepdims=0),
        helper.make_node("ReduceSum", [f"{mask}1", "one"], [f"{mask}_count"], keepdims=0),
        helper.make_node("Div", [f"{mask}_sum", f"{mask}_count"], [output]),
    ]
