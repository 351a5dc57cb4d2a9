"""The same documents and questions give the same answers in Milvus as in the embedded store, to the last tie."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.document_index import load_collection, load_collections
from service.documents.document import Document
from service.documents.interface import DocumentIndex, Match, Matches, PageRequest, Query, ResultOptions
from service.errors import InvalidInput, NotFound, StorageFull
from service.model.confidence import features
from service.settings import Settings
from tests.contract.filter_oracle import FILTERS, varied_metadata
from tests.contract.milvus_standalone import Open, manifest_of
from tests.service.documents.stores import DIM, EAST, NORTH, UP, put
from tests.service.documents.test_arrangement import PREFERRED, SORTS, VALUES, VECTORS

COUNT = 60
EXACT = [*np.eye(DIM, dtype=np.float32), np.full(DIM, 0.5, np.float32), -EAST]  # their cosines are exact: many tie
FIELDS = ["k", "l", "o.x", "x", "none"]
WORDS = [
    "kettle",
    "kettles boil",
    "WK-1702",
    "wk 1720",
    "чайника",
    "чайник",
    "茶杯 绿茶",
    "緑茶をのむ",
    "주전자",
    "غلاية",
    "केतली",
    "Tür",
]
ASKED = [*WORDS, "ketle", "wk170", "kett", "teekanne", "茶", "part", "part 3 of 07 kettle", "чайники", "nothing", "!"]


def documents_in_passages() -> tuple[list[Document], np.ndarray]:
    """Documents with metadata of every kind, one to four passages each, and their vectors."""
    rng = np.random.default_rng(5)
    documents, vectors = [], []
    for number, varied in enumerate(varied_metadata(COUNT, seed=3)):
        parts = int(rng.integers(1, 5))
        text = "".join(f"part {part} of {number:02}. {WORDS[int(rng.integers(len(WORDS)))]}. " for part in range(parts))
        size = len(text) // parts
        spans = tuple((start * size, (start + 1) * size) for start in range(parts)) if parts > 1 else ()
        arranged = {field: VALUES[int(rng.integers(len(VALUES)))] for field in "kl" if rng.random() < 0.8}
        documents.append(Document(f"{number:02}", text, varied | arranged, spans, number % 7 == 0))
        vectors += [EXACT[int(rng.integers(len(EXACT)))] for _ in range(parts)]
    return documents, np.stack(vectors)


@dataclass(frozen=True)
class Engines:
    embedded: DocumentIndex
    milvus: DocumentIndex

    def answers(self, ask: Any) -> tuple[Any, Any]:
        return ask(self.embedded), ask(self.milvus)


@pytest.fixture(scope="module", params=["milvus-lite", pytest.param("milvus", marks=pytest.mark.milvus)])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Both engines with the same documents, some put twice and some deleted."""
    folder = tmp_path_factory.mktemp("engines")
    chosen = Settings(data=folder, index=f"milvus+lite://{folder}/documents.db", index_timeout_s=100)
    if request.param == "milvus":
        chosen = request.getfixturevalue("standalone").settings(data=folder, index_timeout_s=100)
    manifest = manifest_of("ab" + secrets.token_hex(7))
    both = Engines(load_collection(Settings(data=folder), manifest), load_collection(chosen, manifest))
    documents, vectors_PD = documents_in_passages()
    for index in (both.embedded, both.milvus):
        # Other texts, of other numbers of passages, come first; what replaces them leaves nothing behind.
        index.put(
            [Document(one.id, "x" * 8, {"k": 1}, ((0, 4), (4, 8))) for one in documents], np.stack([UP] * 2 * COUNT)
        )
        index.put([Document("gone", "gone", {"k": "a"})], EAST[None])
        index.put(documents, vectors_PD)
        assert index.delete(["gone"]) == 1
    yield both
    both.embedded.close()
    both.milvus.close()


def facts(match: Match) -> tuple[object, ...]:
    document = match.document
    return (
        *(
            document.id,
            document.text,
            document.metadata,
            match.score,
            match.dense_rank,
            match.keywords_rank,
            match.passage,
            match.group,
        ),
        *(match.preference, match.words, None if match.vector_D is None else match.vector_D.tolist()),
    )


BY_VECTOR = st.builds(Query, VECTORS | st.none(), st.none(), st.sampled_from([None, "03"]), PREFERRED | st.none())
BY_WORDS = st.builds(
    Query, VECTORS | st.none(), st.sampled_from(ASKED), st.none(), PREFERRED | st.none(), typing=st.booleans()
)
QUERIES = BY_VECTOR | BY_WORDS


def features_of(matches: Matches) -> list[float]:
    found = None if matches.evidence is None else features(matches.evidence, different=0.8)
    return [] if found is None else found.tolist()


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    query=QUERIES,
    top_k=st.sampled_from([1, 5, 12, 100]),
    filter_=FILTERS | st.none(),
    options=st.builds(
        ResultOptions,
        offset=st.sampled_from([0, 2]),
        limit=st.sampled_from([None, 3]),
        group_by=st.sampled_from([None, *FIELDS]),
        sort=SORTS.map(tuple),
        min_score=st.sampled_from([None, 0.5]),
        vector=st.booleans(),
        words=st.booleans(),
        metadata=st.just(True),
        compared=st.sampled_from([0, 3]),
    ),
)
def test_searches_give_the_same(
    engines: Engines, query: Query, top_k: int, filter_: dict[str, Any] | None, options: ResultOptions
) -> None:
    if query.vector_D is None and (query.words is None or not engines.milvus.has_keywords):
        query = Query()
    if not engines.milvus.has_keywords:
        query = replace(query, words=None, typing=False)
    here, there = engines.answers(
        lambda index: index.search_all([query], top_k=top_k, filter_=filter_, options=options)[0]
    )
    assert [facts(match) for match in there] == [facts(match) for match in here]
    assert there.total == here.total
    assert features_of(there) == pytest.approx(features_of(here), abs=1e-6)


@settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(filter_=FILTERS | st.none(), most_values=st.sampled_from([2, 100]), truncated=st.booleans())
def test_facets_and_lists_are_the_same(
    engines: Engines, filter_: dict[str, Any] | None, most_values: int, truncated: bool
) -> None:
    counted = engines.answers(lambda index: index.counts(FIELDS, most_values=most_values, filter_=filter_))
    assert counted[0] == counted[1]
    request = PageRequest(after_row=0, limit=100, max_chars=10**6, filter_=filter_, truncated=truncated)
    here, there = engines.answers(lambda index: index.page(request))
    assert [document.id for document in here.documents] == [document.id for document in there.documents]
    assert (filter_ is None and not truncated) or here.total == there.total


def test_documents_come_back_with_their_passages(engines: Engines) -> None:
    documents, _ = documents_in_passages()
    for stored in engines.answers(lambda index: index.documents_of([one.id for one in documents])):
        assert {one.id: (one.text, one.metadata, one.passages) for one in documents} == {
            id_: (one.text, one.metadata, one.passages) for id_, one in stored.items()
        }
    here, there = engines.answers(lambda index: [index.vector(one.id) for one in documents])
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_a_change_of_metadata_keeps_passages(open_index: Open) -> None:
    index = open_index()
    index.put(
        [Document("a", "one two", {"n": 1}, ((0, 3), (4, 7)), True), Document("b", "b", {})],
        np.stack([EAST, NORTH, UP]),
    )
    assert index.update_metadata("a", lambda before: before | {"n": 2})
    (match,) = index.search_all([Query(NORTH)], top_k=1, filter_={"n": 2})[0]
    assert (match.document.id, match.score, match.passage.text) == ("a", 1.0, "two")
    page = index.page(PageRequest(after_row=0, limit=9, max_chars=999, truncated=True))
    assert [document.id for document in page.documents] == ["a"]
    assert index.delete_matching({"n": 2}) == 1
    assert [match.document.id for match in index.search_all([Query(NORTH)], top_k=9)[0]] == ["b"]


@pytest.mark.parametrize("engine", ["embedded", "milvus-lite", pytest.param("milvus", marks=pytest.mark.milvus)])
def test_collections_are_made_listed_and_dropped(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, max_collections=3, index_timeout_s=100)
    if engine == "milvus":
        settings = request.getfixturevalue("standalone").settings(max_collections=3, index_timeout_s=100)
    elif engine == "milvus-lite":
        settings = Settings(index=f"milvus+lite://{tmp_path}/documents.db", max_collections=3, index_timeout_s=100)
    collections = load_collections(settings, manifest_of("ac" + secrets.token_hex(7)))
    name, document = "a.b_c-D", Document("a", "text", {"n": 1})
    assert collections.documents_of(name, ["a"]) == {}
    assert collections.is_chunked(name, None)
    collections.check_room(name, [document])
    collections.put(name, [document], EAST[None])
    put(collections.of("default"), {"b": NORTH})
    collections.put("other", [document], UP[None])
    assert {*collections.named()} == {"default", name, "other"}
    assert next(iter(collections.named())) == "default"
    assert collections.count() == 3
    assert collections.documents_of(name, ["a", "b"]).keys() == {"a"}
    with pytest.raises(StorageFull, match=r"one\.more cannot be made: there are 3 collections; the limit is 3"):
        collections.put("one.more", [document], EAST[None])
    with pytest.raises(InvalidInput, match="a collection's name"):
        collections.put("ü", [document], EAST[None])
    with pytest.raises(InvalidInput, match="default stays"):
        collections.drop("default")
    assert collections.drop(name) == 1
    with pytest.raises(NotFound):
        collections.of(name).get("a")
    with pytest.raises(NotFound):
        collections.drop(name)
    assert {*collections.named()} == {"default", "other"}
    collections.put(name, [Document("c", "text", {})], EAST[None])
    assert collections.of(name).get("a") is None
    assert len(collections.of(name)) == 1
    collections.close()
