import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fastapi.testclient import TestClient
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    Data2VecTextConfig,
    DistilBertConfig,
    PretrainedConfig,
    RobertaConfig,
)

from export.__main__ import main
from export.bi_encoder import CheckpointPrompts, read_checkpoint
from export.errors import BadCheckpoint, BadRequest
from export.gate import cosines
from export.restore.__main__ import main as restore
from service.api.app import create_app
from service.model.artifact import load_manifest, load_parity
from service.model.encoder import load_encoder
from service.runtime import load_runtime
from service.settings import Settings
from tests.export.checkpoints import MINILM, PARITY_TEXTS, SMALL_BODY, save_student, write_record
from tests.export.test_card import names_of

VOCAB_SIZE = 30_522  # MiniLM's
BODY = {**SMALL_BODY, "vocab_size": VOCAB_SIZE}
PROMPTS = {"query": "search this: ", "passage": "a paragraph of text: ", "clustering": "what is it about? "}
TEXTS = ["A man is playing a guitar.", "Ein Mann spielt Gitarre.", "The train leaves at noon."]
DIM, KEPT = 24, 16  # of the student, and of its artifact


@pytest.fixture
def copy(student: Path, tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(student, tmp_path / "copy"))


def test_the_record_names_the_model_unless_options_do(student: Path) -> None:
    for options, name, languages in (
        ({}, "tiny-student", ("en", "de")),
        ({"name": "other", "languages": ("tr",)}, "other", ("tr",)),
    ):
        record = read_checkpoint(student, **options).record
        assert (record.name, record.languages, record.max_length) == (name, languages, 32)


def test_the_reference_cuts_where_the_record_says(copy: Path) -> None:
    write_record(copy, max_length=7)
    assert read_checkpoint(copy).model.max_seq_length == 7


def test_checkpoint_without_record_needs_name_and_languages() -> None:
    with pytest.raises(BadRequest, match=r"has no crosslet.json: give --name and --languages"):
        read_checkpoint(MINILM, name="minilm")
    assert read_checkpoint(MINILM, name="minilm", languages=("en",)).record.max_length == 256


def test_the_tokenizer_neither_cuts_nor_pads(student: Path) -> None:
    tokenizer = read_checkpoint(student).tokenizer
    assert tokenizer.truncation is None
    assert tokenizer.padding is None
    assert tokenizer.encode("a").tokens == ["[CLS]", "a", "[SEP]"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", r"nowhere does not exist \(--checkpoint\)"),
        ("", r"has no modules.json: it is not a sentence-transformers checkpoint"),
        ("copy", r"copy cannot be loaded \(.+\)$"),
    ],
)
def test_a_folder_of_something_else_is_one_line(copy: Path, name: str, reason: str) -> None:
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(BadCheckpoint, match=reason) as caught:
        read_checkpoint(copy.parent / name)
    assert "\n" not in str(caught.value)


def test_a_model_without_a_transformer_is_refused(tmp_path: Path) -> None:
    words = StaticEmbedding(AutoTokenizer.from_pretrained(MINILM), embedding_dim=8)
    SentenceTransformer(modules=[words], device="cpu").save(str(tmp_path / "static"), create_model_card=False)
    with pytest.raises(BadCheckpoint, match="static begins with a StaticEmbedding, not with a transformer body"):
        read_checkpoint(tmp_path / "static", name="x", languages=("en",))


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (BertConfig(**BODY), 20),
        (RobertaConfig(**BODY, pad_token_id=1), 22),
        (DistilBertConfig(vocab_size=VOCAB_SIZE, dim=32, n_layers=2, n_heads=4, max_position_embeddings=66), 20),
        (Data2VecTextConfig(**BODY, pad_token_id=1), 66),  # numbers positions from an offset that nothing here knows
    ],
    ids=lambda value: getattr(value, "model_type", value),
)
def test_unreachable_positions_are_dropped(config: PretrainedConfig, kept: int, tmp_path: Path) -> None:
    AutoModel.from_config(config).save_pretrained(tmp_path / "body")
    tokenizer = AutoTokenizer.from_pretrained(MINILM, model_input_names=["input_ids", "attention_mask"])
    tokenizer.save_pretrained(tmp_path / "body")
    modules = [Transformer(str(tmp_path / "body"), max_seq_length=20), Pooling(32, "mean")]
    whole = SentenceTransformer(modules=modules, device="cpu").eval()
    whole.save(str(tmp_path / "model"), create_model_card=False)
    write_record(tmp_path / "model", max_length=20)
    short = read_checkpoint(tmp_path / "model").model
    assert len(short[0].auto_model.embeddings.position_embeddings.weight) == kept
    texts = ["a", "a b c " * 30]
    np.testing.assert_allclose(short.encode(texts), whole.encode(texts), atol=1e-6)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"sts_gate": [["high", "a", "b"]]}, r"crosslet.json: sts_gate.0.0: Input should be a valid number"),
        ({"max_length": 65}, "max_length is 65, but the body has 64 positions"),
    ],
)
def test_a_record_that_cannot_be_met_is_refused(copy: Path, record: dict[str, object], complaint: str) -> None:
    write_record(copy, **record)
    with pytest.raises(BadCheckpoint, match=complaint):
        read_checkpoint(copy)


def configure(folder: Path, **changes: object) -> Path:
    """Change config_sentence_transformers.json."""
    path = folder / "config_sentence_transformers.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | changes), encoding="utf-8")
    return folder


def unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student that has prompts, one of them its default, and of which 16 of 24 dims are kept."""
    folder = tmp_path_factory.mktemp("prompted")
    save_student(folder, recurrences=2, dim=DIM, record={})
    return configure(folder, prompts=PROMPTS, default_prompt_name="clustering", truncate_dim=KEPT)


@pytest.fixture(scope="module")
def oracle(prompted: Path) -> SentenceTransformer:
    return SentenceTransformer(str(prompted), device="cpu")


@pytest.fixture(scope="module")
def artifact(prompted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("artifacts") / "prompted"
    assert main(["--checkpoint", str(prompted), "--out", str(out), "--precision", "fp32"]) == 0
    return out


@pytest.fixture(scope="module")
def client(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    settings = Settings(model=artifact, data=tmp_path_factory.mktemp("data"), workers=1)
    with TestClient(create_app(load_runtime(settings)), base_url="http://localhost") as client:
        yield client


def test_the_manifest_has_them(artifact: Path) -> None:
    manifest = load_manifest(artifact)
    assert manifest.prompts == {"query": PROMPTS["query"], "document": "", **PROMPTS}
    assert (manifest.default_prompt_name, manifest.dim, manifest.truncate_dim) == ("clustering", KEPT, KEPT)


def test_the_parity_pack_has_the_vectors_of_encode(artifact: Path, oracle: SentenceTransformer) -> None:
    parity = load_parity(artifact, load_manifest(artifact))
    expected = unit(oracle.encode(list(parity.texts)))
    np.testing.assert_allclose(np.array(parity.embeddings), expected, atol=1e-5)
    asked = [PROMPTS["clustering"] + text for text in parity.texts]
    ids = oracle.tokenizer(asked, truncation=True, max_length=32)["input_ids"]
    assert [list(row) for row in parity.input_ids] == ids


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "clustering"),
        ({"prompt_name": None, "input_type": None}, "clustering"),
        ({"prompt_name": "query"}, "query"),
        ({"prompt_name": "document"}, "document"),  # empty: no prompt, though there is a default one
        ({"input_type": "search_query"}, "query"),
        ({"input_type": "document"}, "passage"),
        ({"input_type": "search_document"}, "passage"),
        ({"input_type": "clustering"}, "clustering"),
    ],
)
def test_service_gives_the_vectors_of_encode_with_a_prompt(
    client: TestClient, oracle: SentenceTransformer, options: dict[str, object], name: str
) -> None:
    expected = unit(oracle.encode(TEXTS, prompt_name=name))
    texts = [oracle.prompts[name] + text for text in TEXTS]
    tokens = sum(len(ids) for ids in oracle.tokenizer(texts, truncation=True, max_length=32)["input_ids"])
    answer = client.post("/embed", json={"inputs": TEXTS} | options)
    np.testing.assert_allclose(np.array(answer.json()), expected, atol=1e-5)
    assert answer.headers["x-tokens"] == str(tokens)
    answer = client.post("/v1/embeddings", json={"input": TEXTS} | options)
    np.testing.assert_allclose([item["embedding"] for item in answer.json()["data"]], expected, atol=1e-5)
    assert answer.json()["usage"]["prompt_tokens"] == tokens
    compared = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}, "parameters": options}
    np.testing.assert_allclose(client.post("/similarity", json=compared).json(), expected[1:] @ expected[0], atol=1e-5)


def test_a_text_that_is_cut_keeps_its_prompt(client: TestClient, oracle: SentenceTransformer) -> None:
    long = "guitar " * 100
    answer = client.post("/embed", json={"inputs": long, "prompt_name": "query"})
    np.testing.assert_allclose(answer.json()[0], unit(oracle.encode([long], prompt_name="query"))[0], atol=1e-5)
    assert (answer.headers["x-tokens"], answer.headers["x-truncated"]) == ("32", "1; indices=0")
    refused = client.post("/embed", json={"inputs": long, "prompt_name": "query", "truncate": False})
    tokens = len(oracle.tokenizer(PROMPTS["query"] + long)["input_ids"])
    assert f"inputs has {tokens} tokens; the model reads 32" in refused.json()["error"]


def test_fewer_dimensions_are_those_of_encode_more_are_refused(client: TestClient, oracle: SentenceTransformer) -> None:
    info = client.get("/info").json()
    assert (info["prompts"]["passage"], info["default_prompt_name"]) == (PROMPTS["passage"], "clustering")
    assert info["dim"] == KEPT
    answer = client.post("/embed", json={"inputs": TEXTS, "dimensions": 8}).json()
    np.testing.assert_allclose(answer, unit(oracle.encode(TEXTS, truncate_dim=8)), atol=1e-5)
    refused = client.post("/embed", json={"inputs": TEXTS, "dimensions": DIM})
    assert (refused.status_code, refused.json()["error"]) == (
        422,
        f"dimensions is {DIM}; the model has {KEPT}: send at most that, or leave it out",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_name": "web"}, "prompt_name is not one of this model's prompts: query, document, passage"),
        ({"input_type": "classification"}, "input_type is not one of this model's prompts: query, document,"),
        ({"input_type": "query", "prompt_name": "query"}, "prompt_name and input_type are both set; send one of them"),
    ],
)
def test_unknown_prompt_is_refused_with_the_known_ones(
    client: TestClient, options: dict[str, str], message: str
) -> None:
    for route, body in {"/embed": {"inputs": "a"}, "/": {"inputs": "a"}, "/search": {"query": "a"}}.items():
        answer = client.post(route, json=body | options)
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(message)
    answer = client.post("/v1/embeddings", json={"input": "a"} | options)
    assert answer.json()["error"]["message"].startswith(message)
    answer = client.post("/similarity", json={"inputs": {"pairs": [["a", "b"]]}, "parameters": options})
    assert answer.json()["error"].startswith(f"parameters: {message}")


def test_the_cards_python_gives_the_vectors_of_encode(
    artifact: Path, oracle: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = (artifact / "README.md").read_text(encoding="utf-8")
    assert '| passage | `` "a paragraph of text: " `` |' in card
    names = names_of(artifact, monkeypatch)
    np.testing.assert_allclose(names["embed"](TEXTS[0]), unit(oracle.encode(TEXTS[:1]))[0], atol=1e-5)


def test_the_prompts_are_restored(artifact: Path, oracle: SentenceTransformer, tmp_path: Path) -> None:
    assert restore([str(artifact), "--out", str(tmp_path / "out")]) == 0
    restored = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert (restored.prompts, restored.default_prompt_name) == (oracle.prompts, "clustering")
    np.testing.assert_allclose(unit(restored.encode(TEXTS)), unit(oracle.encode(TEXTS)), atol=1e-5)
    again = restored.encode_query(TEXTS)
    np.testing.assert_allclose(unit(again), unit(oracle.encode_query(TEXTS)), atol=1e-5)


def test_other_prompts_are_another_space(artifact: Path, prompted: Path, tmp_path: Path) -> None:
    """Else a store would mix the vectors of both."""
    other = configure(Path(shutil.copytree(prompted, tmp_path / "other")), prompts=PROMPTS | {"passage": "text: "})
    assert main(["--checkpoint", str(other), "--out", str(tmp_path / "out"), "--precision", "fp32"]) == 0
    one, two = load_manifest(artifact), load_manifest(tmp_path / "out")
    assert one.files["model.onnx"].sha256 == two.files["model.onnx"].sha256
    assert one.fingerprint != two.fingerprint


def test_int8_is_calibrated_and_gated_with_the_prompts(prompted: Path, tmp_path: Path) -> None:
    texts = [text for texts in PARITY_TEXTS.values() for text in texts]
    copy = Path(shutil.copytree(prompted, tmp_path / "copy"))
    write_record(copy, calibration_texts=texts)
    out = tmp_path / "out"
    assert main(["--checkpoint", str(copy), "--out", str(out), "--max-sts-drop", "20"]) == 0
    manifest = load_manifest(out)
    encoder, model = load_encoder(out), SentenceTransformer(str(copy), device="cpu")
    found = np.stack([encoder.encode(encoder.prompts.default + text).vector for text in texts])
    assert cosines(found, unit(model.encode(texts))).min() > 0.98
    assert manifest.evaluation["export"]["parity_texts"] == 4 + 3  # each text, and each prompt but the default's


def test_calibration_has_prompts_in_turn_and_the_gate_each_once() -> None:
    prompts = CheckpointPrompts({"query": "q: ", "document": "", "web": "q: ", "sts": "s: "}, None)
    assert prompts.in_turn(["a", "b", "c", "d"]) == ["a", "q: b", "s: c", "d"]
    asked = prompts.over(["a", "b"])
    assert [prompts.before(*pair) for pair in asked] == ["a", "b", "q: a", "s: b"]
    by_default = CheckpointPrompts(prompts.texts, "sts")
    assert [by_default.before(*pair) for pair in by_default.over(["a", "b"])] == ["s: a", "s: b", "q: a", "b"]


def test_a_folder_without_prompts_has_none(student_artifact: Path) -> None:
    text = (student_artifact / "manifest.json").read_text(encoding="utf-8")
    assert not {"prompts", "default_prompt_name", "truncate_dim"} & json.loads(text).keys()  # older services read it
    assert load_manifest(student_artifact).prompts == {}


def test_dims_beyond_the_models_own_change_nothing(copy: Path, student_artifact: Path, tmp_path: Path) -> None:
    configure(copy, truncate_dim=DIM + 1)
    assert main(["--checkpoint", str(copy), "--out", str(tmp_path / "out"), "--precision", "fp32"]) == 0
    assert load_manifest(tmp_path / "out").fingerprint == load_manifest(student_artifact).fingerprint
    assert load_manifest(tmp_path / "out").truncate_dim is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truncate_dim": "16"}, "its truncate_dim is '16'; it must be a whole number"),
        ({"prompts": {"query": ["search: "]}}, "prompt 'query' is not valid text"),
        ({"prompts": {"query": "\ud800"}}, "prompt 'query' is not valid text"),
        ({"prompts": {"query": "guitar " * 40}}, "prompt 'query' has 42 tokens and the model reads 32: no room"),
        ({"prompts": ["query"]}, "cannot be loaded ("),
        ({"prompts": PROMPTS, "default_prompt_name": "web"}, "cannot be loaded (Default prompt name 'web' not found"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(copy: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadCheckpoint) as caught:
        read_checkpoint(configure(copy, **changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_prompts_that_are_not_pooled_are_refused(copy: Path) -> None:
    pooling = copy / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text(encoding="utf-8")) | {"include_prompt": False}))
    assert read_checkpoint(copy).prompts.texts == {}  # without prompts it says nothing
    with pytest.raises(BadCheckpoint, match=r"pools without its prompts \(include_prompt is false\)"):
        read_checkpoint(configure(copy, prompts=PROMPTS))
