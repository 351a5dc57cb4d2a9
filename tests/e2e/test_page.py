"""The page of a live service in headless Chromium, as a visitor uses it. Needs Debian's `chromium`."""

import datetime
import decimal
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.browser import Browser, Page
from tests.e2e.page import (
    KEY,
    KEYED,
    MAX_BODY_BYTES,
    READ_KEY,
    SHOP_KEY,
    add,
    drop_file,
    give_key,
    hold,
    let_go,
    opened,
    put,
    put_documents,
    search,
    wait_for_results,
)

pytestmark = pytest.mark.slow

SHOTS = os.environ.get("CROSSLET_TEST_SCREENSHOTS")  # a folder to keep pictures of every part in
ROLES = {"button", "textbox", "searchbox", "combobox", "spinbutton", "tab", "tablist", "tabpanel", "progressbar"}
LINES = """{"id": "a", "text": "Where is the station?", "metadata": {"n": 1234567890123456789}}

{"id": "b", "text": ""}
{"id": "a", "text": "again"}
no JSON
{"id": "../c", "text": "a path"}
{"id": 7, "text": "Das Wetter ist schön.", "lang": "de"}
"""
CSV = """nr;body;title
1;Der Bahnhof ist dort.;"A ""quoted""
title; of two lines"
only one cell
;;
3;;no text
2;Il fait beau.;
"""


@pytest.fixture
def shop(service: httpx.Client) -> Iterator[str]:
    """The path of a second collection, with a name that is as long as it may be; it is gone after the test."""
    path = f"/collections/shop.{'x' * 59}"
    put(service, ["Ein roter Kessel.", "A blue lamp."], path=f"{path}/documents")
    yield path
    service.delete(path)


def choose_option(page: Page, selector: str, value: str) -> None:
    page.value(
        f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('change')) }})(document.querySelector({selector!r}))"
    )


def test_a_visitor_with_a_key_adds_and_finds_documents(page: Page, service: httpx.Client) -> None:
    page.click("#empty-example")
    assert page.value("document.activeElement.id") == "send"
    page.press("Enter")
    page.wait_for("document.querySelector('#add-status').textContent === '10 documents are stored.'")
    assert service.get("/info").json()["index"]["documents"] == 10
    assert search(page, "I would like to send these shoes back.")[0].startswith("Vorrei restituire le scarpe")
    page.click("button.chip[title*='lang it']")
    wait_for_results(page, 1)
    assert json.loads(page.value("document.querySelector('#filter').value")) == {"lang": "it"}
    page.type('{"lang": {"in": ["de", "fr"]}}', "#filter")
    assert len(search(page, "password")) == 2
    page.type("[1]", "#filter")
    assert "a filter is an object" in page.text("#filter-trouble").lower()
    assert page.value("document.querySelector('#filter').getAttribute('aria-invalid')") == "true"
    assert page.complaints() == [
        "Failed to load resource: the server responded with a status of 401 (Unauthorized) "
        f"{service.base_url}/lab/crosslet/info"
    ]
    assert page.hosts() == {str(service.base_url).rstrip("/")}


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_scores_are_bars_and_doubtful_answers_are_marked(page: Page, service: httpx.Client, mode: str) -> None:
    put(service, ["Das Passwort ist falsch.", "The moon is far away."])
    modes = page.value("[...document.querySelectorAll('#mode option')].map(e => e.value)")
    assert modes == ["hybrid", "dense", "keywords"]
    page.value(f"document.querySelector('#mode').value = '{mode}'")
    search(page, "My password is wrong.")
    widths = page.value("[...document.querySelectorAll('.fill')].map(e => parseFloat(e.style.inlineSize))")
    scores = page.value("[...document.querySelectorAll('.bar')].map(e => Number(e.ariaValueNow))")
    assert widths == pytest.approx([max(score, 0) * 100 for score in scores], abs=0.01)
    kinds = "[...document.querySelectorAll('#results > li')].map(e => e.className)"
    assert set(page.value(kinds)) == {"result"}
    border = service.get("/info").json()["min_scores"]["all"]
    page.value("document.querySelector('#min-score').selectedIndex = 1")
    assert page.value("document.querySelector('#min-score').value") == str(border)
    assert len(search(page, "My password is wrong.")) == sum(score >= border for score in scores)
    page.value("document.querySelector('#top-k').value = 1; document.querySelector('#min-score').selectedIndex = 0")
    assert len(search(page, "What do bananas cost?")) == 1
    assert page.value(kinds) == ["divider", "result doubtful"]
    assert service.post("/search", json={"query": "What do bananas cost?", "mode": mode}).json()["confidence"] < 0.5
    page.click("#more")
    wait_for_results(page, 2)
    page.value("document.querySelector('#mode').value = 'keywords'; document.querySelector('#top-k').value = 10")
    assert len(search(page, "falsch falsche moon")) == 2
    assert page.value("document.querySelectorAll('.divider, .doubtful').length") == 0  # keywords have no confidence


def test_bad_lines_are_named_and_the_others_stored(page: Page, service: httpx.Client) -> None:
    assert add(page, LINES) == "2 documents are stored."
    errors = page.text("#add-errors").splitlines()
    assert [error.split(":")[0] for error in errors] == ["Line 3", "Line 4", "Line 5", "Line 6"]
    assert "is used twice, first at 1" in errors[1]
    assert "'.' or '..'" in errors[3]  # the service's own words
    assert service.get("/documents/a").text.count("1234567890123456789") == 1  # to the last digit
    assert service.get("/documents/7").json()["metadata"] == {"lang": "de"}
    search(page, "Where is the station?")
    assert "1234567890123456789" in page.text("#results")


def test_a_file_of_cells_is_read_by_the_names_of_its_columns(page: Page, service: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "pages.csv"
    file.write_text(CSV, encoding="utf-8")
    page.click("#tab-add")
    page.choose_file("#file", file)
    page.wait_for("document.querySelector('#preview table')")
    choose_option(page, "#text-field", "body")
    choose_option(page, "#id-field", "nr")
    assert page.text("#send") == "Add 2 documents"
    assert [line.split(":")[0] for line in page.text("#add-errors").splitlines()] == ["Line 4", "Line 6"]
    page.click("#send")
    page.wait_for("document.querySelector('#add-status').textContent === '2 documents are stored.'")
    assert service.get("/documents/1").json()["metadata"] == {"title": 'A "quoted"\ntitle; of two lines'}
    assert service.get("/documents/2").json()["metadata"] == {}


@pytest.mark.parametrize(
    ("name", "text", "heads"),
    [
        (
            "faq.csv",
            'nr,question,ok\n1,Why?,true\n2,"How, and when?",false\n',
            ["nr number", "question text · is the text", "ok true/false"],
        ),
        ("FAQ.TSV", "id\tquestion\tzip\n1\tWhy?\t007\n", ["id number · id", "question text · is the text", "zip text"]),
        (
            "faq.txt",
            "\ufeffnr\tFirst question\r\n1.5\tWhy?\r\n",
            ["nr number", "First question text · is the text"],
        ),  # a spreadsheet's "text"
        ("faq", "nr;質問\n12345678901234567890123;なぜ?\n", ["nr text", "質問 text · is the text"]),
        (
            "a.jsonl",
            '{"id": 7, "body": "Why?", "tags": ["a"], "o": {"x": null}}\n{"id": "8", "body": "x", "n": 5}\n',
            ["id mixed · id", "body text · is the text", "tags list", "o object", "n number"],
        ),
        (
            "a.json",
            '[{"text": "Why?", "n": 12345678901234567890123, "long title": "much longer"}]',
            ["text text · is the text", "n number", "long title text"],
        ),
    ],
)
def test_a_file_is_shown_before_it_is_added(page: Page, tmp_path: Path, name: str, text: str, heads: list[str]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    page.click("#tab-add")
    page.choose_file("#file", tmp_path / name)
    page.wait_for("document.querySelector('#preview table')")
    heads_and_cells = "[...document.querySelectorAll('#preview tr')].map(row => [...row.cells].map(e => e.innerText))"
    first, *rows = page.value(heads_and_cells)
    assert [head.replace("\n", " ") for head in first] == heads
    assert page.text("#add-status").startswith(f"{len(rows)} document")
    assert any("Why?" in row or "なぜ?" in row for row in rows)
    assert page.text("#add-errors") == ""


def test_cells_become_numbers_unless_they_are_texts(page: Page, service: httpx.Client) -> None:
    csv = "id,text,price,zip,new\n7,Kettle,19.9,007,True\n8,Lamp,5,12345,False\n"
    assert add(page, csv) == "2 documents are stored."
    assert service.get("/documents/7").json()["metadata"] == {"price": 19.9, "zip": "007", "new": True}
    page.click("#types")
    page.click("#send")
    page.wait_for("document.querySelector('#add-status').textContent === '2 documents are stored.'")
    assert service.get("/documents/8").json()["metadata"] == {"price": "5", "zip": "12345", "new": "False"}


@pytest.mark.parametrize(
    ("text", "format_", "count"),
    [
        ("id, text\n1, Hello.\n", "CSV", 1),
        ("text\nHello.\nBye.\n", "CSV", 2),
        ("Hello, world\nGood morning, my friend\n", "One text a line", 2),
        ("One; two\nThree; four\n", "One text a line", 2),
        ("1,5 kg,flour\n2,5 kg,sugar\n", "One text a line", 2),
        ("Hello\nworld\n", "One text a line", 2),
        ("no,body\n", "One text a line", 1),
    ],
)
def test_pasted_text_is_a_table_only_below_a_header(page: Page, text: str, format_: str, count: int) -> None:
    page.click("#tab-add")
    page.type(text, "#pasted")
    expected = f"{count} document{'s' * (count > 1)} read as: {format_}"
    page.wait_for(f"document.querySelector('#add-status').textContent === {json.dumps(expected)}")
    assert page.text("#add-errors") == ""


OTHER_FILES = {
    "a.parquet": (b"PAR1\x15\x04", "Parquet files are loaded with: crosslet index build 'a.parquet' --url "),
    "a.xlsx": (b"PK\x03\x04\x14\x00\x06\x00", "The file is not text in UTF-8."),
    "a.pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "The file is not text in UTF-8."),
    "latin.csv": ("id,text\n1,schön\n".encode("latin-1"), "The file is not text in UTF-8."),
    "utf16.csv": ("id,text\n1,x\n".encode("utf-16"), "The file is not text in UTF-8."),
    "a.gz": (b"\x1f\x8b\x08\x00", "The file is not text in UTF-8."),
    "large's.jsonl": (b"\n" * 50_000_001, r"'large'\''s.jsonl' --url "),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_file_that_the_page_cannot_take_is_one_sentence(page: Page, tmp_path: Path, name: str) -> None:
    content, sentence = OTHER_FILES[name]
    (tmp_path / name).write_bytes(content)
    page.click("#tab-add")
    page.choose_file("#file", tmp_path / name)
    page.wait_for("document.querySelector('#add-trouble').textContent")
    assert sentence in page.text("#add-trouble")
    assert page.value("document.querySelector('#send').disabled")
    assert page.text("#add-errors") == ""


PARQUET_COLUMNS: dict[str, tuple[str, object]] = {
    "id": ("int64", 1),
    "title's": ("string", "Kettle"),
    "price": ("float32", 9.5),
    "new": ("bool", True),
    "day": ("date32", datetime.date(2026, 1, 2)),
    "at": ("timestamp", datetime.datetime(2026, 1, 2)),
    "cost": ("decimal", decimal.Decimal("1.10")),
    "tags": ("list", ["a"]),
    "maker": ("struct", {"name": "x", "tags": ["b"]}),
    "raw": ("binary", b"\x00"),
    "标题": ("large", "x"),
}


def test_the_columns_of_a_parquet_file_are_shown(page: Page, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kinds = {"large": pyarrow.large_string(), "float32": pyarrow.float32(), "date32": pyarrow.date32()}
    arrays = {name: pyarrow.array([cell], kinds.get(kind)) for name, (kind, cell) in PARQUET_COLUMNS.items()}
    parquet.write_table(pyarrow.table(arrays), tmp_path / "goods.parquet", row_group_size=1)
    page.click("#tab-add")
    page.choose_file("#file", tmp_path / "goods.parquet")
    page.wait_for("document.querySelector('#preview table')")
    heads = page.value("[...document.querySelectorAll('#preview th')].map(e => e.innerText.replace('\\n', ' '))")
    assert heads == [
        *("id number · id", "title's text · is the text", "price number", "new true/false", "day text", "at text"),
        *("cost number", "tags list", "maker object", "raw bytes", "标题 text"),
    ]
    command = page.text("#add-trouble")
    assert "crosslet index build 'goods.parquet' --url " in command
    assert command.endswith(r"--text '{title'\''s}'")
    page.value(
        "document.querySelector('#text-field').value = '标题'; "
        "document.querySelector('#text-field').dispatchEvent(new Event('change'))"
    )
    assert page.text("#add-trouble").endswith("--text '{标题}'")
    assert page.value("document.querySelector('#send').disabled")


def test_many_lines_are_sent_in_batches_with_their_numbers(page: Page, service: httpx.Client) -> None:
    before = service.get("/info").json()["index"]["documents"]
    assert add(page, "\n".join(f"Number {n} of many." for n in range(200))) == "200 documents are stored."
    assert service.get("/info").json()["index"]["documents"] == before + 200
    puts = [line for line in service.get("/metrics").text.splitlines() if "crosslet_requests_total" in line]
    assert any('route="/documents",status="200"' in line and float(line.split()[-1]) >= 4 for line in puts)
    assert page.value("[...document.querySelectorAll('#progress')].every(e => e.hidden)")


def test_an_upload_keeps_its_source_and_its_errors(page: Page, service: httpx.Client) -> None:
    page.click("#tab-add")
    page.type("one\ntwo", "#pasted")
    page.value(
        """File.prototype.arrayBuffer = ((read) => async function () {
             await new Promise((done) => { window.readOn = done; });
             return read.call(this); })(File.prototype.arrayBuffer)"""
    )
    drop_file(page, "first.txt", json.dumps("three\nfour\n" + "x" * MAX_BODY_BYTES))
    page.wait_for("window.readOn")
    assert page.value("document.querySelector('#send').disabled")  # what it would send is no longer shown
    page.value("readOn()")
    page.wait_for("document.querySelector('#send').textContent === 'Add 3 documents'")
    hold(page, "options.method === 'PUT'")
    page.value("document.querySelector('#send').focus()")
    page.press("Enter")
    page.wait_for("held > 0")
    drop_file(page, "second.txt")
    page.value("document.querySelector('#empty-example').click()")
    inputs = "[...document.querySelectorAll('#add-form :is(input, textarea, select)')]"
    assert page.value(f"{inputs}.every(e => e.disabled)")
    page.wait_for("document.activeElement === document.body")  # a disabled button loses the focus
    let_go(page)
    page.wait_for("document.querySelector('#add-status').textContent === '2 documents are stored.'")
    assert page.text("#file-name") == "first.txt"
    assert page.text("#add-errors").startswith("Line 3:")
    assert page.value("document.activeElement.id") == "send"
    assert not page.value(f"{inputs}.some(e => e.disabled)")


def test_two_lists_become_a_matrix_of_cosines(page: Page, service: httpx.Client) -> None:
    lists = {"left": ["A dog.", "A cat.", "<b>The sun.</b>"], "right": ["Eine Katze.", "Die Sonne."]}
    page.click("#tab-compare")
    for side, texts in lists.items():
        page.type("\n".join(texts), f"#{side}")
    page.click("#compare-form .primary")
    page.wait_for("document.querySelector('.matrix')")
    cells = page.value("[...document.querySelectorAll('.matrix tbody tr')].map(r => [...r.cells].map(c => c.title))")
    matrix = service.post("/similarity", json={"inputs": lists}).json()
    assert [[float(cell) for cell in row[1:]] for row in cells] == matrix
    assert page.value("document.querySelectorAll('.matrix b').length") == 0  # text stays text
    best = page.value("[...document.querySelectorAll('.best')].map(e => e.cellIndex - 1)")
    assert best == [row.index(max(row)) for row in matrix]


# Requests and files whose name or body has "slow" come a second later.
SLOW = """(() => {
  const late = (given) => (String(given).includes("slow") ? 1000 : 0);
  const wait = (given) => new Promise((done) => setTimeout(done, late(given)));
  const [send, read] = [window.fetch, File.prototype.arrayBuffer];
  window.fetch = async (url, options) => {
    const answer = await send(url, options);
    return wait(`${url} ${options?.body}`.replace("/de.json", "slow")).then(() => answer);
  };
  File.prototype.arrayBuffer = async function () { await wait(this.name); return read.call(this); };
})()"""


def test_only_the_last_of_two_comparisons_is_shown(page: Page) -> None:
    page.value(SLOW)
    page.click("#tab-compare")
    for text in ("A slow dog.", "A cat."):
        page.type(text, "#left")
        page.click("#compare-form .primary")
    page.wait_for("document.querySelector('.matrix')")
    time.sleep(1.5)
    assert page.text(".matrix tbody th") == "A cat."
    assert page.value("document.querySelector('#panel-compare').ariaBusy") == "false"


def test_only_the_last_of_two_files_is_taken(page: Page) -> None:
    page.value(SLOW)
    page.click("#tab-add")
    drop_file(page, "slow.txt")
    drop_file(page, "quick.txt")
    page.wait_for("document.querySelector('#file-name').textContent === 'quick.txt'")
    time.sleep(1.5)
    assert page.text("#file-name") == "quick.txt"


def test_the_page_speaks_the_last_of_two_languages(page: Page) -> None:
    page.value(SLOW)
    page.value(
        """(menu => { for (const code of ["de", "fr"]) { menu.value = code; menu.dispatchEvent(new Event("change")); }
           })(document.querySelector("#language"))"""
    )
    page.wait_for("document.documentElement.lang === 'fr'")
    time.sleep(1.5)
    assert page.value("document.documentElement.lang") == "fr"
    assert page.text("#tab-search") == "Chercher"


def test_words_that_do_not_come_leave_the_page_as_it_is(browser: Browser, service: httpx.Client) -> None:
    page = Page(browser, language="de")
    late = "fetch = ((send) => (url, options) => send(String(url).replace('/de.json', '/gone'), options))(fetch)"
    page.send("Page.addScriptToEvaluateOnNewDocument", source=late)
    page.open(f"{service.base_url}/lab/crosslet/")
    assert page.text("#tab-search") == "Search"
    give_key(page)
    page.wait_for("document.querySelector('#facts dd')")
    choose_option(page, "#language", "de")
    page.wait_for("document.querySelector('#trouble').textContent.startsWith('The service does not answer')")
    assert page.value("[document.querySelector('#language').value, localStorage.length]") == ["en", 0]
    choose_option(page, "#language", "fr")
    page.wait_for("document.querySelector('#tab-search').textContent === 'Chercher'")
    assert page.value("Object.values(localStorage)") == ["fr"]


def test_a_request_is_shown_as_a_command_without_the_key(page: Page, service: httpx.Client) -> None:
    page.type("it's here", "#query")
    page.click("#search-curl")
    command = page.text("#curl-text")
    assert command.startswith(f"curl -s '{service.base_url}/lab/crosslet/search' \\")
    assert '-H "Authorization: Bearer $CROSSLET_KEY"' in command
    body = json.loads(command.split("-d '")[1].removesuffix("'").replace(r"'\''", "'"))
    wanted = {"query": "it's here", "top_k": 10, "mode": "hybrid", "include": ["text", "metadata", "highlights"]}
    assert body == wanted
    assert KEY not in page.value("document.documentElement.outerHTML")


def test_a_body_over_the_limit_is_the_error_of_its_line(page: Page) -> None:
    text = "\n".join(["short", "x" * MAX_BODY_BYTES, *(f"{n} {'y' * 3000}" for n in range(12))])
    assert add(page, text) == "13 documents are stored."
    (error,) = page.text("#add-errors").splitlines()
    assert error.startswith("Line 2:")
    assert f"{MAX_BODY_BYTES} (CROSSLET_MAX_BODY_BYTES)" in error


def test_a_key_without_write_access_stops_adding(browser: Browser, service: httpx.Client) -> None:
    page = opened(browser, service, "#add", key=READ_KEY)
    assert add(page, "one\ntwo") == "Stopped: 0 documents are stored."
    assert "CROSSLET_READ_API_KEYS" in page.text("#add-trouble")


def test_a_key_of_one_collection_sees_that_one(
    browser: Browser, service: httpx.Client, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: service.delete(f"/collections/{KEYED}"))
    put(service, ["The moon is far away."])
    page = opened(browser, service, "#add", key=SHOP_KEY)
    assert add(page, "A green iron.") == "1 document is stored."  # its first document makes it
    assert service.get(f"/collections/{KEYED}").json()["documents"] == 1
    page.click("#tab-search")
    assert search(page, "the moon") == ["A green iron."]
    page.click("#tab-about")
    assert page.text("#trouble") == ""
    page = opened(browser, service, key=SHOP_KEY)
    assert search(page, "the moon") == ["A green iron."]
    assert page.text("#trouble") == ""


def choose(page: Page, position: int) -> None:
    """Choose a collection by the keyboard."""
    page.value("document.querySelector('#collection').focus()")
    page.press("Home")
    for _ in range(position):
        page.press("ArrowDown")
    page.wait_for(f"document.querySelector('#collection').selectedIndex === {position}")


def test_the_menu_of_collections_applies_to_all_parts(page: Page, service: httpx.Client, shop: str) -> None:
    assert page.value("document.querySelector('#collection').checkVisibility()") is False  # the page knows of one
    put(service, ["The moon is far away."])
    page.click("#tab-about")  # asks for the facts again
    page.wait_for("document.querySelector('#collection').checkVisibility()")
    options = "[...document.querySelectorAll('#collection option')].map(one => one.textContent)"
    name = shop.removeprefix("/collections/")
    assert page.value(options) == ["default · 1", f"{name} · 2"]
    assert search(page, "red kettle") == ["The moon is far away."]
    choose(page, 1)
    wait_for_results(page, 2)
    assert page.value("document.querySelector('#query').placeholder") == "Search 2 documents, in any language"
    assert search(page, "red kettle")[0] == "Ein roter Kessel."
    page.click("#search-curl")
    assert f"{shop}/search" in page.text("#curl-text")
    page.click("#curl-close")
    assert add(page, "A green iron.") == "1 document is stored."
    assert service.get(shop).json()["documents"] == 3
    assert service.get("/info").json()["index"]["documents"] == 1
    drop_file(page, "large.jsonl", "new Uint8Array(50_000_001)")
    page.wait_for(f"document.querySelector('#add-trouble').textContent.endsWith(' --collection {name}')")
    choose(page, 0)
    page.wait_for("document.querySelector('#add-trouble').textContent.endsWith('/lab/crosslet')")
    choose(page, 1)
    page.click("#tab-about")
    page.wait_for(f"document.querySelector('#facts').textContent.includes('{name}')")
    page.click("#tab-compare")
    assert page.value("document.querySelector('#collection').checkVisibility()") is False  # it needs no documents
    service.delete(shop)
    page.click("#tab-about")
    page.wait_for("!document.querySelector('#collection').checkVisibility()")
    assert page.text("#trouble") == f"There is no collection {name}."
    assert wait_for_results(page, 1) == ["The moon is far away."]  # no more the other collection's
    assert search(page, "red kettle") == ["The moon is far away."]


def test_the_key_stays_in_the_tab_and_a_wrong_one_is_refused(browser: Browser, service: httpx.Client) -> None:
    page = Page(browser)
    page.open(f"{service.base_url}/lab/crosslet/")
    give_key(page, "wrong")
    page.wait_for("document.querySelector('#key-trouble').textContent.includes('does not know this key')")
    give_key(page)
    page.wait_for("document.querySelector('#facts dd')")
    assert page.value("JSON.stringify(localStorage)") == "{}"
    assert KEY in page.value("Object.values(sessionStorage)")
    page.open(f"{service.base_url}/lab/crosslet/#about")
    page.wait_for("document.querySelector('#facts dd')")
    page.click("#key-button")
    page.click("#key-forget")
    page.wait_for("sessionStorage.length === 0")


def test_a_late_refusal_is_not_of_the_new_key(page: Page) -> None:
    page.value(
        """fetch = ((send) => async (url, options) => {
             const isLate = url.endsWith("/similarity") && !options.headers.authorization.endsWith("lesen");
             if (!isLate) return send(url, options);
             await new Promise((done) => { window.refuse = done; });
             return new Response("{}", { status: 401 }); })(fetch)"""
    )
    page.click("#tab-compare")
    page.click("#compare-example")
    page.wait_for("window.refuse")
    page.click("#key-button")
    page.type(READ_KEY, "#key")
    page.press("Enter")
    page.wait_for("Object.values(sessionStorage)[0] === 'lesen'")
    page.value("refuse()")
    page.wait_for("document.querySelector('.matrix')")
    assert page.value("document.querySelector('#key-dialog').open") is False


def test_a_key_that_was_declined_is_asked_for_again(browser: Browser, page: Page, service: httpx.Client) -> None:
    put(service, ["The moon is far away.", "Das Passwort ist falsch."])
    for way in ("#tab-about", "#key-button", "Enter"):
        page = Page(browser)
        page.open(f"{service.base_url}/lab/crosslet/#search?q=moon&k=1&collection=default")
        page.wait_for("document.querySelector('#key-dialog').open")
        page.click("#key-cancel")
        page.wait_for("document.querySelector('#trouble').checkVisibility()")
        if way == "Enter":
            page.type("password", "#query")
            page.press("Enter")
        else:
            page.click(way)
        give_key(page)
        page.wait_for("document.querySelector('#trouble').hidden")
        page.click("#tab-search")
        texts = wait_for_results(page, 1)  # k, as the address said
        assert texts[0].startswith("Das" if way == "Enter" else "The")


@pytest.mark.parametrize(
    ("asked", "word"), [("de-AT", "Suchen"), ("fr", "Chercher"), ("es-MX", "Buscar"), ("tr", "Search")]
)
def test_the_page_speaks_the_browsers_or_a_chosen_language(
    browser: Browser, service: httpx.Client, asked: str, word: str
) -> None:
    page = Page(browser, language=asked)
    page.open(f"{service.base_url}/lab/crosslet/")
    assert page.text("#tab-search") == word
    give_key(page)
    other = "en" if word != "Search" else "de"
    page.value(
        f"(s => {{ s.value = '{other}'; s.dispatchEvent(new Event('change')) }})(document.querySelector('#language'))"
    )
    page.wait_for(f"document.documentElement.lang === '{other}'")
    page.open(f"{service.base_url}/lab/crosslet/")
    assert page.value("document.documentElement.lang") == other


def node(page: Page, selector: str) -> int:
    root = page.send("DOM.getDocument")["root"]["nodeId"]
    return int(page.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"])


def test_the_keyboard_alone_is_enough_and_everything_has_a_name(page: Page, shop: str) -> None:
    page.click("#tab-about")
    page.wait_for("document.querySelector('#collection').checkVisibility()")
    (menu,) = page.send("Accessibility.queryAXTree", nodeId=node(page, "#collection"))["nodes"][:1]
    assert (menu["role"]["value"], menu["name"]["value"]) == ("combobox", "Collection")
    page.value("document.querySelector('#tab-search').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.press(key)
        seen.append(page.value("document.activeElement.dataset.tab"))
        assert page.value("document.querySelector('[role=tabpanel]:not([hidden])').id") == f"panel-{seen[-1]}"
    assert seen == ["compare", "add", "about", "search", "about", "search"]
    for tab in ("search", "compare", "add", "about"):
        page.click(f"#tab-{tab}")
        nodes = page.send("Accessibility.getFullAXTree")["nodes"]
        nodes = [node for node in nodes if node.get("role", {}).get("value") in ROLES]
        named = [(node["role"]["value"], node["name"]["value"]) for node in nodes]
        assert len(named) > 6
        assert [role for role, name in named if not name] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_all_parts_fit_the_window_and_are_readable(
    page: Page, service: httpx.Client, shop: str, width: int, scheme: str, tmp_path: Path
) -> None:
    put(service, ["x" * 400])
    group = {"text": "Das Passwort ist falsch.", "metadata": {"g": "g" * 300}}
    put_documents(service, [group | {"id": letter * 300} for letter in "ab"])
    page.click("#tab-about")
    page.wait_for("document.querySelector('#collection').checkVisibility()")
    choose(page, 1)
    choose(page, 0)
    page.resize(width, 800)
    page.colours(scheme)
    search(page, "My password is wrong.")
    choose_option(page, "#group-by", "g")
    page.wait_for("document.querySelector('.document > .link')")
    page.click("#tab-compare")
    page.click("#compare-example")
    page.wait_for("document.querySelector('.matrix')")
    page.value("document.querySelectorAll('#settings, #facets').forEach(e => { e.open = true })")
    page.value("document.querySelector('#pasted').value = 'id,text,price\\n1,Hello,5\\n'")
    page.value("document.querySelector('#pasted').dispatchEvent(new Event('input'))")
    for tab in ("search", "compare", "add", "about"):
        page.click(f"#tab-{tab}")
        assert page.value("document.documentElement.scrollWidth") <= width, tab
        assert page.faint_texts() == [], tab
        page.screenshot((Path(SHOTS) if SHOTS else tmp_path) / f"{tab}-{width}-{scheme}.png")
    page.click("#tab-search")
    page.click(".edit")
    page.wait_for("document.querySelector('#edit-text').value")
    page.click("#edit-delete")
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value("(e => e.scrollWidth - e.clientWidth)(document.querySelector('#edit-dialog'))") == 0
    assert page.faint_texts() == []
