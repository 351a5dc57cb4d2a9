from functools import partial
from pathlib import Path

import numpy as np
import pytest

from export.evaluation.scoring import Choice, evaluate_folder
from tests.training.evaluation.test_encoders import write_sets
from tests.training.evaluation.test_sts import encode_by_length
from tests.training.files import write
from training.errors import EvaluationError

ALL = ("sts", "bitext", "mining", "retrieval")


def test_retrieval_encodes_queries_and_passages_apart(tmp_path: Path) -> None:
    write(tmp_path / "eval/set/queries.tsv", "q\taa")
    write(tmp_path / "eval/set/passages.tsv", "p\tbb")
    write(tmp_path / "eval/set/qrels.tsv", "q\tp")
    asked: dict[str, list[str]] = {"text": [], "query": [], "document": []}

    def encode(kind: str, texts: list[str]) -> np.ndarray:
        asked[kind] += texts
        return encode_by_length(texts)

    ways = {kind: partial(encode, kind) for kind in asked}
    evaluate_folder(ways["text"], tmp_path, Choice(ALL), query=ways["query"], document=ways["document"])
    assert asked == {"text": [], "query": ["aa"], "document": ["bb"]}


def test_a_folder_is_scored_on_all_it_holds(tmp_path: Path) -> None:
    write_sets(tmp_path / "eval")
    scores = evaluate_folder(encode_by_length, tmp_path, Choice(ALL))
    assert scores["stsb_test"].keys() == {"en-de", "en-fr", "average"}
    assert scores["tatoeba_p5_forward"] == {"de": 100.0, "fr": 100.0, "average": 100.0}
    assert scores["tatoeba_xsim"] == {"de": 0.0, "fr": 0.0, "average": 0.0}
    assert scores["tatoeba_mining_f1"]["average"] == 100
    assert scores["tatoeba_mining_threshold"].keys() == {"de", "fr"}
    assert scores["news"]["mrr@10"] == 100
    assert evaluate_folder(encode_by_length, tmp_path / "eval", Choice(ALL)) == scores


def test_only_chosen_kinds_and_languages_are_scored(tmp_path: Path) -> None:
    write_sets(tmp_path)
    scores = evaluate_folder(encode_by_length, tmp_path, Choice(("sts", "bitext"), languages=("de",)))
    assert scores["stsb_test"].keys() == {"en-de", "average"}
    assert {name.partition("_")[0] for name in scores} == {"stsb", "tatoeba"}
    assert evaluate_folder(encode_by_length, tmp_path, Choice(("sts",)))["stsb_test"].keys() > {"en-fr"}


def test_folders_whose_scores_have_one_name_are_refused(tmp_path: Path) -> None:
    write_sets(tmp_path)
    write(tmp_path / "stsb_test/en-de.tsv", "5\ta\tb", "0\ta\tc")
    with pytest.raises(EvaluationError, match=r"stsb/test and .*stsb_test would have one name, stsb_test: rename"):
        evaluate_folder(encode_by_length, tmp_path, Choice(("sts",)))


def test_a_language_is_scored_whatever_its_region() -> None:
    assert Choice(("sts",), languages=("pt",)).allows(["en", "pt_BR"])
    assert not Choice(("sts",), languages=("pt_BR",)).allows(["en", "pt"])
