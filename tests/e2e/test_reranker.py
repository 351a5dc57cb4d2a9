"""The bundled re-ranker in a live service. Fails where models/reranker is missing."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.model.artifact import load_manifest
from tests.contract.live import live_service

MODELS = Path(__file__).parents[2] / "models"
RERANKER = MODELS / "reranker"
LARGEST_MB = 20
PASSAGES = {
    "en": "The Danube rises in the Black Forest where two streams meet, flows through ten countries and ends in the "
    "Black Sea. It is the second longest river of Europe, after the Volga, which ends in the Caspian Sea.",
    "de": "Der Bodensee wird vom Rhein durchflossen und grenzt an Deutschland, Österreich und die Schweiz. Seine "
    "größte Tiefe beträgt 251 Meter; er friert nur selten ganz zu, zuletzt im Winter 1963.",
    "es": "El Guadalquivir nace en la sierra de Cazorla y desemboca en el Atlántico, cerca de Sanlúcar de Barrameda. "
    "Es el único gran río navegable de España: los barcos llegan hasta Sevilla.",
    "ja": "信濃川は日本で一番長い川で、長さは367キロメートルである。長野県では千曲川と呼ばれ、新潟市で日本海に注ぐ。",
}
QUESTIONS = {
    "en": "Where does the Danube begin?",
    "de": "Wann ist der Bodensee zuletzt ganz zugefroren?",
    "es": "¿Hasta qué ciudad llegan los barcos por el Guadalquivir?",
    "ja": "日本で一番長い川はどれですか。",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live_service(MODELS / "default", tmp_path_factory.mktemp("store"), reranker="bundled") as client:
        documents = [{"id": language, "text": text} for language, text in PASSAGES.items()]
        client.put("/documents", json={"documents": documents}).raise_for_status()
        yield client


def test_it_is_small_and_named(client: httpx.Client) -> None:
    assert sum(path.stat().st_size for path in RERANKER.iterdir()) < LARGEST_MB * 1e6
    assert client.get("/info").json()["reranker"]["fingerprint"] == load_manifest(RERANKER).fingerprint


@pytest.mark.parametrize("language", QUESTIONS)
def test_an_answer_is_first_and_no_score_falls(client: httpx.Client, language: str) -> None:
    plain, both = (
        client.post("/search", json={"query": QUESTIONS[language], "rerank": rerank}).json()["results"]
        for rerank in (False, True)
    )
    assert both[0]["id"] == language
    before = {one["id"]: one["score"] for one in plain}
    assert all(before[one["id"]] <= one["score"] <= 1 for one in both)
    assert both[0]["score"] > before[language] + 0.01  # the re-ranker takes the right one for an answer
