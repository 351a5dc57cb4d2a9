"""A head after the vectors of an artifact."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from export.errors import Refused
from export.head import _check, add_head, append_head
from service.model.artifact import DataLicence, load_manifest, load_parity, verify_files
from service.model.encoder import load_encoder
from tests.artifacts import DIM, TEXTS, add_space, build_artifact, write_manifest
from tests.service.model.test_confidence import MODEL
from training.alignment.layers import Activation, Head, Layer

DATA = DataLicence("my pairs", "CC0 1.0", "", 120)
ALIGNMENT = {
    "languages": "zh-vi",
    "pairs": 120,
    "test_pairs": 30,
    "method": "midpoint ridge 0.001",
    "scores": {"before": {"p1": 41.2}, "after": {"p1": 63.1}},
    "probe": {"before": {"de": 90.0}, "after": {"de": 90.25}},
}


def random_head(*activations: Activation, seed: int = 0) -> Head:
    generator = np.random.default_rng(seed)
    layers = tuple(
        Layer(
            (np.eye(DIM) + 0.3 * generator.standard_normal((DIM, DIM))).astype(np.float32),
            (0.1 * generator.standard_normal(DIM)).astype(np.float32),
            activation,
        )
        for activation in activations
    )
    return Head(layers, (0.2 * generator.standard_normal(DIM)).astype(np.float32))


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    build_artifact(tmp_path / "model")
    return tmp_path / "model"


def vectors(folder: Path) -> np.ndarray:
    return np.stack([one.vector for one in load_encoder(folder).encode_all(TEXTS)])


@pytest.mark.parametrize("activations", [("identity",), ("tanh",), ("relu",), ("tanh", "tanh"), ()])
def test_what_is_served_went_through_the_head(
    artifact: Path, tmp_path: Path, activations: tuple[Activation, ...]
) -> None:
    head, out = random_head(*activations), tmp_path / "out"
    before = vectors(artifact)
    add_head(artifact, out, head, alignment=ALIGNMENT, data=DATA)
    found, expected = vectors(out), before  # the oracle: float64
    for layer in head.layers:
        expected = expected.astype(np.float64) @ layer.weight_DD.T + layer.bias_D
        expected = {"identity": expected, "tanh": np.tanh(expected), "relu": np.maximum(expected, 0)}[layer.activation]
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True) - head.mean_D
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert not np.allclose(found, before, atol=0.05)


def test_copy_keeps_the_contract_with_its_own_fingerprint(artifact: Path, tmp_path: Path) -> None:
    write_manifest(artifact, evaluation={"stsb_test": {"en-de": 61.25}}, confidence=MODEL, created_at="2024-01-01")
    add_space(artifact, "other", np.ones((4, DIM + 1)))
    before = load_manifest(artifact)
    after = add_head(artifact, tmp_path / "out", random_head("identity"), alignment=ALIGNMENT, data=DATA)
    verify_files(tmp_path / "out", after)
    assert after.fingerprint != before.fingerprint
    assert (before.name, after.name) == ("tiny", "tiny-zh-vi")
    assert after.files["tokenizer.json"] == before.files["tokenizer.json"]
    assert (after.spaces, sorted(after.files)) == ((), ["README.md", "model.onnx", "parity.json", "tokenizer.json"])
    assert after.parameters == before.parameters + DIM * DIM + 2 * DIM
    assert after.data_licences == (DATA,)
    assert load_parity(artifact, before).texts == load_parity(tmp_path / "out", after).texts
    assert load_manifest(artifact) == before
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "A head aligned zh-vi on 120 pairs (midpoint ridge 0.001); it is in the graph. " in card
    assert before.fingerprint[:12] in card
    assert "| after | 63.1 |" in card
    assert "| my pairs | CC0 1.0 | 120 |" in card
    assert "stsb_test" not in card  # scores of other vectors
    assert after.evaluation.keys() == {"alignment"}
    assert after.confidence is None
    assert after.languages == (*before.languages, "vi")
    assert after.created_at > before.created_at


def test_prompts_stay_before_the_texts_of_the_parity_pack(tmp_path: Path) -> None:
    build_artifact(tmp_path / "model", prompts={"query": "guitar: "}, default_prompt_name="query")
    add_head(tmp_path / "model", tmp_path / "out", random_head("identity"), alignment=ALIGNMENT, data=DATA)
    assert load_encoder(tmp_path / "out").manifest.default_prompt_name == "query"  # its parity texts passed


def test_a_head_can_follow_a_head(artifact: Path, tmp_path: Path) -> None:
    first, second = random_head("identity"), random_head("tanh", seed=1)
    add_head(artifact, tmp_path / "one", first, alignment=ALIGNMENT, data=DATA)
    add_head(tmp_path / "one", tmp_path / "two", second, alignment=ALIGNMENT, data=DATA)
    np.testing.assert_allclose(vectors(tmp_path / "two"), second(first(vectors(artifact))), atol=2e-6)


def test_a_vector_does_not_depend_on_its_company(artifact: Path, tmp_path: Path) -> None:
    model = onnx.load(str(artifact / "model.onnx"))
    append_head(model, random_head("identity"))
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ids = np.array([[2, 9, 3], [2, 30, 3], [2, 44, 3]], np.int64)

    def run(rows: np.ndarray) -> np.ndarray:
        (found,) = session.run(["sentence_embedding"], {"input_ids": rows, "attention_mask": np.ones_like(rows)})
        return np.asarray(found)

    for row, together in zip(ids, run(ids), strict=True):
        np.testing.assert_allclose(run(row[None])[0], together, atol=1e-6)


def test_a_graph_that_does_not_compute_the_head_is_refused() -> None:
    with pytest.raises(Refused, match=r"lowest cosine of the edited graph to numpy is 0\.000000 over 1 texts"):
        _check(np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32))
    with pytest.raises(Refused):
        _check(np.array([[1.0, 0.0]], np.float32), np.array([[np.nan, 1.0]], np.float32))


def test_a_head_enters_a_graph_without_torch() -> None:
    code = "import sys, export.head; print(sorted({'torch', 'transformers', 'optimum'} & sys.modules.keys()))"
    end = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert end.stdout.strip() == "[]"
