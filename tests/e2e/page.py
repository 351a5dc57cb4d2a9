"""What visitors do on the page of a live service."""

import httpx

from tests.browser import Browser, Page

KEY, READ_KEY = "schlüssel", "lesen"
SHOP_KEY, KEYED = "boutique", "keyed"  # the key of one collection, and its name
MAX_BODY_BYTES = 20_000
PATH = "/lab/crosslet"  # the page does not know of it: the service cuts it off, as a proxy may leave it
IS_IDLE = "document.querySelector('#panel-search').ariaBusy === 'false'"

HOLD = """(() => {
  const [send, gate] = [window.fetch, new Promise((done) => { window.letGo = done; })];
  window.held = 0;
  window.fetch = async (url, options = {}) => {
    if (%s) window.held += 1, await gate;
    return send(url, options); }; })()"""


def hold(page: Page, condition: str) -> None:
    """Hold back the requests for which a condition on `url` and `options` is true."""
    page.value(HOLD % condition)


def let_go(page: Page) -> None:
    """Send the requests that are held back, once there are any."""
    page.wait_for("held > 0")
    page.value("letGo()")


def drop_file(page: Page, name: str, content: str = "'of a file'") -> None:
    """Drop a file; content: JavaScript that gives it."""
    page.value(
        f"""(() => {{ const event = new Event("drop");
          event.dataTransfer = {{ files: [new File([{content}], {name!r})] }};
          document.querySelector("#drop").dispatchEvent(event); }})()"""
    )


def opened(browser: Browser, service: httpx.Client, place: str = "", *, key: str = KEY) -> Page:
    """A new tab with the page at a place such as `#search?q=moon`, once it shows what the service has."""
    page = Page(browser)
    page.open(f"{service.base_url}{PATH}/{place}")
    give_key(page, key)
    page.wait_for("document.querySelector('#facts dd')")
    page.wait_for(IS_IDLE)
    return page


def give_key(page: Page, key: str = KEY) -> None:
    page.wait_for("document.querySelector('#key-dialog').open")
    page.type(key, "#key")
    page.press("Enter")


def search(page: Page, query: str) -> list[str]:
    """The texts that a query finds."""
    page.click("#tab-search")
    page.type(query, "#query")
    page.press("Enter")
    page.wait_for(IS_IDLE)
    return results(page)


def results(page: Page) -> list[str]:
    """The texts of the documents on the page."""
    texts: list[str] = page.value("[...document.querySelectorAll('.result .text')].map(e => e.textContent)")
    return texts


def wait_for_results(page: Page, count: int) -> list[str]:
    """The texts, once there are so many."""
    page.wait_for(f"document.querySelectorAll('.result').length === {count} && {IS_IDLE}")
    return results(page)


def add(page: Page, text: str) -> str:
    """What the page says after it has sent pasted text."""
    page.click("#tab-add")
    page.type(text, "#pasted")
    page.click("#send")
    page.wait_for("document.querySelector('#add-status').textContent.includes('stored')")
    return page.text("#add-status")


def put(service: httpx.Client, texts: list[str], *, path: str = "/documents") -> None:
    documents: list[dict[str, object]] = [
        {"id": text[:20], "text": text, "metadata": {"n": n}} for n, text in enumerate(texts)
    ]
    put_documents(service, documents, path=path)


def put_documents(service: httpx.Client, documents: list[dict[str, object]], *, path: str = "/documents") -> None:
    answer = service.put(path, json={"documents": documents})
    assert answer.status_code == 200, answer.text
