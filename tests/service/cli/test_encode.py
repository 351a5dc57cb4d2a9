import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.cli import main as cli
from service.runtime import load_runtime
from service.settings import BUNDLED_MODEL, Settings
from tests.artifacts import TEXTS
from tests.service.cli.terminal import on_a_terminal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def local(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLET_MODEL", str(tiny_model))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "data"))


def test_similarity_prints_what_a_service_answers(capsys: Capture) -> None:
    assert cli.main(["similarity", *TEXTS[:5], TEXTS[0]]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    inputs = {"source_sentence": TEXTS[0], "sentences": [*TEXTS[1:5], TEXTS[0]]}
    with TestClient(create_app(load_runtime(Settings())), base_url="http://localhost") as client:
        scores = client.post("/similarity", json={"inputs": inputs}).json()
    assert rows == [{"score": score, "text": text} for score, text in zip(scores, inputs["sentences"], strict=True)]
    header, *shown = on_a_terminal("similarity", *TEXTS[:5], columns=200).screen.splitlines()
    assert header.split() == ["score", "text"]
    written = [f"{row['score']:.3f}" for row in rows[:4]]
    width = max(map(len, written))
    assert shown == [f"{score:>{width}}  {row['text']}" for score, row in zip(written, rows[:4], strict=True)]


def test_similarity_takes_two_texts_or_more_and_no_empty_one(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        cli.main(["similarity", "hallo"])
    assert "required: TEXT" in capsys.readouterr().err
    assert cli.main(["similarity", "hallo", ""]) == 2
    assert "text 2 is empty" in capsys.readouterr().err


def test_info_fits_one_screen_and_json_has_everything(capsys: Capture) -> None:
    for model in (str(BUNDLED_MODEL), str(Settings().model)):
        assert cli.main(["info", model]) == 0
        piped = capsys.readouterr().out
        assert on_a_terminal("info", model, "--json").screen == piped
        facts, screen = json.loads(piped), on_a_terminal("info", model, columns=80).screen
        assert len(screen.splitlines()) <= 24
        assert max(map(len, screen.splitlines())) <= 80
        assert facts["name"] in screen
        assert facts["fingerprint"][:12] in screen
        assert f"{facts['dim']} dimensions" in screen
