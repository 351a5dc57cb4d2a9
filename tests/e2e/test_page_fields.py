"""The page and a collection of documents with their own fields."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.browser import Page
from tests.e2e.page import add, results, search

pytestmark = pytest.mark.slow

CSV = "nr,title,description,price,secret\n1,Kettle,boils water,19.9,x\n2,مصباح,,5,y\n3,,,7,z\n"


@pytest.fixture
def goods(page: Page, service: httpx.Client) -> Iterator[str]:
    """The path of a collection that the page has set up."""
    page.click("#tab-add")
    page.click("#settings summary")
    for field, value in (("name", "goods"), ("text", "{title}. {description}"), ("fields", "price")):
        page.type(value, f"#settings-{field}")
    page.press("Enter")
    page.wait_for("document.querySelector('#settings-status').textContent === 'goods is set up.'")
    yield "/collections/goods"
    service.delete("/collections/goods")


def test_a_collection_is_set_up_while_it_is_empty(page: Page, service: httpx.Client, goods: str) -> None:
    stored = service.get(goods).json()
    assert (stored["text"], stored["fields"]) == ("{title}. {description}", ["price"])
    assert page.value("document.querySelector('#collection').value") == "goods"
    page.type("{title", "#settings-text")
    page.press("Enter")
    page.wait_for("document.querySelector('#settings-trouble').textContent.includes('belongs to no field')")
    page.type("{title}", "#settings-text")
    page.value("document.querySelector('#settings-fields').value = ''")
    page.press("Enter")
    page.wait_for("document.querySelector('#settings-status').textContent === 'goods is set up.'")
    assert service.get(goods).json()["text"] == "{title}"
    assert add(page, '{"id": "1", "title": "Kettle"}') == "1 document is stored."
    page.wait_for("document.querySelector('#settings-save').disabled")
    assert page.value("document.querySelector('#settings-text').value") == "{title}"
    assert page.text("#settings-status").startswith("It has 1 document")
    page.type("another", "#settings-name")
    assert page.value("document.querySelector('#settings-save').disabled") is False
    page.value(
        "fetch = ((send) => async (url, ...more) => send(url.endsWith('/info') ? 'data:,' : url, ...more))(fetch)"
    )
    page.press("Enter")
    page.wait_for("document.querySelector('#trouble').textContent.startsWith('The service')")
    assert service.delete("/collections/another").status_code == 200
    assert page.text("#settings-status") == ""
    assert page.value("document.querySelector('#collection').value") == "goods"


def test_what_is_typed_of_a_new_collection_stays(page: Page, service: httpx.Client, goods: str) -> None:
    def typed() -> list[str]:
        fields: list[str] = page.value(
            "['name', 'text', 'fields'].map(f => document.querySelector(`#settings-${f}`).value)"
        )
        return fields

    page.type("{body}", "#settings-text")
    page.type("goods", "#settings-name")  # on the way to another name
    page.type("goods2", "#settings-name")
    assert typed() == ["goods2", "{body}", "price"]
    page.click("#tab-about")  # asks for the facts again
    page.wait_for("document.querySelector('#facts').checkVisibility()")
    page.value("(s => { s.value = 'de'; s.dispatchEvent(new Event('change')) })(document.querySelector('#language'))")
    page.wait_for("document.documentElement.lang === 'de'")
    page.click("#tab-add")
    assert typed() == ["goods2", "{body}", "price"]
    page.value(
        "(e => { e.value = 'default'; e.dispatchEvent(new Event('change')) })(document.querySelector('#collection'))"
    )
    assert typed() == ["default", "", ""]


def test_documents_keep_their_own_fields(page: Page, service: httpx.Client, goods: str) -> None:
    page.type(CSV, "#pasted")
    page.wait_for("document.querySelector('#preview table')")
    heads = page.value("[...document.querySelectorAll('#preview th')].map(e => e.innerText.replace('\\n', ' '))")
    assert heads[0] == "nr number · left out"
    assert heads[1:] == [
        "title text · is the text",
        "description text · is the text",
        "price number",
        "secret text · left out",
    ]
    assert page.value("document.querySelector('#text-field').checkVisibility()") is False
    page.value("(e => { e.value = 'nr'; e.dispatchEvent(new Event('change')) })(document.querySelector('#id-field'))")
    page.click("#send")
    page.wait_for("document.querySelector('#add-status').textContent === '2 documents are stored.'")
    assert page.text("#add-errors").startswith("Line 4: there is no text")
    stored = service.get(f"{goods}/documents/1").json()
    assert stored["text"] == "Kettle. boils water"
    assert stored["metadata"] == {"title": "Kettle", "description": "boils water", "price": 19.9}
    assert search(page, "kettle")[0] == "Kettle. boils water"
    page.click(".edit")
    page.wait_for("document.querySelector('#edit-text').value")
    assert page.value("document.querySelector('#edit-text').readOnly")
    page.type(json.dumps(stored["metadata"] | {"title": "Red kettle"}), "#edit-metadata")
    page.click("#edit-form .primary")
    page.wait_for("!document.querySelector('#edit-dialog').open")
    page.wait_for("document.querySelector('.result .text')?.textContent.startsWith('Red kettle')")
    assert "Red kettle. boils water" in results(page)
    page.value(
        "(e => { e.value = 'default'; e.dispatchEvent(new Event('change')) })(document.querySelector('#collection'))"
    )
    page.click("#tab-add")
    page.value("document.querySelector('#add-status').textContent = ''")
    page.click("#send")  # the same again, of which this collection takes a text
    page.wait_for("document.querySelector('#add-status').textContent.endsWith('stored.')")
    assert service.get("/documents/1").json()["text"] in {"Kettle", "boils water"}
