import json

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.runtime import load_runtime
from service.settings import BUNDLED_MODEL, Settings
from tests.artifacts import TEXTS
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import on_a_terminal

pytestmark = pytest.mark.usefixtures("local")


def test_similarity_prints_what_a_service_answers(crosslet: Crosslet) -> None:
    rows = [json.loads(line) for line in crosslet("similarity", *TEXTS[:5], TEXTS[0]).out.splitlines()]
    inputs = {"source_sentence": TEXTS[0], "sentences": [*TEXTS[1:5], TEXTS[0]]}
    with TestClient(create_app(load_runtime(Settings())), base_url="http://localhost") as client:
        scores = client.post("/similarity", json={"inputs": inputs}).json()
    assert rows == [{"score": score, "text": text} for score, text in zip(scores, inputs["sentences"], strict=True)]
    header, *shown = on_a_terminal("similarity", *TEXTS[:5], columns=200).screen.splitlines()
    assert header.split() == ["score", "text"]
    written = [f"{row['score']:.3f}" for row in rows[:4]]
    width = max(map(len, written))
    assert shown == [f"{score:>{width}}  {row['text']}" for score, row in zip(written, rows[:4], strict=True)]


def test_similarity_takes_two_texts_or_more_and_no_empty_one(crosslet: Crosslet) -> None:
    assert "required: TEXT" in crosslet("similarity", "hallo", status=2).err
    assert "text 2 is empty" in crosslet("similarity", "hallo", "", status=2).err


def test_info_fits_one_screen_and_json_has_everything(crosslet: Crosslet) -> None:
    for model in (str(BUNDLED_MODEL), str(Settings().model)):
        piped = crosslet("info", model).out
        assert on_a_terminal("info", model, "--json").screen == piped
        facts, screen = json.loads(piped), on_a_terminal("info", model, columns=80).screen
        assert len(screen.splitlines()) <= 24
        assert max(map(len, screen.splitlines())) <= 80
        assert facts["name"] in screen
        assert facts["fingerprint"][:12] in screen
        assert f"{facts['dim']} dimensions" in screen
