import html.parser
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from service.document_index import load_collections
from service.model.artifact import load_manifest
from service.model.encoder import load_encoder
from service.offline.report import hubs, pairs, tail
from service.offline.report_sample import made_query, rarity_of, script_of
from service.settings import Settings
from tests.artifacts import build_artifact, write_manifest
from tests.contract.live import live_service
from tests.parallel_text import sentence
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import on_a_terminal
from tests.service.conftest import Serve
from tests.service.documents.stores import wait_for
from tests.service.model.test_confidence import MODEL
from tests.service.offline.files import write_jsonl

pytestmark = pytest.mark.usefixtures("local")

LANGUAGES = ("en", "de", "es")
CHOICES = [(subject, verb, thing) for subject in range(6) for verb in range(6) for thing in range(3)]
NUMBERS = {(subject, verb, thing): str(number) for number, (subject, verb, thing) in enumerate(CHOICES)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def documents(field: str = "lang") -> list[dict[str, object]]:
    return [
        {"id": f"{language}/{NUMBERS[choice]}", "text": sentence(choice, language), "metadata": {field: language}}
        for choice in CHOICES
        for language in LANGUAGES
    ]


def built(crosslet: Crosslet, rows: list[dict[str, object]], *options: str) -> None:
    crosslet("index", "build", *options, write_jsonl(Path("documents.jsonl"), rows))
    assert Settings().documents_path.is_file()


class Loaded(html.parser.HTMLParser):
    """Collects what a browser would load, and checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in {"src", "href", "xlink:href"}]
        assert tag not in {"script", "link", "img", "iframe"}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_counts_documents_and_its_page_asks_no_host(crosslet: Crosslet, tiny_model: Path) -> None:
    long = [{"id": f"long<{number}>", "text": "guitar " * 40, "metadata": {"lang": "en"}} for number in range(36)]
    built(crosslet, [*documents(), *long], "--no-chunk")
    out, err = crosslet("index", "report", "--json")
    summary = json.loads(out)
    assert "wrote index-report.html" in err
    assert summary["documents"] == summary["sampled"] == 324 + 36
    assert summary["recall"] == 1.0
    encoder = load_encoder(tiny_model)
    lengths = [encoder.tokenise([str(row["text"])])[0].full_length for row in [*documents(), *long]]
    cut = sum(length > encoder.manifest.max_length for length in lengths)
    assert cut >= 36
    assert summary["cut"] == pytest.approx(cut / 360, abs=1e-4)
    assert summary["min_scores"].keys() == {"all", *LANGUAGES}
    page = Path("index-report.html").read_text(encoding="utf-8")
    parser = Loaded()
    parser.feed(page)
    assert parser.open == []
    assert parser.loaded == []
    assert not re.search(r"(?i)https?:|url\(|@import", page)
    assert "long&lt;1&gt;" in page
    assert "guitar guitar" not in page
    assert (page.count("<svg"), page.count("<table class=heat>")) == (2, 3)


def test_report_on_passages_cuts_nothing(crosslet: Crosslet) -> None:
    rows = documents()
    for row in rows[::9]:
        row["text"] = f"{row['text']}. {'guitar ' * 40}"
    built(crosslet, rows)
    summary = json.loads(crosslet("index", "report", "--json")[0])
    assert summary["documents"] == summary["sampled"] == 324
    assert summary["cut"] == 0
    assert summary["recall"] == 1.0
    assert summary["found"] > 0.5


def test_shares_and_scores_are_those_of_a_search_by_hand(crosslet: Crosslet, tiny_model: Path) -> None:
    rows = documents()
    built(crosslet, rows, "--no-chunk")
    summary = json.loads(crosslet("index", "report")[0])
    encoder = load_encoder(tiny_model)
    texts = [str(row["text"]) for row in rows]
    query_QD = np.stack([encoder.encode(made_query(text, rarity_of(texts))).vector for text in texts])
    document_ND = np.stack([encoder.encode(str(row["text"])).vector for row in rows])
    scores_QN = query_QD @ document_ND.T
    own_Q = np.diag(scores_QN)
    ranks_Q = (scores_QN > own_Q[:, None] + 1e-6).sum(axis=1)
    assert summary["found"] == pytest.approx((ranks_Q < 10).mean(), abs=0.02)  # ties may fall either way
    others = scores_QN[~np.eye(len(rows), dtype=bool)]
    median, upper = np.quantile(others, [0.5, 0.9])
    assert summary["min_scores"]["all"] == pytest.approx(min(1, median + (upper - median) * 3.0902 / 1.2816), abs=2e-3)


def test_report_measures_the_recall_of_inverted_lists(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_model: Path
) -> None:
    monkeypatch.setenv("CROSSLET_EXACT_DOCUMENTS", "100")
    built(crosslet, documents(), "--no-chunk")
    collections = load_collections(Settings(), load_manifest(tiny_model))
    wait_for(lambda: (tmp_path / "data" / "index.json").exists())
    collections.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").glob("index*")}
    assert "index.json" in before
    assert 0.9 < json.loads(crosslet("index", "report")[0])["recall"] <= 1
    page = Path("index-report.html").read_text(encoding="utf-8")
    assert "faiss-ivf-sq8" in page
    (tmp_path / "data" / "index.json").write_bytes(b"{}")  # damaged: built anew in memory, and left as it is
    assert 0.9 < json.loads(crosslet("index", "report")[0])["recall"] <= 1
    assert (tmp_path / "data" / "index.json").read_bytes() == b"{}"
    assert not list((tmp_path / "data").glob("*.quarantined"))


def test_a_document_that_is_near_to_everything_is_a_hub() -> None:
    generator = np.random.default_rng(0)
    rows_QK = np.stack([generator.permutation(np.arange(1, 1000))[:10] for _ in range(200)])
    rows_QK[:20, 3] = 0  # a tenth of the queries
    found = hubs(rows_QK, 1000, {row: f"d{row}" for row in range(1000)})
    assert [(one.id, one.share) for one in found if one.is_hub] == [("d0", 0.1)]
    assert len(found) == 10


def test_report_finds_language_bias_despite_translations() -> None:
    generator = np.random.default_rng(0)
    languages = ["de"] * 100 + ["en"] * 100
    scores = generator.normal(0.1, 0.1, (200, 200))
    scores[:, 100:] += 0.05  # English documents score higher, whatever is asked
    near_QK = generator.integers(100, 200, (200, 10))
    found = pairs(scores, languages, languages, near_QK, {row: languages[row] for row in range(200)})
    assert found.bias == pytest.approx(0.05, abs=0.01)
    assert found.lift_LL.tolist() == [[0.0, 2.0], [0.0, 2.0]]
    plain = generator.normal(0.1, 0.1, 20_000)
    with_translations = np.concatenate([plain, np.full(200, 0.9)])
    assert tail(plain, 0.001) == pytest.approx(0.1 + 0.309, abs=0.02)
    assert tail(with_translations, 0.001) == pytest.approx(tail(plain, 0.001), abs=0.02)
    assert np.quantile(with_translations, 0.999) > 0.8


def test_a_field_or_the_script_names_the_language(crosslet: Crosslet) -> None:
    texts = {
        "Ein Mann": "Latin",
        "мужчина": "Cyrillic",
        "一个人": "Han",
        "男の人": "Kana",
        "남자": "Hangul",
        "رجل": "Arabic",
    }
    assert {text: script_of(text) for text in texts} == texts
    assert script_of("12 !") == "no"
    built(crosslet, documents("language"))
    scores = json.loads(crosslet("index", "report")[0])["min_scores"]
    assert scores.keys() == {"all", "Latin script"}
    scores = json.loads(crosslet("index", "report", "--language-field", "language")[0])["min_scores"]
    assert scores.keys() == {"all", *LANGUAGES}


def test_info_shows_the_last_report_of_this_model(crosslet: Crosslet, serve: Serve, tmp_path: Path) -> None:
    built(crosslet, documents())
    data = tmp_path / "data"
    client = serve(data=data)
    assert client.get("/info").json()["index"]["report"] is None
    summary = json.loads(crosslet("index", "report")[0])  # beside the service
    shown = client.get("/info").json()["index"]["report"]
    assert shown == {name: value for name, value in summary.items() if name != "fingerprint"}
    (data / "index-report.json").write_text("{}")
    assert client.get("/info").json()["index"]["report"] is None
    (data / "index-report.json").write_text(json.dumps(summary | {"fingerprint": "other"}))
    assert client.get("/info").json()["index"]["report"] is None


def test_report_measures_a_named_collection_by_its_own_index(
    crosslet: Crosslet, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    monkeypatch.setenv("CROSSLET_EXACT_DOCUMENTS", "250")
    rows = documents()
    built(crosslet, rows[:200])
    built(crosslet, rows, "--collection", "shop", "--no-chunk")
    collections = load_collections(Settings(), load_manifest(tiny_model))
    wait_for(lambda: collections.of("shop").backend == "faiss-ivf-sq8")
    collections.close()
    of_default = json.loads(crosslet("index", "report")[0])
    assert (of_default["documents"], of_default["recall"]) == (200, 1)
    assert "collection default" in Path("index-report.html").read_text(encoding="utf-8")
    of_shop = json.loads(crosslet("index", "report", "--collection", "shop", "--out", "shop.html")[0])
    assert of_shop["documents"] == of_shop["sampled"] == 324
    page = Path("shop.html").read_text(encoding="utf-8")
    assert "collection shop" in page
    assert "faiss-ivf-sq8" in page
    assert serve(data=tmp_path / "data").get("/info").json()["index"]["report"]["documents"] == 200


def test_report_on_a_terminal_and_its_refusals(crosslet: Crosslet, tmp_path: Path) -> None:
    built(crosslet, [{"id": "1", "text": "hi"}, {"id": "2", "text": "A man is playing a guitar."}])
    error = crosslet("index", "report", "--out", tmp_path / "page.html", status=2)[1]
    assert "a report needs two documents of 8 characters or more" in error
    assert not list(tmp_path.glob("page*"))
    built(crosslet, documents())
    screen = on_a_terminal("index", "report", "--sample", "50").screen
    assert re.search(r"(?m)^documents +326, of which 50 drawn$", screen)


def test_made_queries_are_rare_words_in_any_script() -> None:
    texts = [
        "Welcome. The red guitar of the museum is broken. Goodbye.",
        "The the of is broken.",
        "The red museum is of.",
    ]
    assert made_query(texts[0], rarity_of(texts)) == "red guitar museum broken"
    assert made_query("一个男人在公园里弹吉他，孩子们听得很高兴。", rarity_of([])) == "一个男人在公园里弹吉他"
    hindi = "एक आदमी पार्क में गिटार बजा रहा है।"
    assert set(made_query(hindi, rarity_of([hindi, "एक में रहा है"])).split()) == {"आदमी", "पार्क", "गिटार", "बजा"}
    assert made_query("hi", rarity_of([])) == ""


def questions(rows: list[dict[str, object]], *, unanswerable: int) -> Path:
    """A question for every third document, and some that no document answers."""
    lines = [{"query": f"who {row['text']}"[:40], "ids": [row["id"]]} for row in rows[::3]]
    lines += [{"query": f"tax return {number} of 1999", "ids": []} for number in range(unanswerable)]
    return write_jsonl(Path("questions.jsonl"), lines)


def calibrated(folder: Path) -> Path:
    build_artifact(folder)
    write_manifest(folder, confidence=MODEL)
    return folder


def test_questions_recalibrate_a_collection(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = documents()
    model = calibrated(tmp_path / "model")
    monkeypatch.setenv("CROSSLET_MODEL", str(model))
    built(crosslet, rows, "--no-chunk")
    path = questions(rows, unanswerable=36)
    out, err = crosslet("index", "report", "--queries", path, "--keep", "--json")
    asked = json.loads(out)["questions"]
    assert "collection default keeps the recalibration" in err
    assert (asked["questions"], asked["labelled"], asked["is_learnt"]) == (144, 144, True)
    assert asked["answerable"] == pytest.approx(108 / 144)
    assert asked["recalibrated_error"] < asked["error"]
    assert sum(mass for mass, *_ in asked["bins"]) == pytest.approx(1)
    page = Path("index-report.html").read_text(encoding="utf-8")
    assert "Your questions" in page
    assert "tax return" not in page
    parser = Loaded()
    parser.feed(page)
    assert (parser.open, parser.loaded) == ([], [])
    monkeypatch.setenv("CROSSLET_API_KEYS", "sesame write=default, other read=*")
    with live_service(model, tmp_path / "data", api_keys="sesame write=default, other read=*") as client:
        client.headers["authorization"] = "Bearer sesame"
        kept = client.get("/collections/default").json()["confidence"]
        assert kept == asked["recalibration"]
        assert kept["fingerprint"] == load_manifest(model).confidence_fingerprint
        write_jsonl(path, [{"query": "nobody says", "ids": []}, {"query": "A man", "ids": ["en/0"]}] * 25)
        crosslet("index", "report", "--queries", path, "--keep")  # beside the service, which stores it
        assert client.get("/collections/default").json()["confidence"]["expected_answerable"] == 0.5
    built(crosslet, rows, "--collection", "shop")
    crosslet("index", "report", "--queries", path, "--keep", "--collection", "shop")
    write_jsonl(path, [{"query": "nobody says", "ids": []}, {"query": "A man", "ids": ["en/0"]}])
    assert "nothing is kept" in crosslet("index", "report", "--queries", path, "--keep", status=2).err  # of two


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_questions_are_asked_as_the_service_does(
    crosslet: Crosslet, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str
) -> None:
    rows = documents()
    model = calibrated(tmp_path / "model")
    monkeypatch.setenv("CROSSLET_MODEL", str(model))
    monkeypatch.setenv("CROSSLET_SEARCH_MODE", mode)
    built(crosslet, rows, "--no-chunk")
    asked = [f"who {row['text']}"[:40] for row in rows[:40]]
    path = write_jsonl(Path("questions.jsonl"), [{"query": query} for query in asked])
    coverage = json.loads(crosslet("index", "report", "--queries", path).out)["questions"]["coverage"]
    client = serve(model=model, data=tmp_path / "data", search_mode=mode)
    said = [client.post("/search", json={"query": query}).json()["confidence"] for query in asked]
    shares = [sum(confidence >= row["min_confidence"] for confidence in said) / len(said) for row in coverage]
    assert [row["answered"] for row in coverage] == pytest.approx(shares)
    monkeypatch.setenv("CROSSLET_SEARCH_MODE", "keywords")
    assert "have no confidence" in crosslet("index", "report", "--queries", path, status=2).err


def test_the_fallback_model_keeps_what_its_questions_say(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build_artifact(tmp_path / "moved")
    build_artifact(tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / "model.onnx", tmp_path / "moved" / "model.onnx")
    write_manifest(tmp_path / "moved")  # its hashes agree, its vectors do not
    monkeypatch.setenv("CROSSLET_MODEL", str(tmp_path / "moved"))
    monkeypatch.setenv("CROSSLET_FALLBACK_MODEL", str(calibrated(tmp_path / "model")))
    built(crosslet, documents())
    path = questions(documents(), unanswerable=36)
    assert "keeps the recalibration" in crosslet("index", "report", "--queries", path, "--keep").err


def test_what_questions_cannot_say_is_not_kept(
    crosslet: Crosslet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = documents()
    built(crosslet, rows)
    path = write_jsonl(Path("questions.jsonl"), [{"query": "A man is playing"}])
    assert "was not calibrated" in crosslet("index", "report", "--queries", path, status=2).err
    monkeypatch.setenv("CROSSLET_MODEL", str(calibrated(tmp_path / "model")))
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "other"))
    built(crosslet, rows)
    assert "--queries" in crosslet("index", "report", "--keep", status=2).err
    error = crosslet("index", "report", "--queries", path, "--keep", status=2).err
    assert "nothing is kept" in error
    write_jsonl(path, [{"query": "A man is playing", "ids": ["nobody"]}])
    assert (
        "'nobody', which the collection does not have" in crosslet("index", "report", "--queries", path, status=2).err
    )
    write_jsonl(path, [{"query": "A man is playing", "ids": ["en/0"]}] * 3)
    out = crosslet("index", "report", "--queries", path).out
    asked = json.loads(out)["questions"]
    assert asked["recalibration"] is None
    assert "takes 50 questions with ids" in asked["reason"]
