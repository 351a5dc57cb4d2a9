import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from fastapi.testclient import TestClient
from onnx import numpy_helper

from export.__main__ import main
from export.cross_encoder import CrossEncoderKind, read_reranker, torch_scores
from export.errors import Refused
from export.graph import PairGraph
from export.request import ExportRequest
from export.session import open_session, run_each
from service.api.app import create_app
from service.model.artifact import load_manifest, load_pair_parity
from service.model.reranker import Reranker
from service.runtime import load_runtime
from service.settings import Settings
from tests.export.reranker_checkpoints import (
    KNOWN,
    MAX_LENGTH,
    PASSAGES,
    PLACES,
    QUERIES,
    TEXTS,
    save_reranker,
    write_record,
)
from training.reranking.checkpoint import load_cross_encoder
from training.reranking.pair_tokens import PairTokenizer

CUT = [(QUERIES[0], " ".join(TEXTS)), (" ".join(TEXTS), PASSAGES[3])]
PAIRS = [*zip(QUERIES, PASSAGES[::4], strict=True), *CUT, ("", "")]


@pytest.fixture(scope="module", params=["bert", "xlm-roberta"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each family, trained for a few steps; read-only for tests."""
    folder = tmp_path_factory.mktemp("reranker") / request.param
    save_reranker(folder, family=request.param)
    return folder


@pytest.fixture(scope="module")
def artifact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As int8; read-only for tests."""
    out = tmp_path_factory.mktemp("artifacts") / checkpoint.name
    assert main(["--checkpoint", str(checkpoint), "--out", str(out), "--min-rank-correlation", "0.9"]) == 0
    return out


def export(checkpoint: Path, out: Path, *more: str) -> int:
    return main(["--checkpoint", str(checkpoint), "--out", str(out), *more])


def scores(reranker: Reranker) -> list[float]:
    return [reranker.score(reranker.tokenize(*pair)) for pair in PAIRS]


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("padding", ["skipped", "computed"])
def test_in_fp32_the_service_gives_the_scores_of_torch(checkpoint: Path, tmp_path: Path, padding: str) -> None:
    assert export(checkpoint, tmp_path / "fp32", "--precision", "fp32", "--padding", padding) == 0
    reranker = Reranker.load(tmp_path / "fp32")
    assert reranker.manifest.padding == padding
    expected = torch_scores(read_reranker(checkpoint), PAIRS)
    np.testing.assert_allclose(scores(reranker), expected, atol=1e-5)
    assert np.ptp(expected) > 0.05  # it has learnt something


def test_the_student_with_recurrence_and_bottleneck_too(tmp_path: Path) -> None:
    save_reranker(tmp_path / "student", family="student")
    assert export(tmp_path / "student", tmp_path / "fp32", "--precision", "fp32") == 0
    reranker = Reranker.load(tmp_path / "fp32")
    expected = torch_scores(read_reranker(tmp_path / "student"), PAIRS)
    np.testing.assert_allclose(scores(reranker), expected, atol=1e-5)


def test_the_service_gives_the_token_ids_of_training(checkpoint: Path, artifact: Path) -> None:
    _, tokenizer, _ = load_cross_encoder(checkpoint)
    trained, served = PairTokenizer(tokenizer, max_length=MAX_LENGTH), Reranker.load(artifact)
    pairs = [*PAIRS, ("unheard-of wörter " * 20, "Ein Mann\tspielt \u3000 Gitarre." * 9), ("a", " ".join(TEXTS[::-1]))]
    for query, passage in pairs:
        assert [*served.tokenize(query, passage).input_ids] == trained.store([query], [passage]).ids.tolist()


def test_segments_come_from_the_graph(checkpoint: Path) -> None:
    model, tokenizer, _ = load_cross_encoder(checkpoint)
    ids_BL, mask_BL = PairTokenizer(tokenizer, max_length=MAX_LENGTH).batch(QUERIES[:3], PASSAGES[:3])
    with torch.inference_mode():
        scores_B1 = PairGraph(model).eval()(ids_BL, mask_BL)
        expected_B = model(ids_BL, mask_BL).sigmoid()
        assert model.has_segments
        segment_H = model.encoder.embeddings.token_type_embeddings.weight[1]
        segment_H += torch.randn(segment_H.shape, generator=torch.Generator().manual_seed(0))
        others_B1 = PairGraph(model).eval()(ids_BL, mask_BL)
    torch.testing.assert_close(scores_B1[:, 0], expected_B)
    assert not torch.allclose(scores_B1, others_B1, atol=1e-4)


def test_int8_keeps_the_order_and_says_what_it_lost(checkpoint: Path, artifact: Path) -> None:
    manifest = load_manifest(artifact)
    assert (manifest.kind, manifest.dim) == ("cross-encoder", 1)
    assert (manifest.precision, manifest.activations) == ("int8", "static")
    figures = manifest.evaluation["export"]
    assert figures["rank_correlation_to_fp32"] > 0.9
    assert (figures["acc1_fp32"], figures["acc1_int8"], figures["questions"]) == (100, 100, 6)
    assert figures["max_difference_to_torch"] < 1e-5
    reranker = Reranker.load(artifact)
    expected = torch_scores(read_reranker(checkpoint), PAIRS)
    np.testing.assert_allclose(scores(reranker), expected, atol=0.05)


def test_int8_score_is_the_same_bits_alone_and_in_company(artifact: Path) -> None:
    reranker = Reranker.load(artifact)
    tokens = [reranker.tokenize(*pair) for pair in PAIRS]
    alone = [reranker.score(one) for one in tokens]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(reranker.score, tokens * 8)) == alone * 8
    assert [Reranker.load(artifact).score(one) for one in tokens[:2]] == alone[:2]


def test_words_in_4_bits(checkpoint: Path, tmp_path: Path, artifact: Path) -> None:
    assert export(checkpoint, tmp_path / "out", "--word-bits", "4", "--min-rank-correlation", "0.9") == 0
    Reranker.load(tmp_path / "out")
    assert (tmp_path / "out/model.onnx").stat().st_size < (artifact / "model.onnx").stat().st_size


def test_the_parity_pack_has_pairs_of_which_two_are_cut(artifact: Path) -> None:
    parity = load_pair_parity(artifact)
    assert parity.pairs[:2] == (
        ("A man is playing a guitar.", "Ein Mann spielt Gitarre."),
        ("A man is playing a guitar.", "Die Bibliothek öffnet um neun Uhr."),
    )
    assert len(parity.input_ids[-2]) == MAX_LENGTH
    reranker = Reranker.load(artifact)
    assert all(reranker.tokenize(*pair).truncated for pair in parity.pairs[-2:])


def test_a_broken_graph_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Its head turned round: the best passage comes last."""
    kind = CrossEncoderKind(ExportRequest(checkpoint, tmp_path / "out", "int8"))
    assert export(checkpoint, tmp_path / "out", "--precision", "fp32") == 0
    model = onnx.load(str(tmp_path / "out/model.onnx"))
    for tensor in model.graph.initializer:
        if tensor.name.startswith("head."):
            tensor.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, str(tmp_path / "broken.onnx"))
    whole, broken = (
        run_each(open_session(path), kind.gate_rows(print), "score")
        for path in (tmp_path / "out/model.onnx", tmp_path / "broken.onnx")
    )
    kind.check_int8(whole, whole, print)
    with pytest.raises(Refused, match=r"rank correlation to fp32 is -.*; acc@1 falls by 100.00 points from 100.00 to"):
        kind.check_int8(whole, broken, print)


def test_questions_and_calibration_pairs_of_ones_own(
    artifact: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = Path(shutil.copytree(checkpoint, tmp_path / "bare"))
    (bare / "crosslet.json").unlink()  # as a stage's checkpoint
    (tmp_path / "pairs.tsv").write_text("".join(f"{q}\t{p}\n" for q, p in zip(QUERIES, PASSAGES[::4], strict=True)))
    rows = [
        {"query": QUERIES[row], "positives": [PASSAGES[4 * row]], "negatives": PASSAGES[24 + row : 28 + row]}
        for row in range(5)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--questions", str(tmp_path / "questions.jsonl"), "--calibration", str(tmp_path / "pairs.tsv")]
    assert export(bare, tmp_path / "out", *given, "--min-rank-correlation", "0.9") == 0
    figures = load_manifest(tmp_path / "out").evaluation["export"]
    assert (figures["questions"], figures["acc1_fp32"]) == (5, 100)
    assert "12 calibration pairs" in capsys.readouterr().err
    assert export(bare, tmp_path / "dynamic", "--min-rank-correlation", "0.9") == 0
    assert "acc@1 is not measured" in capsys.readouterr().err
    assert load_manifest(tmp_path / "dynamic").activations == "dynamic"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--sts", "x.tsv"], "--sts is for encoders: .* is a re-ranker"),
        (["--trust-remote-code"], "--trust-remote-code is for encoders"),
        (["--precision", "fp32", "--questions", "x.jsonl"], "--questions is for --precision int8"),
        (["--questions", "none.jsonl"], r"none\.jsonl.* \(--questions\)"),
        (["--calibration", "none.tsv"], r"none\.tsv.* \(--calibration\)"),
        (["--min-rank-correlation", "1.01"], r"int8 refused: rank correlation to fp32 .* \(--min-rank-correlation\)$"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    options: list[str], reason: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(checkpoint, tmp_path / "out", *options) == 2
    assert re.search(reason, complaint(capsys))
    assert not (tmp_path / "out").exists()


def test_options_of_rerankers_are_refused_for_encoders(
    student: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(student, tmp_path / "out", "--max-acc1-drop", "3") == 2
    assert "--max-acc1-drop is for re-rankers" in complaint(capsys)


def test_a_checkpoint_that_is_not_whole_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    (copy / "head.safetensors").unlink()
    assert export(copy, tmp_path / "out") == 2
    assert "cannot be loaded" in complaint(capsys)
    shutil.copy(checkpoint / "head.safetensors", copy)
    write_record(copy, ranking_gate={"queries": "q"})
    assert export(copy, tmp_path / "out") == 2
    assert re.search(r"crosslet\.json: ranking_gate\.queries", complaint(capsys))


def test_the_card_says_what_it_is_and_its_python_runs(
    artifact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (artifact / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-ranking" in card
    assert "### xset, mrr\n\n|  | mixed |\n| --- | ---: |\n| re-ranker | 61.2 |\n| BM25 | 40.0 |\n" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(artifact)
    exec(code, {})  # noqa: S102 - the card's own example
    reranker = Reranker.load(artifact)
    expected = reranker.score(reranker.tokenize("Who plays?", "A man is playing a guitar."))
    assert float(capsys.readouterr().out) == pytest.approx(expected, abs=1e-6)


def test_reranker_scores_alike_over_http_and_alone(artifact: Path, tmp_path: Path) -> None:
    reranker = Reranker.load(artifact)
    settings = Settings(reranker=artifact, rerank_weight="alone", data=tmp_path)
    with TestClient(create_app(load_runtime(settings)), base_url="http://localhost") as client:
        for query in QUERIES[:2]:
            plain = client.post("/v2/rerank", json={"query": query, "documents": PASSAGES}).json()
            assert plain["model"] == reranker.manifest.name
            scores = {one["index"]: one["relevance_score"] for one in plain["results"]}
            for index, passage in enumerate(PASSAGES):
                assert scores[index] == reranker.score(reranker.tokenize(query, passage))
            assert plain["results"][0]["index"] < KNOWN * len(PLACES)  # it was trained to tell these from the others
            body = {"query": query, "documents": PASSAGES, "windows": True}
            assert client.post("/v2/rerank", json=body).json()["results"] == plain["results"]  # all of them fit
