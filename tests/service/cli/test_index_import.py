import json
from pathlib import Path

import numpy as np
import pytest

from service.documents.collections import Collection
from service.model.encoder import load_encoder
from service.offline import vector_import
from service.offline.store_file import open_store_file
from service.settings import Settings
from tests.artifacts import DIM, TEXTS, build_artifact
from tests.service.cli.conftest import Crosslet
from tests.service.offline.files import DOCUMENTS, read_jsonl, write_jsonl

pytestmark = pytest.mark.usefixtures("local")

NEW = "12 documents read: 12 new, 0 replaced, 0 unchanged"


@pytest.fixture(name="vectors_ND")
def vectors_of_the_model(tiny_model: Path) -> np.ndarray:
    """What the model makes of the texts of DOCUMENTS."""
    return np.stack([one.vector for one in load_encoder(tiny_model).encode_all(TEXTS)])


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "documents.jsonl", DOCUMENTS)


def load(crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray, *options: str, status: int = 0) -> str:
    """The sentence that `index import` ends with."""
    path = documents.with_name("vectors.npy")
    np.save(path, vectors_ND)
    return crosslet("index", "import", documents, path, *options, status=status)[1].splitlines()[-1]


def stored() -> dict[str, np.ndarray]:
    with open_store_file(Settings().documents_path) as file:
        return {row.id: np.frombuffer(row.passages[0].vector, "<f4") for row in file.documents(with_vectors=True)}


def test_an_imported_store_is_the_one_that_a_build_makes(
    crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray
) -> None:
    assert load(crosslet, documents, vectors_ND) == NEW
    assert read_jsonl(crosslet("index", "export")[0]) == DOCUMENTS
    assert "12 documents are intact" in crosslet("index", "verify")[1]
    for row, vector_D in zip(DOCUMENTS, vectors_ND, strict=True):
        assert np.array_equal(stored()[str(row["id"])], vector_D)
    assert crosslet("index", "build", documents)[1].splitlines()[-1] == NEW.replace(
        "12 new, 0 replaced, 0 unchanged", "0 new, 0 replaced, 12 unchanged"
    )


def test_interrupted_import_continues_where_it_stopped(
    crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_import, "BATCH_DOCUMENTS", 5)
    put = Collection.put
    puts: list[list[str]] = []

    def stopped_in_the_second(self: Collection, given: list, vectors: np.ndarray) -> int:
        puts.append([document.id for document in given])
        if len(puts) == 2:
            raise KeyboardInterrupt
        return put(self, given, vectors)

    monkeypatch.setattr(Collection, "put", stopped_in_the_second)
    assert load(crosslet, documents, vectors_ND, status=2) == (
        "crosslet: stopped: 5 documents read: 5 new, 0 replaced, 0 unchanged; run the same command again to continue"
    )
    assert list(stored()) == [str(row["id"]) for row in DOCUMENTS[:5]]
    assert load(crosslet, documents, vectors_ND) == "12 documents read: 7 new, 0 replaced, 5 unchanged"
    assert np.array_equal(np.stack(list(stored().values())), vectors_ND)
    assert [len(ids) for ids in puts] == [5, 5, 5, 2]
    write_jsonl(documents, [DOCUMENTS[0] | {"metadata": {"lang": "xx"}}, *DOCUMENTS[1:]])
    assert load(crosslet, documents, vectors_ND) == "12 documents read: 0 new, 1 replaced, 11 unchanged"


@pytest.mark.parametrize(
    ("value", "fault"),
    [(0, "is zero"), (np.nan, "has numbers that are not finite"), (np.inf, "has numbers that are not finite")],
)
def test_vector_without_direction_is_named_by_its_line(
    crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray, value: float, fault: str
) -> None:
    write_jsonl(documents, ["", *DOCUMENTS])  # a blank line has no vector
    vectors_ND[7] = value
    sentence = load(crosslet, documents, vectors_ND, status=2)
    vectors = documents.with_name("vectors.npy")
    assert sentence == f"crosslet: {documents}: line 9: its vector, number 8 of {vectors}, {fault}"
    assert stored() == {}


def test_import_mismatches_are_one_sentence_with_both_numbers(
    crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray
) -> None:
    vectors = documents.with_name("vectors.npy")
    for given_ND, sentence in (
        (vectors_ND[:, :8], f"{vectors} has vectors of 8 dims; the model's have {DIM}"),
        (vectors_ND[:-1], f"{documents} has 12 documents; {vectors} has 11 vectors"),
        (np.concatenate([vectors_ND, vectors_ND]), f"{documents} has 12 documents; {vectors} has 24 vectors"),
        (vectors_ND[:0], f"{documents} has 12 documents; {vectors} has 0 vectors"),
    ):
        assert load(crosslet, documents, given_ND, status=2) == f"crosslet: {sentence}"
    write_jsonl(documents, [*DOCUMENTS[:-1], DOCUMENTS[2]])
    assert load(crosslet, documents, vectors_ND, status=2) == (
        f'crosslet: {documents}: document "2" is on line 3 and on line 12'
    )
    write_jsonl(documents, [*DOCUMENTS[:-1], {"id": "x", "text": ""}])
    assert f"{documents}: line 12: text: String should have" in load(crosslet, documents, vectors_ND, status=2)
    assert "- is not a regular file" in crosslet("index", "import", "-", vectors, status=2)[1]
    assert stored() == {}


def test_vectors_of_another_model_or_order_are_refused(
    crosslet: Crosslet, documents: Path, vectors_ND: np.ndarray, tmp_path: Path
) -> None:
    build_artifact(tmp_path / "other", seed=7)
    other = load_encoder(tmp_path / "other")
    other_ND = np.stack([one.vector for one in other.encode_all(TEXTS)])
    for given_ND in (other_ND, np.roll(vectors_ND, 1, axis=0)):
        cosine = np.median((given_ND * vectors_ND).sum(axis=1))
        sentence = load(crosslet, documents, given_ND, status=2)
        assert f"the vectors of 12 texts have a median cosine of {cosine:.3f} with those of tiny" in sentence
        assert "less than 0.9" in sentence
        assert "--no-model-check" in sentence
        assert stored() == {}
    assert load(crosslet, documents, other_ND, "--no-model-check") == NEW
    assert np.array_equal(np.stack(list(stored().values())), other_ND)


def test_compared_texts_are_few_and_from_the_whole_file(crosslet: Crosslet, tmp_path: Path, tiny_model: Path) -> None:
    texts = [f"{TEXTS[number % len(TEXTS)]} {number}" for number in range(600)]
    path = write_jsonl(tmp_path / "many.jsonl", [{"id": f"{n}", "text": text} for n, text in enumerate(texts)])
    made_ND = np.stack([one.vector for one in load_encoder(tiny_model).encode_all(texts)])
    made_ND[200:] = -made_ND[200:]
    sentence = load(crosslet, path, made_ND, status=2)
    assert "the vectors of 32 texts have a median cosine of -1.000" in sentence
    made_ND[200:] = -made_ND[200:]
    scaled_ND = (made_ND * np.arange(1, 601)[:, None]).astype(np.float16)
    assert load(crosslet, path, scaled_ND).startswith("600 documents read: 600 new")
    assert np.allclose(np.stack(list(stored().values())), made_ND, atol=1e-3)


def test_no_documents_with_no_vectors_are_an_import_of_none(crosslet: Crosslet, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "none.jsonl", [])
    assert load(crosslet, path, np.zeros((0, DIM), np.float32)) == "0 documents read: 0 new, 0 replaced, 0 unchanged"
    assert json.loads(crosslet("index", "stats")[0])["documents"] == 0


def test_failing_text_is_imported_and_not_compared(crosslet: Crosslet, tmp_path: Path, failing_model: Path) -> None:
    rows = [*DOCUMENTS[:2], {"id": "odd", "text": "kaputt"}]
    encoder = load_encoder(failing_model)
    vectors_ND = np.stack([encoder.encode(str(row["text"])).vector for row in rows[:2]] + [np.eye(DIM, dtype="f4")[0]])
    model = ("--model", str(failing_model))
    assert load(crosslet, write_jsonl(tmp_path / "a.jsonl", rows), vectors_ND, *model).startswith("3 documents read: 3")
    sentence = load(crosslet, write_jsonl(tmp_path / "a.jsonl", rows[2:]), vectors_ND[2:], *model, status=2)
    assert "failed on all 1 texts to compare: the model gave no finite vector" in sentence
