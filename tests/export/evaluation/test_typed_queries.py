"""Search as people type it: the bundled set keeps its promises, and small sets are measured by hand."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from export.evaluation.scoring import EVERY_KIND, Choice, evaluate_folder
from export.evaluation.typed_queries import TypedSet, read_typed
from scripts.typing_set import SOURCES, TARGET, build, distance, files
from training.corpora.leakage import EvaluationSentences
from training.errors import EvaluationError
from training.evaluation.search import BUNDLED

CODE_KINDS = {f"code{kind}" for kind in ("", "_case", "_joined", "_cut", "_swapped", "_digits", "_start")}
KINDS = CODE_KINDS | {"prefix_4", "prefix_6", "typo", "compound", "inflected", "chinese", "names", "faq", "faq_abroad"}
DOCUMENTS = [
    {"id": "a", "language": "de", "text": "Norda Wasserkocher. Artikelnummer WK-1702.", "topic": "one"},
    {"id": "b", "language": "en", "text": "Harrowby kettle. Part number HK-99.", "topic": "one"},
    {"id": "c", "language": "fr", "text": "Bouilloire Corvane | Garantie de trois ans."},
]
QUERIES = [
    {"id": "1", "language": "de", "kind": "code", "split": "test", "text": "wk1702", "documents": ["a"]},
    {"id": "2", "language": "fr", "kind": "code", "split": "test", "text": "Corvane", "documents": ["a", "b"]},
    {"id": "3", "language": "fr", "kind": "name", "split": "dev", "text": "garantie", "documents": ["c"]},
]
AXES = {"Norda": [1, 0, 0], "Harrowby": [0, 1, 0], "Bouilloire": [0, 0, 1], " Garantie": [0.6, 0, 0.8]}
QUERY_AXES = {"wk1702": [0.7, 0.71, 0], "Corvane": [0, 0.95, 0.3], "garantie": [0.8, 0, 0.6]}


def encode(texts: list[str]) -> np.ndarray:
    return np.array([next(axis for word, axis in AXES.items() if text.startswith(word)) for text in texts], np.float32)


def encode_queries(texts: list[str]) -> np.ndarray:
    return np.array([QUERY_AXES[text] for text in texts], np.float32)


def split(text: str) -> tuple[tuple[int, int], ...]:
    place = text.find("|")
    return () if place < 0 else ((0, place), (place + 1, len(text)))


def write(folder: Path, documents: list[dict[str, object]], queries: list[dict[str, object]]) -> Path:
    folder.mkdir(parents=True)
    for name, rows in (("documents", documents), ("typed", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    return folder


@pytest.fixture(scope="module")
def bundled() -> TypedSet:
    typed = read_typed(BUNDLED / "typing")
    assert typed is not None
    return typed


def test_a_small_set_is_measured_in_each_mode(tmp_path: Path) -> None:
    write(tmp_path / "eval" / "shop", DOCUMENTS, QUERIES)
    scores = evaluate_folder(encode, tmp_path, Choice(("typing",)), query=encode_queries, split=split)
    code = scores["shop_test_code"]
    assert code["queries"] == 2
    assert [code[mode] for mode in ("dense", "keywords", "hybrid")] == [50, 50, 100]
    assert code["hybrid_top3"] == 100
    assert (code["gain_low"], code["gain"], code["gain_high"]) == (0, 50, 100)
    assert scores["shop_test_in_de"]["hybrid"] == 100
    assert scores["shop_dev_all"]["dense"] == 100  # its second passage
    assert scores["shop_test_topics"] == {"dense": 1, "keywords": 0.5, "hybrid": 1}


def test_languages_limit_the_queries(tmp_path: Path) -> None:
    write(tmp_path / "shop", DOCUMENTS, QUERIES)
    scores = evaluate_folder(encode, tmp_path, Choice(("typing",), ("de",)), query=encode_queries)
    assert scores["shop_test_all"]["queries"] == 1
    assert "shop_dev_all" not in scores


@pytest.mark.parametrize(
    ("documents", "query", "complaint"),
    [
        (DOCUMENTS, {"documents": ["z"]}, "query 1 names no list of documents"),
        *((DOCUMENTS, {"documents": right}, "query 1 names no list of documents") for right in ([], "ab", 12, [["a"]])),
        (DOCUMENTS, {"split": "train"}, "query 1 is of no split of dev, test"),
        ([*DOCUMENTS, DOCUMENTS[0]], {}, "line 4 repeats the id a of line 1"),
        (DOCUMENTS, {"kind": None}, "line 1"),
    ],
)
def test_a_malformed_set_is_refused(
    documents: list[dict[str, object]], query: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(EvaluationError, match=complaint):
        read_typed(write(tmp_path / "shop", documents, [{**QUERIES[0], **query}]))


def test_the_script_writes_the_bundled_set() -> None:
    for name, text in files().items():
        assert (TARGET / name).read_text(encoding="utf-8") == text


def test_every_kind_has_a_hundred_queries_half_of_them_dev(bundled: TypedSet) -> None:
    sizes = Counter(query.kind for query in bundled.queries)
    assert sizes.keys() == KINDS
    assert min(sizes.values()) >= 100
    dev = Counter(query.kind for query in bundled.queries if query.is_dev)
    assert all(abs(sizes[kind] - 2 * dev[kind]) <= 16 for kind in KINDS)  # one a language
    assert len({document.text for document in bundled.documents}) == len(bundled.documents) >= 1_000


def test_the_bundled_set_has_the_languages_it_says(bundled: TypedSet) -> None:
    languages = defaultdict(set)
    for query in bundled.queries:
        languages[query.kind].add(query.language)
    assert len(set.union(*languages.values())) == 16
    assert languages["compound"] == {"de", "nl"}
    assert languages["inflected"] == {"cs", "ko", "pl", "ru", "tr"}
    assert languages["chinese"] == {"zh", "zh_Hant"}
    assert len(languages["faq"]) == 8
    assert not languages["faq"] & languages["faq_abroad"]
    assert min(len(languages[kind]) for kind in KINDS - {"compound", "inflected", "chinese", "faq", "faq_abroad"}) >= 11


def test_a_topic_is_dev_or_test_and_has_every_language(bundled: TypedSet) -> None:
    topic_of = bundled.topic_of()
    assert set(Counter(topic_of.values()).values()) == {8}
    sides = {
        (topic_of[id_], q.is_dev) for q in bundled.queries for id_ in q.documents if id_ in topic_of and "faq" in q.kind
    }
    assert len(sides) == len(set(topic_of.values())) == 24


def test_partial_codes_differ_from_the_whole_as_they_say() -> None:
    queries = defaultdict(dict)
    for query in build()[1]:
        queries[query.kind][query.documents] = query.text
    assert all(queries[kind].keys() == queries["code"].keys() for kind in CODE_KINDS)
    for product, code in queries["code"].items():
        assert queries["code_case"][product] == code.lower() != code
        assert queries["code_joined"][product] == code.replace("-", "") != code
        assert queries["code_cut"][product] in {code[:-1], code[:-2]}
        assert code[-1].isalpha()
        assert queries["code_digits"][product] == "".join(filter(str.isdigit, code))
        assert queries["code_start"][product] == code[:5]
        swapped = queries["code_swapped"][product]
        assert distance(swapped, code) == 1
        assert sorted(swapped) == sorted(code)
        assert swapped != code


def test_a_typo_is_one_edit_of_the_product_s_name() -> None:
    documents, queries = build()
    texts = {row["id"]: row["text"] for row in documents}
    edits = Counter()
    for query in (query for query in queries if query.kind == "typo"):
        text = texts[query.documents[0]]
        names = [text[:length] for length in range(len(query.text) - 1, len(query.text) + 2)]
        name = next(name for name in names if text[len(name)] in ".।。")
        assert distance(query.text, name) == 1
        assert distance(query.text.casefold(), name.casefold()) == 1
        swapped = len(query.text) == len(name) and sorted(query.text) == sorted(name)
        edits["swapped" if swapped else len(query.text) - len(name), query.split] += 1
    assert len(edits) == 8  # inserted, deleted, replaced, swapped; dev and test
    assert min(edits.values()) >= 8


@pytest.mark.parametrize(
    ("left", "right", "edits"),
    [("kettle", "kettle", 0), ("ketle", "kettle", 1), ("ektle", "ketle", 1), ("abcd", "badc", 2), ("ca", "abc", 3)],
)
def test_swapped_neighbours_are_one_edit(left: str, right: str, edits: int) -> None:
    assert distance(left, right) == distance(right, left) == edits


def test_a_prefix_begins_a_word_of_its_documents_alone(bundled: TypedSet) -> None:
    for query in (query for query in bundled.queries if query.kind == "prefix_4"):
        assert 1 <= len(query.documents) <= 3
        having = {one.id for one in bundled.documents if f" {query.text}" in f" {one.text.lower()}"}
        assert having <= query.documents


def test_no_text_of_the_set_may_be_trained_on(bundled: TypedSet) -> None:
    evaluation = EvaluationSentences.shipped()
    assert all(document.text in evaluation for document in bundled.documents)
    assert all(query.text in evaluation for query in bundled.queries if any(map(str.isalpha, query.text)))


def test_no_other_kind_of_evaluation_takes_the_sources() -> None:
    assert {path.suffix for path in SOURCES.iterdir()} == {".tsv"}
    others = tuple(kind for kind in EVERY_KIND if kind != "typing")
    with pytest.raises(EvaluationError, match="no evaluation set"):
        evaluate_folder(encode, TARGET, Choice(others))
