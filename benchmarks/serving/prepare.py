"""Makes the inputs of a run: model folders, texts and reference vectors. `python -m ... FOLDER [DATA]`.

Runs in a separate process, since it needs torch and the load generator must stay small.

Every int8 model has the weights of all-MiniLM-L6-v2, calibrated on sentences in the languages of the loads. One
artifact skips padding, like ours; one computes it, like those of other exporters. Peers that pool themselves get a
graph cut before pooling, in the folder layout that transformers, optimum and fastembed expect.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from onnx.utils import Extractor
from tokenizers import Tokenizer  # type: ignore[import-untyped]

from benchmarks.serving.peers import ARTIFACT, BUNDLED, INT8, PADDED, PADDED_TOKENS, ROOT, TOKENS, TORCH
from benchmarks.serving.sentences import SENTENCES
from benchmarks.serving.texts import choose_texts, read_sentences
from export.pipeline import export_artifact
from export.request import ExportRequest
from service.model.artifact import Padding
from training.models.packages import packaged_folder
from training.models.teacher import load_teacher

TEACHER = "sentence-transformers/all-MiniLM-L6-v2"
TOKENS_OUTPUT = "last_hidden_state"
CHECKED_TEXTS = 20
NOT_NEEDED = ("*.safetensors", "*.md", ".git*", "data_config.json")  # in a folder with a graph
CALIBRATION_TEXTS = 250  # a language
GRAPHS: tuple[tuple[str, str, Padding], ...] = ((ARTIFACT, TOKENS, "skipped"), (PADDED, PADDED_TOKENS, "computed"))
TEXTS_FILE, REFERENCE_FILE = "texts.json", "reference.npy"


def main(folder: Path, data: Path | None) -> None:
    models = folder / "models"
    make_models(models, calibration_texts(data))
    tokenizer = Tokenizer.from_file(str(models / ARTIFACT / "tokenizer.json"))
    texts = choose_texts(data, lambda text: len(tokenizer.encode(text).ids))
    checked = texts.mixed.texts[:CHECKED_TEXTS]
    content = {
        "short": texts.short.texts, "mixed": texts.mixed.texts, "checked": checked, "source": texts.short.source,
        "tokens": {
            name: sorted(len(tokenizer.encode(text).ids) for text in sample.texts)
            for name, sample in (("short", texts.short), ("mixed", texts.mixed))
        },
    }  # fmt: skip
    (folder / TEXTS_FILE).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    teacher = load_teacher(TEACHER, device=torch.device("cpu"))
    np.save(folder / REFERENCE_FILE, teacher.encode(list(checked), normalize_embeddings=True))


def calibration_texts(data: Path | None) -> list[str]:
    by_language = read_sentences(data) if data else SENTENCES
    return [text for given in by_language.values() for text in given[:: max(1, len(given) // CALIBRATION_TEXTS)]]


def make_models(models: Path, calibration: Sequence[str]) -> None:
    """Make missing model folders; files that exist elsewhere are linked."""
    models.mkdir(parents=True, exist_ok=True)
    packaged = packaged_folder(TEACHER)
    if packaged is None:
        raise SystemExit(f"no installed package contains {TEACHER}: run `make setup-dev`")
    _link(models / TORCH, packaged)
    _link(models / BUNDLED, ROOT / "models" / "default")
    made_from = models / "int8.made-from"
    identity = _identity(calibration)
    is_whole = all((models / name).is_dir() for name in INT8)
    if is_whole and made_from.exists() and made_from.read_text(encoding="ascii") == identity:
        return
    made_from.unlink(missing_ok=True)
    texts = models / "int8-calibration.txt"
    texts.write_text("\n".join(calibration), encoding="utf-8")
    for name, tokens, padding in GRAPHS:
        request = ExportRequest(
            packaged,
            models / name,
            "int8",
            calibration=texts,
            padding=padding,
            name="all-MiniLM-L6-v2",
            languages=("en",),
            force=(models / name).is_dir(),
        )
        export_artifact(request, progress=lambda message: print(message, file=sys.stderr))
        _write_token_folder(packaged, models / name / "model.onnx", models / tokens)
    made_from.write_text(identity, encoding="ascii")


def _identity(calibration: Sequence[str]) -> str:
    """Fingerprint of the artifact's inputs: the exporter's code and the calibration sentences."""
    digest = hashlib.sha256("\n".join(calibration).encode())
    for path in (Path(__file__), *sorted((ROOT / "export").glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cut_before_pooling(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Cut the graph after the last token vectors, (B, L, H), before mean pooling; weights are unchanged."""
    norms = [node for node in graph.graph.node if node.op_type.endswith("LayerNormalization")]
    weights = {tensor.name for tensor in graph.graph.initializer}
    means = [node for node in graph.graph.node if node.op_type == "MatMul" and not weights & set(node.input)]
    tokens = means[-1].input[1]
    inputs = [value.name for value in graph.graph.input]
    (hidden,) = next(tensor.dims for tensor in graph.graph.initializer if tensor.name == norms[-1].input[1])
    shape = ["batch_size", "sequence_length", hidden]  # ONNX cannot infer shapes past ONNX Runtime's own operators
    graph.graph.value_info.append(helper.make_tensor_value_info(tokens, TensorProto.FLOAT, shape))
    cut = Extractor(graph).extract_model(inputs, [tokens])
    for node in cut.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == tokens:
                    names[place] = TOKENS_OUTPUT
    cut.graph.output[0].name = TOKENS_OUTPUT
    return cut


def _write_token_folder(packaged: Path, model: Path, folder: Path) -> None:
    stage = folder.with_name(f".{folder.name}")
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(packaged, stage, ignore=shutil.ignore_patterns(*NOT_NEEDED))
    (stage / "onnx").mkdir()
    onnx.save(cut_before_pooling(onnx.load(model)), stage / "onnx" / "model.onnx")
    shutil.rmtree(folder, ignore_errors=True)
    stage.rename(folder)


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target, target_is_directory=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
