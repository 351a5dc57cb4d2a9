from collections.abc import Iterator

import httpx
import pytest

from tests.browser import Browser, Page
from tests.contract.live import live_service
from tests.e2e.page import KEY, KEYED, MAX_BODY_BYTES, PATH, READ_KEY, SHOP_KEY, opened
from tests.skeleton.project import ROOT

MODEL = ROOT / "models" / "default"


@pytest.fixture(scope="module")
def running_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium; skipped where there is none."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(running_browser: Browser) -> Iterator[Browser]:
    """A browser without tabs: each costs two processes and 80 MiB."""
    yield running_browser
    running_browser.close_tabs()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """With keys, under a path."""
    settings = {
        "api_keys": f"{KEY}, {SHOP_KEY} write={KEYED}",
        "read_api_keys": READ_KEY,
        "max_body_bytes": MAX_BODY_BYTES,
    }
    with live_service(MODEL, tmp_path_factory.mktemp("store"), root_path=PATH, **settings) as client:
        client.headers["authorization"] = f"Bearer {KEY}"  # httpx sends UTF-8
        yield client


@pytest.fixture
def page(browser: Browser, service: httpx.Client) -> Page:
    """The page of a service without documents, its key given."""
    service.post("/documents/delete", json={"filter": {"not": {"nothing": {"exists": True}}}})
    return opened(browser, service)
