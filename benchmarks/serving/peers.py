"""The servers that are measured: how each is started and called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from service.process.telemetry_off import TELEMETRY_OFF

ROOT = Path(__file__).resolve().parents[2]
SERVERS = Path(__file__).parent / "servers"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} | TELEMETRY_OFF
HELD = {"PYTHONPATH": "{servers}/held"}  # for ONNX Runtime peers: a thread for each pinned core

# Model folders made by `prepare.py`
TORCH, BUNDLED = "minilm-torch", "bundled"
ARTIFACT, PADDED = "minilm-int8", "minilm-int8-padded"  # same weights; skips padding, computes padding
TOKENS, PADDED_TOKENS = "minilm-int8-tokens", "minilm-int8-padded-tokens"  # the same, cut before pooling
INT8 = (ARTIFACT, PADDED, TOKENS, PADDED_TOKENS)


@dataclass(frozen=True)
class Peer:
    """A server. `command` and `variables` may contain {bin}, {model}, {port}, {scratch} and {servers}.

    ask: texts -> request body.  answer: response body -> vectors.
    """

    name: str
    environment: str  # a file of benchmarks/envs, or "crosslet"
    packages: tuple[str, ...]  # the page gives their versions
    model: str
    weights: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    route: str = "/embed"
    ask: Callable[[Sequence[str]], bytes] = lambda texts: orjson.dumps({"inputs": list(texts)})
    answer: Callable[[bytes], npt.NDArray[np.float32]] = lambda body: np.asarray(orjson.loads(body), np.float32)

    def filled(self, values: Mapping[str, object]) -> tuple[list[str], dict[str, str]]:
        """The command and the environment variables with placeholders replaced."""
        variables = {name: value.format(**values) for name, value in self.variables.items()}
        return [part.format(**values) for part in self.command], OFFLINE | variables


def _ask_openai(texts: Sequence[str]) -> bytes:
    return orjson.dumps({"model": "minilm", "input": list(texts)})


def _openai_answer(body: bytes) -> npt.NDArray[np.float32]:
    return np.asarray([one["embedding"] for one in orjson.loads(body)["data"]], np.float32)


def _uvicorn(application: str) -> tuple[str, ...]:
    address = ("--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
    return ("{bin}/python", "-m", "uvicorn", "--app-dir", "{servers}", f"{application}:app", *address)


def _library(name: str, library: str, environment: str, packages: tuple[str, ...], model: str, weights: str) -> Peer:
    variables = {"LIBRARY": library, "MODEL": "{model}", **(HELD if model in INT8 else {})}
    return Peer(name, environment, packages, model, weights, _uvicorn("library"), variables)


def _infinity(engine: str, model: str, weights: str, graph: str = "") -> Peer:
    return Peer(
        f"infinity, {engine}{graph}",
        "infinity",
        ("infinity-emb", "torch", "transformers", "optimum", "onnxruntime"),
        model,
        weights,
        (
            "{bin}/infinity_emb", "v2", "--model-id", "{model}", "--served-model-name", "minilm", "--engine", engine,
            "--device", "cpu", "--dtype", "float32" if engine == "torch" else "auto", "--pooling-method", "mean",
            "--no-compile", "--no-model-warmup", "--onnx-disable-optimize",
            "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning",
        ),
        {
            "INFINITY_ANONYMOUS_USAGE_STATS": "0", "INFINITY_HOME": "{scratch}",
            **(HELD if model in INT8 else {}),
        },
        route="/embeddings",
        ask=_ask_openai,
        answer=_openai_answer,
    )  # fmt: skip


def _plain(name: str, model: str) -> Peer:
    variables = {"MODEL": "{model}", **HELD}
    return Peer(name, "plain", ("fastapi", "onnxruntime"), model, "int8", _uvicorn("plain"), variables)


def _crosslet(name: str, model: str, weights: str) -> Peer:
    return Peer(
        name,
        "crosslet",
        ("onnxruntime", "tokenizers", "fastapi", "uvicorn"),
        model,
        weights,
        ("{bin}/python", "-m", "service"),
        {"CROSSLET_MODEL": "{model}", "CROSSLET_PORT": "{port}", "CROSSLET_DATA": "{scratch}"},
    )


SKIPPING = ", graph that skips padding"  # made by our exporter; other exporters' graphs compute padding
_TORCH_PACKAGES = ("sentence-transformers", "torch", "transformers")

OURS = _crosslet("crosslet", ARTIFACT, "int8")
OURS_BUNDLED = _crosslet("crosslet, bundled model", BUNDLED, "int8")
PLAIN = _plain("25-line server", PADDED)
PLAIN_SKIPPING = _plain(f"25-line server{SKIPPING}", ARTIFACT)
INFINITY_OPTIMUM = _infinity("optimum", PADDED_TOKENS, "int8")
INFINITY_SKIPPING = _infinity("optimum", TOKENS, "int8", SKIPPING)
INFINITY_TORCH = _infinity("torch", TORCH, "fp32")
ST = "sentence-transformers"
PEERS = {
    "crosslet": OURS,
    "crosslet-bundled": OURS_BUNDLED,
    "plain": PLAIN,
    "plain-skipping": PLAIN_SKIPPING,
    "infinity-optimum": INFINITY_OPTIMUM,
    "infinity-skipping": INFINITY_SKIPPING,
    "infinity-torch": INFINITY_TORCH,
    "fastembed": _library("fastembed", "fastembed", "fastembed", ("fastembed", "onnxruntime"), PADDED_TOKENS, "int8"),
    "st-onnx": _library(f"{ST}, onnx", "onnx", ST, (*_TORCH_PACKAGES, "onnxruntime"), PADDED_TOKENS, "int8"),
    "st-bf16": _library(f"{ST}, torch bf16", "torch_bf16", ST, _TORCH_PACKAGES, TORCH, "bf16"),
    "st-fp32": _library(f"{ST}, torch fp32", "torch_fp32", ST, _TORCH_PACKAGES, TORCH, "fp32"),
}
