"""The search of the page while a visitor types, its address, its marks, its facets and the change of documents."""

import json
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.browser import Browser, Page
from tests.contract.live import live_service
from tests.e2e.conftest import MODEL
from tests.e2e.page import (
    IS_IDLE,
    KEY,
    PATH,
    READ_KEY,
    hold,
    let_go,
    opened,
    put,
    put_documents,
    results,
    search,
    wait_for_results,
)

pytestmark = pytest.mark.slow

AFTER_PAUSE_S = 0.8
MOON, WRONG = "The moon is far away.", "Das Passwort ist falsch."
HOSTILE = "<img src=x onerror=alert(1)> 😀𝒜 a <b>kettle</b> <script>alert(2)</script>"
FILLER = "Nothing is said here about it at all. "
GOODS: list[dict[str, object]] = [
    {
        "id": f"{lang}/{n}",
        "text": f"{text} {n}",
        "metadata": {"lang": lang, "year": 2020 + n, "new": n > 1, "tags": tags},
    }
    for lang, text in (("de", "Wasserkocher"), ("en", "Kettle"), ("hi", "केतली"))
    for n, tags in enumerate((["kitchen", "red"], ["kitchen"], ["office"]))
]


def marks(page: Page, selector: str = "mark") -> list[str]:
    texts: list[str] = page.value(f"[...document.querySelectorAll('.result {selector}')].map(e => e.textContent)")
    return texts


def keys(page: Page, text: str) -> None:
    """Type 20 ms apart; within the page, for a command may take longer than the pause that ends typing."""
    page.value(
        f"""(async () => {{ for (const letter of {json.dumps(text)}) {{
          document.execCommand("insertText", false, letter);
          await new Promise((done) => setTimeout(done, 20)); }} }})()"""
    )


def place(page: Page) -> str:
    hash_: str = page.value("location.hash")
    return hash_


def facets(page: Page) -> dict[str, list[str]]:
    """Each field with its values, counts and whether they are pressed."""
    found: dict[str, list[str]] = page.value(
        """Object.fromEntries([...document.querySelectorAll('#facet-list section')].map((one) => [
          one.querySelector('h3').textContent,
          [...one.querySelectorAll('button')].map((e) => e.textContent + (e.ariaPressed === 'true' ? '!' : '')),
        ]))"""
    )
    return found


def press_facet(page: Page, value: str) -> None:
    """By the keyboard; the focus stays."""
    page.value(
        f"[...document.querySelectorAll('#facet-list button')].find(e => e.textContent.startsWith({value!r})).focus()"
    )
    page.press("Enter")
    page.wait_for(IS_IDLE)
    assert page.value("document.activeElement.textContent").startswith(value)


def wait_for_mode(page: Page, mode: str) -> None:
    """Until a search in this mode was sent."""
    end = time.monotonic() + 20
    while mode not in [body["mode"] for body in page.bodies("/search")]:
        assert time.monotonic() < end, f"no search by {mode}"
        time.sleep(0.05)


def test_keywords_answer_keys_and_the_mode_a_pause(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    page.value("document.querySelector('#query').focus()")
    keys(page, "pass")
    page.wait_for("document.querySelector('mark')?.textContent === 'Passwort'")
    wait_for_mode(page, "hybrid")
    page.wait_for(IS_IDLE)
    sent = page.bodies("/search")
    assert {body["mode"] for body in sent[:-1]} == {"keywords"}
    assert sent[-1]["mode"] == "hybrid"
    assert all(body["typing"] for body in sent)
    assert (sent[-1]["query"], len(sent) < 6) == ("pass", True)  # at most one a key, and that of the pause
    assert page.text("#search-said") == "2 results"
    page.press("Enter")
    page.wait_for(IS_IDLE)
    assert "typing" not in page.bodies("/search")[-1]


def test_a_new_language_leaves_the_slow_search_going(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    hold(page, "options.body?.includes('hybrid')")
    page.value("document.querySelector('#query').focus()")
    keys(page, "moon")
    page.wait_for("document.querySelector('mark') && held > 0")
    choose(page, "language", "de", is_idle=False)
    page.wait_for("document.documentElement.lang === 'de'")
    let_go(page)
    page.wait_for("document.querySelector('#search-said').textContent === '2 Ergebnisse'")
    assert page.bodies("/search")[-1]["mode"] == "hybrid"


def test_vectors_alone_wait_for_a_pause(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    page.value("document.querySelector('#mode').value = 'dense'")
    page.value("document.querySelector('#query').focus()")
    keys(page, "my password")
    wait_for_results(page, 2)
    (body,) = page.bodies("/search")
    assert (body["query"], body["mode"], "typing" in body) == ("my password", "dense", False)


def test_an_older_answer_never_replaces_a_newer_one(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    page.value(
        """window.fetch = ((send) => async (url, options) => {
          const answer = await send(url, options);
          if (String(options.body).includes("falsch")) await new Promise((done) => setTimeout(done, 1500));
          return answer;
        })(window.fetch)"""
    )
    page.type("falsch", "#query")
    time.sleep(AFTER_PAUSE_S)
    assert search(page, "moon")[0] == MOON
    time.sleep(1.5)
    assert results(page)[0] == MOON
    assert page.complaints()[1:] == []  # but for the key


def test_a_word_that_is_composed_is_not_searched_for(page: Page, service: httpx.Client) -> None:
    put(service, ["返金にはどのくらい時間がかかりますか。", MOON])
    page.value("document.querySelector('#query').focus()")
    for part in ("h", "へ", "へん", "返"):
        page.send("Input.imeSetComposition", text=part, selectionStart=len(part), selectionEnd=len(part))
    time.sleep(AFTER_PAUSE_S)
    assert page.value("document.querySelector('#query').value") == "返"
    assert page.bodies("/search") == []
    page.type("返金")
    page.wait_for("document.querySelector('mark')?.textContent === '返金'")


@pytest.mark.parametrize("pointer", ["fine", "coarse"])
def test_the_cursor_is_in_the_search_box_unless_touched(browser: Browser, service: httpx.Client, pointer: str) -> None:
    page = Page(browser)
    page.send("Emulation.setEmulatedMedia", features=[{"name": "pointer", "value": pointer}])
    if pointer == "coarse":
        page.send("Emulation.setTouchEmulationEnabled", enabled=True)
    page.open(f"{service.base_url}{PATH}/")
    page.wait_for("document.querySelector('#key-dialog').open")
    page.click("#key-cancel")
    page.wait_for("!document.querySelector('#key-dialog').open")
    assert page.value("document.activeElement.id === 'query'") is (pointer == "fine")


def test_a_slash_leads_to_the_search_box_from_anywhere(page: Page) -> None:
    page.click("#tab-about")
    page.press("/")
    assert page.value("[document.activeElement.id, document.activeElement.value]") == ["query", ""]
    assert place(page) == "#search"
    page.press("/")  # now a letter
    assert page.value("document.activeElement.value") == "/"
    page.click("#tab-about")
    page.click("#key-button")
    page.value("document.activeElement.blur()")
    page.press("/")
    assert place(page) == "#about?q=%2F"


def choose(page: Page, menu: str, value: str, *, is_idle: bool = True) -> None:
    page.value(
        f"""(() => {{ const menu = document.querySelector('#{menu}'); menu.value = {value!r};
          menu.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"""
    )
    if is_idle:
        page.wait_for(IS_IDLE)


def test_a_field_out_of_sight_never_stops_the_search(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    choose(page, "min-score", "own")
    page.type("5", "#own-score")
    assert not page.value("document.querySelector('#search-form').checkValidity()")
    choose(page, "min-score", "")
    assert len(search(page, "moon")) == 2
    page.type("", "#top-k")
    page.value("document.querySelector('#options').open = false")
    page.value("document.querySelector('#query').focus()")
    page.press("Enter")
    page.wait_for("document.activeElement.id === 'top-k' && document.querySelector('#options').open")


@pytest.mark.parametrize("button", ["button.chip", ".document > button.link"])
def test_an_unfinished_filter_is_kept_when_narrowing(page: Page, service: httpx.Client, button: str) -> None:
    put_documents(service, GOODS)
    page.click("#tab-about")  # asks for the facts again
    assert len(search(page, "kettle")) == len(GOODS)
    choose(page, "group-by", "lang")
    wait_for_results(page, 3)
    page.type('{"new": true', "#filter")
    page.click(f".result {button}")
    assert page.value("document.querySelector('#filter').value") == '{"new": true'
    assert page.value("document.querySelector('#group-by').value") == "lang"
    assert page.value("document.querySelector('#filter').ariaInvalid") == "true"


def test_groups_show_their_best_and_open(page: Page, service: httpx.Client) -> None:
    put_documents(service, GOODS)
    search(page, "")
    choose(page, "group-by", "lang")
    assert results(page) == ["Wasserkocher 0", "Kettle 0", "केतली 0"]
    assert place(page) == "#search?group=lang"
    search(page, "kettle")
    assert (len(results(page)), results(page)[0][:6]) == (3, "Kettle")
    assert page.value("document.querySelector('.document > .link').textContent") == "3 documents with lang en"
    page.click(".document > .link")
    page.wait_for(IS_IDLE)
    assert sorted(results(page)) == ["Kettle 0", "Kettle 1", "Kettle 2"]
    assert "group" not in place(page)
    assert page.complaints()[1:] == []  # but for the key


def test_documents_are_sorted_with_and_without_a_query(page: Page, service: httpx.Client) -> None:
    put_documents(service, GOODS)
    search(page, "")
    assert page.value("[...document.querySelectorAll('#sort-by option')].length") == 1 + 2 * 4
    choose(page, "sort-by", "desc:year")
    assert [text[-1] for text in results(page)] == [*"222111000"]
    search(page, "kettle")
    assert [text[-1] for text in results(page)] == [*"222111000"]
    assert "the best 100, ordered" in page.text("#search-status")
    assert page.value("document.querySelector('.divider')") is None  # the first result is not the best one
    choose(page, "sort-by", "")
    assert results(page)[0].startswith("Kettle")
    assert place(page) == "#search?q=kettle"


def test_an_address_has_groups_order_and_preference(browser: Browser, service: httpx.Client) -> None:
    put_documents(service, GOODS)
    page = opened(browser, service, f"#search?q={quote('Wasserkocher kaufen')}&group=tags&sort=asc:year&prefer=")
    body = page.bodies("/search")[-1]
    assert (body["group_by"], body["sort"], body["prefer"]) == ("tags", [{"year": "asc"}], "auto")
    assert page.value("document.querySelector('#options').open")
    assert page.value("[document.querySelector('#group-by').value, document.querySelector('#sort-by').value]") == [
        "tags",
        "asc:year",
    ]
    assert "German preferred" in page.text("#search-status")


def test_without_metadata_there_is_nothing_to_group(page: Page, service: httpx.Client) -> None:
    put_documents(service, [{"id": "1", "text": MOON}])
    search(page, "moon")
    shown = "[...document.querySelectorAll('#group-by, #sort-by, #prefer')].map(e => e.offsetParent !== null)"
    assert page.value(shown) == [False, False, False]


def test_back_leads_to_the_searches_before(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG])
    before = page.value("history.length")
    page.value("document.querySelector('#query').focus()")
    keys(page, "moon")
    assert place(page) == "#?q=moon"
    page.press("Enter")
    page.wait_for(IS_IDLE)
    assert page.value("history.length") == before + 1
    page.value("document.querySelector('#query').select()")
    keys(page, "falsch")
    page.press("Enter")
    page.wait_for(f"{IS_IDLE} && document.querySelector('mark')?.textContent === 'falsch'")
    assert page.value("history.length") == before + 2
    page.click("#tab-about")
    for name, query, mark in (("search", "falsch", "falsch"), ("search", "moon", "moon")):
        page.value("history.back()")
        page.wait_for(f"document.querySelector('#query').value === '{query}' && {IS_IDLE}")
        page.wait_for(f"document.querySelector('mark')?.textContent === '{mark}'")
        assert page.value("document.querySelector('[aria-selected=true]').dataset.tab") == name
    page.value("history.back()")
    page.wait_for(
        "document.querySelector('#query').value === '' && document.querySelectorAll('.score .number').length === 0"
    )
    assert len(wait_for_results(page, 2)) == 2


def test_a_shared_link_opens_with_its_answers(
    browser: Browser, page: Page, service: httpx.Client, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: service.delete("/collections/a.b"))
    put_documents(service, GOODS)
    put_documents(service, GOODS[:3], path="/collections/a.b/documents")
    fields = {"q": "kettle & Co? #1", "mode": "keywords", "filter": '{"lang":"en"}', "k": "2"}
    link = "#search?" + "&".join(f"{name}={quote(value)}" for name, value in fields.items())
    other = opened(browser, service, link)
    assert len(wait_for_results(other, 2)) == 2
    assert other.bodies("/search")[-1] == {
        "query": "kettle & Co? #1",
        "top_k": 2,
        "mode": "keywords",
        "include": ["text", "metadata", "highlights"],
        "filter": {"lang": "en"},
    }
    other.press("Enter")
    other.wait_for(IS_IDLE)
    assert dict(pair.split("=") for pair in place(other).split("?")[1].split("&")).keys() == fields.keys()
    assert KEY not in other.value("decodeURIComponent(location.href)")
    third = opened(browser, service, "#search?q=kocher&collection=a.b")
    assert len(wait_for_results(third, 3)) == 3
    assert third.value("document.querySelector('#collection').value") == "a.b"
    fourth = opened(browser, service, "#search?q=kocher&collection=gone")
    assert fourth.text("#trouble") == "There is no collection gone."


# The key is known; each answer about the service waits until its turn in `turns` is called.
TURNS = """sessionStorage.setItem("crosslet.key:/lab/crosslet/", "schlüssel");
  (() => { const send = window.fetch; [window.turns, window.taken] = [[], 0];
    window.fetch = async (url, options) => {
      const answer = await send(url, options);
      if (!String(url).endsWith("/info")) return answer;
      await new Promise((turn) => window.turns.push(turn));
      const text = await answer.text();
      return { ...answer, ok: true, status: 200, headers: answer.headers, text: async () => (window.taken += 1, text) };
    }; })()"""


def test_facts_that_come_late_leave_what_is_typed(browser: Browser, page: Page, service: httpx.Client) -> None:
    put_documents(service, GOODS)
    page = Page(browser)
    page.send("Page.addScriptToEvaluateOnNewDocument", source=TURNS)
    least = service.get("/info").json()["min_scores"]["all"]
    page.open(f"{service.base_url}{PATH}/#search?q=kettle&mode=keywords&min={least}&sort=desc%3Ayear&k=4&prefer=")
    for count in (1, 2):
        page.wait_for(f"turns.length === {count}")
        put(service, [MOON])
        page.press("Enter")  # asks again
    page.wait_for("turns.length === 3")
    page.value("document.querySelector('#query').select()")
    page.send("Input.imeSetComposition", text="Ket", selectionStart=3, selectionEnd=3)
    page.value("turns[2]()")
    page.wait_for(f"document.querySelector('#facts dd') && {IS_IDLE}")
    assert page.value("document.querySelector('#query').value") == "Ket"
    page.type("Kettle")
    page.press("Enter")
    wait_for_results(page, 3)
    body = page.bodies("/search")[-1]
    assert (body["min_score"], body["top_k"], body["sort"]) == (least, 4, [{"year": "desc"}])
    assert body["prefer"] == "auto"
    edit(page)
    page.value("turns.forEach((turn) => turn())")
    page.wait_for("taken === 3")
    assert page.value("document.querySelector('#edit-dialog').open")
    assert page.value("document.querySelector('#query').placeholder") == "Search 10 documents, in any language"


def test_what_matched_is_marked_in_any_script(page: Page, service: httpx.Client) -> None:
    put(service, [HOSTILE, f"😀 {MOON} The kettle is red. Nobody knows.", "هذه غلاية كهربائية. لا أحد يعرف."])
    page.value("document.querySelector('#mode').value = 'keywords'")
    assert sorted(search(page, "kettle")) == [HOSTILE, f"😀 {MOON} The kettle is red. Nobody knows."]
    assert marks(page) == ["kettle", "kettle"]
    assert "The kettle is red." in marks(page, ".sentence")
    assert page.value("document.querySelectorAll('.result img, .result b, .result script').length") == 0
    assert search(page, "غلاية")[0].startswith("هذه")
    assert (marks(page), marks(page, ".sentence")) == (["غلاية"], ["هذه غلاية كهربائية."])
    direction = "getComputedStyle(document.querySelector('.result .text')).direction"
    assert page.value(direction) == "rtl"


@pytest.mark.parametrize("chunk", [True, False])
def test_a_long_text_is_folded_around_its_best_part(page: Page, service: httpx.Client, chunk: bool) -> None:
    text = f"{FILLER * 40}The 😀 kettle is red. {FILLER * 40}".strip()
    service.put("/documents", json={"documents": [{"id": "long", "text": text}], "chunk": chunk}).raise_for_status()
    (folded,) = search(page, "red kettle")
    assert len(folded) < len(text) / 2
    assert "The 😀 kettle is red." in folded
    assert (folded[0], folded[-1]) == ("…", "…")
    assert marks(page, ".sentence") == ["The 😀 kettle is red."]
    page.click(".document .link")
    assert results(page) == [text]
    assert page.value("document.activeElement.className") == "text"
    assert marks(page) == ["kettle", "red"]


def test_texts_too_long_for_marks_are_found_without(page: Page, service: httpx.Client) -> None:
    for n in range(60):  # together over the million characters in which the service looks for words
        document = {"id": str(n), "text": f"kettle {n} {'x' * 18_000}"}
        service.put("/documents", json={"documents": [document], "chunk": False}).raise_for_status()
    page.value("document.querySelector('#top-k').value = 60")
    assert len(search(page, "kettle")) == 60
    assert marks(page) == []
    page.value("document.querySelector('#top-k').value = 5")
    assert len(search(page, "kettle")) == len(marks(page)) == 5


def test_facets_narrow_the_search_and_widen_it_again(page: Page, service: httpx.Client) -> None:
    put_documents(service, GOODS)
    search(page, "kettle")
    page.wait_for("document.querySelector('#facet-list section')")
    assert facets(page) == {
        "lang": ["de 3", "en 3", "hi 3"],
        "year": ["2020 3", "2021 3", "2022 3"],
        "new": ["false 6", "true 3"],
        "tags": ["kitchen 6", "office 3", "red 3"],
    }
    press_facet(page, "de")
    assert len(wait_for_results(page, 3)) == 3
    page.wait_for("document.querySelectorAll('[aria-pressed=true]').length === 1")
    assert facets(page)["lang"] == ["de 3!", "en 3", "hi 3"]
    assert facets(page)["tags"] == ["kitchen 2", "office 1", "red 1"]
    press_facet(page, "en")
    wait_for_results(page, 6)
    for value, count in (("2021", 2), ("false", 2), ("kitchen", 2)):
        press_facet(page, value)
        wait_for_results(page, count)
    filter_ = json.loads(page.value("document.querySelector('#filter').value"))
    assert filter_ == {"lang": {"in": ["de", "en"]}, "year": 2021, "new": False, "tags": "kitchen"}
    for value in ("de", "en", "2021", "false", "kitchen"):
        page.wait_for("document.querySelectorAll('[aria-pressed=true]').length > 0")
        press_facet(page, value)
    wait_for_results(page, 9)
    assert page.value("document.querySelector('#filter').value") == ""


def test_with_milvus_there_are_facets_and_keywords(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    where = {"api_keys": KEY, "root_path": PATH, "index": f"milvus+lite://{tmp_path}/documents.db"}
    with live_service(MODEL, tmp_path, **where) as service:
        service.headers["authorization"] = f"Bearer {KEY}"
        put_documents(service, GOODS)
        page = opened(browser, service)
        page.value("document.querySelector('#query').focus()")
        keys(page, "kettle")
        wait_for_mode(page, "hybrid")  # before a facet is pressed, which asks in the pause's place
        wait_for_results(page, 9)
        page.wait_for("document.querySelector('#facet-list section')")
        assert facets(page)["tags"] == ["kitchen 6", "office 3", "red 3"]
        press_facet(page, "red")
        wait_for_results(page, 3)
        asked = {(body.get("mode"), body.get("typing")) for body in page.bodies("/search")}
        assert asked >= {("keywords", True), ("hybrid", True)}
        assert marks(page)[0] == "Kettle"
        page.value(
            """window.fetch = ((send) => async (url, options) => {
              const answer = await send(url, options);
              if (!`${url}`.endsWith("/count")) return answer;
              return new Response(JSON.stringify({ ...(await answer.json()), facets_are: "at_least" }), answer);
            })(window.fetch)"""
        )
        press_facet(page, "red")
        wait_for_results(page, 9)
        page.wait_for("document.querySelector('#facet-list').textContent.includes('≥')")
        assert facets(page)["tags"] == ["kitchen ≥ 6", "office ≥ 3", "red ≥ 3"]


def test_facets_know_numbers_from_texts(page: Page, service: httpx.Client) -> None:
    values: list[object] = ["1", 1, 1, True, "true", 2.5, "x y"]
    put_documents(service, [{"id": str(n), "text": f"kettle {n}", "metadata": {"v": v}} for n, v in enumerate(values)])
    search(page, "kettle")
    page.wait_for("document.querySelector('#facet-list section')")
    assert facets(page)["v"] == ["1 3", "true 2", "2.5 1", "x y 1"]
    for value, count in (("1", 3), ("true", 5), ("2.5", 6)):
        press_facet(page, value)
        wait_for_results(page, count)
        page.wait_for(f"document.querySelectorAll('[aria-pressed=true]').length === {[3, 5, 6].index(count) + 1}")


def test_an_empty_query_lists_all_documents(page: Page, service: httpx.Client) -> None:
    put(service, [f"Number {n}" for n in range(25)])
    page.value("document.querySelector('#query').focus()")
    page.press("Enter")
    assert wait_for_results(page, 10)[-1] == "Number 9"
    assert page.text("#search-status") == "10 of 25 documents"
    for count in (20, 25):
        page.click("#more")
        wait_for_results(page, count)
    assert results(page) == [f"Number {n}" for n in range(25)]
    assert page.value("document.querySelector('#more').hidden")
    page.type('{"n": {"gte": 20}}', "#filter")
    page.press("Enter")
    assert wait_for_results(page, 5)[0] == "Number 20"


def edit(page: Page, place: int = 0) -> None:
    page.click(f"#results > li:nth-child({place + 1}) .edit")
    page.wait_for("document.querySelector('#edit-text').value")


def test_a_document_is_edited_and_deleted(page: Page, service: httpx.Client) -> None:
    text, metadata = "A moon.\r\nOf cheese.", {"a": 1234567890123456789, "b": {"c": 1, "d": 2}, "e": "old"}
    path = "/documents/de/a%20%3F%23%25"
    put_documents(service, [{"id": "de/a ?#%", "text": text, "metadata": metadata}, {"id": "b", "text": WRONG}])
    assert len(search(page, "")) == 2
    edit(page)
    assert json.loads(page.value("document.querySelector('#edit-metadata').value")) == metadata
    page.type('{"a": 1234567890123456789, "b": {"c": 5}, "f": [1]}', "#edit-metadata")
    page.click("#edit-form .primary")
    page.wait_for("!document.querySelector('#edit-dialog').open")
    stored = service.get(path).json()
    assert stored["text"] == text
    assert stored["metadata"] == {"a": 1234567890123456789, "b": {"c": 5}, "f": [1]}
    assert page.bodies("de/a%20%3F%23%25")[-1] == {"metadata": {"b": {"c": 5, "d": None}, "e": None, "f": [1]}}
    wait_for_results(page, 2)
    edit(page)
    page.type('{"a": null}', "#edit-metadata")  # which PATCH would remove
    page.type("A red kettle.", "#edit-text")
    page.click("#edit-form .primary")
    page.wait_for("!document.querySelector('#edit-dialog').open")
    assert service.get(path).json()["metadata"] == {"a": None}
    assert search(page, "kettle")[0] == "A red kettle."
    edit(page)
    page.click("#edit-delete")
    assert page.value("document.activeElement.id") == "edit-no"
    page.press("Enter")
    assert page.value("document.activeElement.id") == "edit-delete"
    assert service.get(path).status_code == 200
    page.press("Enter")
    hold(page, "options.method === 'DELETE'")
    page.click("#edit-yes")
    page.wait_for("held > 0")
    assert page.value("document.querySelector('#edit-no').disabled")  # it is too late
    let_go(page)
    page.wait_for("!document.querySelector('#edit-dialog').open")
    assert wait_for_results(page, 1) == [WRONG]
    assert service.get(path).status_code == 404


def test_what_cannot_be_saved_is_said_in_the_dialog(page: Page, service: httpx.Client) -> None:
    put(service, [MOON])
    assert search(page, "") == [MOON]
    edit(page)
    for metadata, sentence in (("{a}", "The metadata are not JSON"), ("[1]", "Metadata are an object, such as")):
        page.type(metadata, "#edit-metadata")
        page.click("#edit-form .primary")
        page.wait_for(f"document.querySelector('#edit-trouble').textContent.startsWith({sentence!r})")
    service.delete(f"/documents/{quote(MOON[:20])}")
    page.type('{"n": 8}', "#edit-metadata")
    page.click("#edit-form .primary")
    page.wait_for("document.querySelector('#edit-trouble').textContent === 'no document has this id'")
    assert page.value("document.activeElement.id") == "edit-save"
    hold(page, "options.method === 'PATCH'")
    page.press("Enter")
    page.wait_for("held > 0")
    page.click("#edit-cancel")
    page.wait_for("!document.querySelector('#edit-dialog').open")
    let_go(page)
    page.wait_for("document.querySelector('#trouble').textContent === 'no document has this id'")


def test_a_change_needs_the_key_that_may_write(browser: Browser, page: Page, service: httpx.Client) -> None:
    put(service, [MOON])
    reader = opened(browser, service, key=READ_KEY)
    assert wait_for_results(reader, 1) == [MOON]
    edit(reader)
    reader.click("#edit-delete")
    reader.click("#edit-yes")
    reader.wait_for("document.querySelector('#key-trouble').textContent.includes('CROSSLET_READ_API_KEYS')")
    assert service.get("/info").json()["index"]["documents"] == 1
    reader.type(KEY, "#key")
    reader.press("Enter")
    reader.wait_for("!document.querySelector('#edit-dialog').open")
    reader.wait_for("document.querySelector('#search-empty').checkVisibility()")
    assert service.get("/info").json()["index"]["documents"] == 0


def test_an_answer_that_does_not_come_is_said(page: Page, service: httpx.Client) -> None:
    put(service, [MOON])
    assert search(page, "moon") == [MOON]
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.send("Network.emulateNetworkConditions", offline=True, **conditions)
    page.type("kettle", "#query")
    page.wait_for("document.querySelector('#search-trouble').textContent.startsWith('The service does not answer')")
    assert results(page) == []
    page.send("Network.emulateNetworkConditions", offline=False, **conditions)
    assert search(page, "moon") == [MOON]
    assert page.value("document.querySelector('#search-trouble').hidden")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("new ReadableStream({ start: (one) => one.error(new TypeError('cut')) })", "The service does not answer"),
        ("'<html>From a proxy.'", "The service answered 200"),
    ],
)
def test_an_answer_that_is_cut_or_of_a_proxy_is_said(page: Page, service: httpx.Client, answer: str, said: str) -> None:
    put(service, [MOON])
    page.value(f"window.fetch = async () => new Response({answer})")
    page.type("moon", "#query")
    page.press("Enter")
    page.wait_for(f"document.querySelector('#search-trouble').textContent.startsWith({json.dumps(said)})")


def test_more_of_a_changed_question_is_its_first_page(page: Page, service: httpx.Client) -> None:
    put(service, [MOON, WRONG, "Three cats."])
    choose(page, "top-k", "1")
    assert search(page, "moon") == [MOON]
    page.value(
        """(query => { query.value = "cats"; query.dispatchEvent(new Event("input"));
           document.querySelector("#more").click(); })(document.querySelector("#query"))"""
    )
    page.wait_for(f"document.querySelector('.result .text').textContent === 'Three cats.' && {IS_IDLE}")
    assert results(page) == ["Three cats."]
    page.click("#more")
    assert wait_for_results(page, 2)[0] == "Three cats."


def test_docs_are_dark_where_the_visitor_wants_it(browser: Browser, service: httpx.Client) -> None:
    page = Page(browser)
    page.colours("dark")
    page.send("Page.navigate", url=f"{service.base_url}{PATH}/docs")
    page.wait_for("document.querySelector('.opblock')")
    light = "getComputedStyle(document.querySelector('.swagger-ui')).color.match(/\\d+/g).every((part) => part > 200)"
    for scheme in ("dark", "light", "dark"):
        page.colours(scheme)
        page.wait_for(f"({light}) === {json.dumps(scheme == 'dark')}")
    assert page.complaints() == []


LATE = """(() => { const real = window.fetch; window.fetch = async (url, options) => {
  if (options?.method !== "PATCH") return real(url, options);
  await new Promise((done) => setTimeout(done, 1500));
  const answer = await real(url, options);
  setTimeout(() => { window.isPatched = true; }, 300); // when the page has read it
  return answer; }; })()"""


def test_a_late_answer_leaves_another_documents_dialog_open(page: Page, service: httpx.Client) -> None:
    put_documents(service, [{"id": name, "text": f"{name} kettle", "metadata": {"n": 1}} for name in ("red", "blue")])
    search(page, "")
    page.value(LATE)
    edit(page, 0)
    first = page.text("#edit-id")
    page.type('{"n": 2}', "#edit-metadata")
    page.click("#edit-form .primary")
    assert page.value("document.querySelector('#edit-save').disabled")
    page.click("#edit-cancel")
    edit(page, 1)
    page.wait_for("window.isPatched")
    assert service.get(f"/documents/{first}").json()["metadata"] == {"n": 2}
    assert page.value("document.querySelector('#edit-dialog').open")
    assert page.text("#edit-id") != first


def test_going_back_closes_a_documents_dialog(page: Page, service: httpx.Client) -> None:
    put_documents(service, [{"id": "red", "text": "red kettle", "metadata": {}}])
    search(page, "red")
    edit(page, 0)
    page.value("history.back()")
    page.wait_for("!document.querySelector('#edit-dialog').open")
