"""The encoder that other programs import."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import crosslet
from crosslet import CrossletError, Encoder
from tests.artifacts import DIM, TEXTS, build_artifact
from tests.skeleton.project import ROOT


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return Encoder(tiny_model, threads=2)


def test_importing_it_loads_nothing() -> None:
    code = "import sys, crosslet; print(sorted({'numpy', 'service', 'onnxruntime'} & sys.modules.keys()))"
    code += "; crosslet.Index; print(sorted({'fastapi', 'uvicorn', 'torch', 'faiss'} & sys.modules.keys() - {'faiss'}))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n[]\n"


def test_every_public_name_is_there() -> None:
    assert {name for name in crosslet.__all__ if getattr(crosslet, name, None) is None} == set()
    with pytest.raises(AttributeError, match="nothing"):
        crosslet.nothing  # noqa: B018


def test_vectors_equal_those_of_the_service(encoder: Encoder, client: TestClient) -> None:
    served = np.array(client.post("/embed", json={"inputs": list(TEXTS)}).json(), np.float32)
    vectors_ND = encoder.encode(TEXTS)
    assert vectors_ND.dtype == np.float32
    assert np.array_equal(vectors_ND, served)
    assert np.array_equal(encoder.encode(TEXTS[3]), served[3])
    assert np.allclose(np.linalg.norm(vectors_ND, axis=1), 1, atol=1e-6)


def test_many_texts_keep_their_order(encoder: Encoder) -> None:
    texts = [TEXTS[number % len(TEXTS)] + f" {number}" for number in range(200)]
    vectors_ND = encoder.encode(texts)
    for number in (0, 1, 63, 64, 127, 199):
        assert np.array_equal(vectors_ND[number], encoder.encode(texts[number]))
    assert encoder.encode([]).shape == (0, DIM)


def test_fewer_dimensions_have_norm_1(encoder: Encoder) -> None:
    whole_D, kept_D = encoder.encode(TEXTS[0]), encoder.encode(TEXTS[0], dimensions=3)
    assert np.allclose(kept_D, whole_D[:3] / np.linalg.norm(whole_D[:3]), atol=1e-6)
    for dimensions in (0, DIM + 1):
        with pytest.raises(CrossletError, match=f"dimensions is {dimensions}; the model has {DIM}"):
            encoder.encode("a", dimensions=dimensions)


def test_similarity_is_the_cosine_in_each_shape(encoder: Encoder) -> None:
    left_MD, right_ND = encoder.encode(TEXTS[:3]), encoder.encode(TEXTS[3:5])
    expected_MN = left_MD @ right_ND.T
    assert np.allclose(encoder.similarity(TEXTS[:3], TEXTS[3:5]), expected_MN, atol=1e-6)
    assert np.allclose(encoder.similarity(TEXTS[0], TEXTS[3:5]), expected_MN[0], atol=1e-6)
    assert np.allclose(encoder.similarity(TEXTS[:3], TEXTS[3]), expected_MN[:, 0], atol=1e-6)
    alone = encoder.similarity(TEXTS[0], TEXTS[3])
    assert isinstance(alone, float)
    assert alone == pytest.approx(float(expected_MN[0, 0]), abs=1e-6)


def test_a_prompt_is_put_before_each_text(tmp_path: Path) -> None:
    build_artifact(tmp_path, prompts={"query": "guitar "})
    encoder = Encoder(tmp_path)
    assert dict(encoder.prompts) == {"query": "guitar "}
    assert np.array_equal(encoder.encode("man", prompt_name="query"), encoder.encode("guitar man"))
    with pytest.raises(CrossletError, match="not one of this model's prompts: query"):
        encoder.encode("man", prompt_name="nothing")


def test_bad_texts_are_named_by_their_place(encoder: Encoder) -> None:
    long = "guitar " * (encoder.max_length + 5)
    assert encoder.encode(long).shape == (DIM,)
    for texts, words in [
        (["a", ""], r"texts\[1\] is empty"),
        (["a", 3], r"texts\[1\] is of type int"),
        (["\ud800"], r"texts\[0\] is not valid Unicode"),
        (["a", long], rf"texts\[1\] has \d+ tokens; the model reads {encoder.max_length}"),
    ]:
        with pytest.raises(CrossletError, match=words):
            encoder.encode(texts, truncate=False)  # type: ignore[arg-type]


def test_a_text_that_the_model_fails_on_is_named(failing_model: Path) -> None:
    with pytest.raises(CrossletError, match=r"texts\[1\]: the model gave no finite vector"):
        Encoder(failing_model).encode(["a", "kaputt", "b"])


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CrossletError, match="manifest"):
        Encoder(tmp_path)
    with pytest.raises(CrossletError, match="threads is 0"):
        Encoder(tmp_path, threads=0)
