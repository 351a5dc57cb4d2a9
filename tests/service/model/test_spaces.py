"""Spaces of other models over the tiny model; `tests/export/test_space.py` fits real maps."""

import base64
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from service.cli import main as cli
from service.errors import ArtifactError, StoreError
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.model.spaces import SpaceMap, stored_as
from tests.artifacts import DIM, TEXTS, add_space, build_artifact
from tests.service.conftest import Serve

SMALL = 5  # dims of the other model
AFFINE = np.random.default_rng(3).standard_normal((SMALL, DIM + 1)).astype(np.float16)


@pytest.fixture(scope="module")
def spacious(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spacious")
    build_artifact(folder)
    add_space(folder, "small", AFFINE)
    add_space(folder, "same", np.eye(DIM, DIM + 1))
    return folder


def own(folder: Path, text: str) -> npt.NDArray[np.float32]:
    return load_encoder(folder).encode(text).vector


def in_small(folder: Path, text: str) -> npt.NDArray[np.float64]:
    """The right value, in float64."""
    affine = AFFINE.astype(np.float64)
    mapped = affine[:, :-1] @ own(folder, text).astype(np.float64) + affine[:, -1]
    found: npt.NDArray[np.float64] = mapped / np.linalg.norm(mapped)
    return found


def test_a_map_is_a_product_a_bias_and_unit_length() -> None:
    space = SpaceMap.from_array(np.array([[1, 0, 2], [0, 3, 1]], np.float16))
    found = space(np.array([[1, 1], [0, 1]], np.float32))  # (3, 4) and (2, 4) before
    np.testing.assert_allclose(found, [[0.6, 0.8], [2 / 20**0.5, 4 / 20**0.5]], rtol=1e-6)


def test_a_mapped_vector_does_not_depend_on_the_others() -> None:
    space = SpaceMap.from_array(np.random.default_rng(0).standard_normal((384, 385)).astype(np.float16))
    vectors = np.random.default_rng(1).standard_normal((33, 384)).astype(np.float32)
    assert np.array_equal(space(vectors), np.vstack([space(one[None]) for one in vectors]))


# --- artifacts


def test_a_manifest_without_spaces_is_read_and_written_as_before(tmp_path: Path) -> None:
    before = build_artifact(tmp_path)
    assert "spaces" not in json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert add_space(tmp_path, "small", AFFINE).fingerprint == before.fingerprint
    assert load_manifest(tmp_path).spaces[0].other_cosine == 0.5


def test_a_damaged_map_is_refused(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    add_space(tmp_path, "small", AFFINE[:, :-1])
    with pytest.raises(ArtifactError, match=r"space.small.npy is not an array of finite numbers of shape \(5, 17\)"):
        load_encoder(tmp_path)
    with (tmp_path / "space.small.npy").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ArtifactError, match=r"space.small.npy has .* bytes; the manifest says"):
        load_encoder(tmp_path)


def test_two_spaces_of_one_name_are_refused(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    add_space(tmp_path, "small", AFFINE)
    add_space(tmp_path, "small", AFFINE)
    with pytest.raises(ArtifactError, match="has two spaces named 'small'"):
        load_manifest(tmp_path)


# --- HTTP


def test_every_route_that_embeds_answers_in_the_named_space(serve: Serve, spacious: Path) -> None:
    client = serve(model=spacious, cache_bytes=1_000_000)
    expected = np.stack([in_small(spacious, text) for text in TEXTS[:3]])
    for _ in range(2):  # computed, and from the cache
        found = client.post("/embed", json={"inputs": TEXTS[:3], "space": "small"}).json()
        np.testing.assert_allclose(found, expected, atol=1e-6)
        plain = client.post("/embed", json={"inputs": TEXTS[0]}).json()
        assert np.array_equal(np.asarray(plain[0], np.float32), own(spacious, TEXTS[0]))
    body = {"input": TEXTS[0], "encoding_format": "base64", "space": "small"}
    (one,) = client.post("/v1/embeddings", json=body).json()["data"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(one["embedding"]), "<f4"), expected[0], atol=1e-6)
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:3]}
    scores = client.post("/similarity", json={"inputs": inputs, "parameters": {"space": "small"}}).json()
    np.testing.assert_allclose(scores, expected[1:] @ expected[0], atol=1e-6)


def test_dimensions_are_those_of_the_space(serve: Serve, spacious: Path) -> None:
    client = serve(model=spacious)
    (found,) = client.post("/embed", json={"inputs": TEXTS[0], "space": "small", "dimensions": 2}).json()
    kept = in_small(spacious, TEXTS[0])[:2]
    np.testing.assert_allclose(found, kept / np.linalg.norm(kept), atol=1e-6)
    refused = client.post("/embed", json={"inputs": TEXTS[0], "space": "small", "dimensions": 6})
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        "dimensions is 6; the space has 5: send at most that, or leave it out",
    )


def test_unknown_space_is_refused_with_the_known_names(serve: Serve, spacious: Path) -> None:
    client, without = serve(model=spacious), serve()
    similar = {"inputs": {"pairs": [["a", "b"]]}, "parameters": {"space": "web"}}
    for path, body in {
        "/embed": {"inputs": "a", "space": "web"},
        "/v1/embeddings": {"input": "a", "space": "web"},
        "/similarity": similar,
    }.items():
        answer = client.post(path, json=body)
        assert answer.status_code == 422
        assert "space is not one of this model's spaces: small, same" in answer.text
    answer = without.post("/embed", json={"inputs": "a", "space": "web"})
    assert answer.json()["error"] == "space is set, but this model has only its own space: leave it out"


def test_info_lists_the_spaces(serve: Serve, spacious: Path) -> None:
    info = serve(model=spacious).get("/info").json()
    assert info["spaces"][0] == {
        "name": "small",
        "identity": "tests/small#1",
        "dim": SMALL,
        "english_cosine": 0.75,
        "other_cosine": 0.5,
    }
    assert (info["dim"], info["document_space"]) == (DIM, None)
    assert serve(model=spacious, space="small").get("/info").json()["document_space"] == "small"


# --- documents


def test_documents_and_queries_are_in_the_space_of_the_setting(serve: Serve, spacious: Path) -> None:
    client = serve(model=spacious, space="small")
    client.put("/documents", json={"documents": [{"id": "a", "text": TEXTS[0]}]})
    (found,) = client.post("/search", json={"query": TEXTS[1]}).json()["results"]
    assert found["score"] == pytest.approx(in_small(spacious, TEXTS[0]) @ in_small(spacious, TEXTS[1]), abs=1e-6)


def test_a_store_of_another_space_is_refused(serve: Serve, spacious: Path, tmp_path: Path) -> None:
    client = serve(model=spacious, space="same", data=tmp_path / "data")
    client.put("/documents", json={"documents": [{"id": "a", "text": TEXTS[0]}]})
    client.__exit__(None, None, None)
    for space in ("", "small"):
        with pytest.raises(StoreError, match=r"use that model and space \(CROSSLET_MODEL, CROSSLET_SPACE\)"):
            serve(model=spacious, space=space, data=tmp_path / "data")
    with pytest.raises(ArtifactError, match=r"has no space 'web'; it has small, same \(CROSSLET_SPACE\)"):
        serve(model=spacious, space="web")


def test_what_a_store_records_depends_on_the_map(spacious: Path, tmp_path: Path) -> None:
    build_artifact(tmp_path)
    other = add_space(tmp_path, "small", 2 * AFFINE)
    manifest = load_manifest(spacious)
    found = {stored_as(manifest, space).fingerprint for space in ("", "small", "same")}
    assert len(found | {stored_as(other, "small").fingerprint}) == 4
    assert stored_as(manifest, "") == manifest
    assert stored_as(manifest, "small").dim == SMALL


# --- commands


def test_the_commands_have_the_vectors_of_the_service(
    spacious: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSLET_MODEL", str(spacious))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "data"))
    assert cli.main(["embed", TEXTS[0], "--space", "small"]) == 0
    np.testing.assert_allclose(json.loads(capsys.readouterr().out), in_small(spacious, TEXTS[0]), atol=1e-6)
    documents = tmp_path / "documents.jsonl"
    documents.write_text(json.dumps({"id": "a", "text": TEXTS[0]}) + "\n", encoding="utf-8")
    expected = in_small(spacious, TEXTS[0]) @ in_small(spacious, TEXTS[1])
    assert cli.main(["index", "build", str(documents)]) == 0  # in the model's own space
    monkeypatch.setenv("CROSSLET_SPACE", "small")
    assert cli.main(["search", TEXTS[1]]) == 2
    assert cli.main(["index", "re-embed"]) == 0
    capsys.readouterr()
    assert cli.main(["search", TEXTS[1]]) == 0
    assert json.loads(capsys.readouterr().out)["score"] == pytest.approx(expected, abs=1e-6)


def test_imported_vectors_are_those_of_the_documents_space(
    spacious: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build_artifact(tmp_path / "model")
    add_space(tmp_path / "model", "turned", np.roll(np.eye(DIM, DIM + 1), 1, axis=0))  # of as many dims as its own
    documents = tmp_path / "documents.jsonl"
    documents.write_text(json.dumps({"id": "a", "text": TEXTS[0]}) + "\n", encoding="utf-8")
    vector_D = own(spacious, TEXTS[0])
    np.save(tmp_path / "own.npy", vector_D[None])
    np.save(tmp_path / "turned.npy", np.roll(vector_D, 1)[None])
    np.save(tmp_path / "small.npy", in_small(spacious, TEXTS[0])[None].astype(np.float32))
    for model, space, vectors, status in [
        (tmp_path / "model", "turned", "own.npy", 2),
        (tmp_path / "model", "turned", "turned.npy", 0),
        (spacious, "small", "own.npy", 2),
        (spacious, "small", "small.npy", 0),
    ]:
        monkeypatch.setenv("CROSSLET_MODEL", str(model))
        monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / space))
        monkeypatch.setenv("CROSSLET_SPACE", space)
        assert cli.main(["index", "import", str(documents), str(tmp_path / vectors)]) == status, (space, vectors)
        assert ("1 new" in capsys.readouterr().err) == (status == 0)
