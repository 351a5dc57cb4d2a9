import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from service.errors import ArtifactError, ParityFailed
from service.model.encoder import load_encoder
from service.model.reranker import Reranker
from service.settings import BUNDLED_RERANKER
from tests.artifacts import MAX_LENGTH, TEXTS
from tests.reranker_artifact import PAIRS, SEP, build_reranker, write_reranker_manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reranker") / "tiny"
    build_reranker(folder)
    return folder


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture(scope="module")
def reranker(folder: Path) -> Reranker:
    return Reranker.load(folder)


def by_hand(folder: Path, ids: tuple[int, ...]) -> float:
    (weight,) = (one for one in onnx.load(str(folder / "model.onnx")).graph.initializer if one.name == "weight")
    token_LD = numpy_helper.to_array(weight)[list(ids)]
    end = ids.index(SEP) + 1
    logit = token_LD[:end].mean(axis=0) @ token_LD[end:].mean(axis=0)
    return float(1 / (1 + np.exp(-logit)))


def test_the_score_is_that_of_the_graph_on_both_sides(reranker: Reranker, folder: Path) -> None:
    for query, passage in PAIRS:
        tokens = reranker.tokenize(query, passage)
        assert reranker.score(tokens) == pytest.approx(by_hand(folder, tokens.input_ids), abs=1e-6)


@given(st.text(), st.text())
def test_any_text_has_a_score(reranker: Reranker, query: str, passage: str) -> None:
    tokens = reranker.tokenize(query, passage)
    assert len(tokens.input_ids) <= MAX_LENGTH
    assert 0 <= reranker.score(tokens) <= 1


def test_a_query_is_tokenised_once_for_all_its_passages(reranker: Reranker, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    pairs = reranker.tokenize.__self__  # type: ignore[attr-defined]
    monkeypatch.setattr(pairs, "_pieces", lambda text, pieces=pairs._pieces: read.append(text) or pieces(text))
    query = "a query of its own " * 50
    for passage in TEXTS:
        assert reranker.tokenize(query, passage).query_cut == reranker.windows(query, passage)[0].query_cut > 0
    assert read.count(query) == 1


def test_only_the_passage_is_cut_and_the_cut_is_reported(reranker: Reranker) -> None:
    short, long = reranker.tokenize(TEXTS[0], TEXTS[1]), reranker.tokenize(TEXTS[0], " ".join(TEXTS))
    end = short.input_ids.index(SEP)
    assert (short.truncated, long.truncated) == (False, True)
    assert (len(long.input_ids), long.input_ids[:end], long.input_ids[-1]) == (MAX_LENGTH, short.input_ids[:end], SEP)
    assert long.full_length > MAX_LENGTH


def test_a_query_has_at_most_half_of_the_length(reranker: Reranker) -> None:
    tokens = reranker.tokenize(" ".join(TEXTS), TEXTS[1])
    assert tokens.input_ids.index(SEP) == 1 + MAX_LENGTH // 2
    assert tokens.truncated


def test_windows_read_the_whole_passage_and_overlap(reranker: Reranker) -> None:
    (whole,) = reranker.windows(TEXTS[0], TEXTS[1])
    assert whole == reranker.tokenize(TEXTS[0], TEXTS[1])
    passage = " ".join(TEXTS)
    windows = reranker.windows(TEXTS[0], passage)
    assert all(len(window.input_ids) == MAX_LENGTH and not window.truncated for window in windows)
    first, second = (window.input_ids[window.input_ids.index(SEP) + 1 : -1] for window in windows[:2])
    assert first[len(first) // 2 :] == second[: len(first) - len(first) // 2]
    assert windows[0].input_ids == reranker.tokenize(TEXTS[0], passage).input_ids
    ids = reranker.tokenize("", passage[-20:]).input_ids
    assert windows[-1].input_ids[-5:] == ids[-5:]


def test_a_score_does_not_depend_on_what_runs_beside_it(reranker: Reranker) -> None:
    tokens = [reranker.tokenize(query, passage) for query, passage in PAIRS]
    alone = [reranker.score(one) for one in tokens]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(reranker.score, tokens * 20))
    assert together == alone * 20


def test_an_encoders_folder_is_refused(tiny_model: Path) -> None:
    with pytest.raises(ArtifactError, match=r"is an encoder, .* CROSSLET_RERANKER takes a re-ranker"):
        Reranker.load(tiny_model)


def test_an_encoder_is_not_loaded_from_a_rerankers_folder(folder: Path) -> None:
    with pytest.raises(ArtifactError, match="is a re-ranker, which CROSSLET_RERANKER takes"):
        load_encoder(folder)


def test_other_scores_than_those_of_the_parity_pack_are_refused(copy: Path, tmp_path: Path) -> None:
    build_reranker(tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / "model.onnx", copy / "model.onnx")
    with pytest.raises(ArtifactError, match=r"model\.onnx has sha256"):
        Reranker.load(copy)
    write_reranker_manifest(copy)
    with pytest.raises(ParityFailed, match=r"parity pair \d+ gives the score .* the pack allows 0\.001"):
        Reranker.load(copy)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"scores": [0.5]}, r"has 16 pairs, 16 id rows, 1 scores"),
        ({"input_ids": [[2, 3, 3]] * len(PAIRS)}, "gives other token ids"),
        ({"pairs": ["text"]}, r"parity\.json: pairs\.0"),
    ],
)
def test_a_parity_pack_that_is_not_whole_is_refused(copy: Path, change: dict, complaint: str) -> None:
    parity = json.loads((copy / "parity.json").read_text()) | change
    (copy / "parity.json").write_text(json.dumps(parity))
    write_reranker_manifest(copy)
    with pytest.raises(ArtifactError, match=complaint):
        Reranker.load(copy)


def test_a_tokenizer_that_parts_no_pair_is_refused(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    before, first, _, *rest = tokenizer["post_processor"]["pair"]
    tokenizer["post_processor"]["pair"] = [before, first, *rest]
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_reranker_manifest(copy)
    with pytest.raises(ArtifactError, match="puts no separator between query and passage"):
        Reranker.load(copy)


@pytest.mark.parametrize("end", ["\n", "\u3000", "\u200b ", "\ufeff"])
def test_white_space_at_the_ends_changes_no_pair(end: str) -> None:
    reranker = Reranker.load(BUNDLED_RERANKER)
    query, passage = "Who plays?", "A man is playing a guitar."
    found = reranker.tokenize(f"{end}{query}{end}", f"{end}{passage}{end}")
    assert found == reranker.tokenize(query, passage)
    assert reranker.windows(query + end, passage + end) == reranker.windows(query, passage)
