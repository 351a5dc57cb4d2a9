"""What pages of other origins reach of a service without keys, in headless Chromium. Needs Debian's `chromium`."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.browser import Browser, Page
from tests.contract.live import live_service
from tests.service.process.test_process import wait_for

pytestmark = pytest.mark.slow

POST = """fetch(%r, {method: 'POST', mode: 'no-cors'}).then((answer) => answer.status)"""
FORM = """(() => {
  const frame = Object.assign(document.createElement('iframe'), {name: 'sink'});
  const form = Object.assign(document.createElement('form'), {method: 'post', action: %r, target: 'sink'});
  document.body.append(frame, form);
  form.submit();
})()"""
STATUSES = """Promise.all(['/documents', '/', '/health'].map((path) => fetch(path).then((answer) => answer.status)))"""


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live_service(tiny_model, tmp_path_factory.mktemp("store"), drain_delay_s=0) as client:
        yield client


def backups(service: httpx.Client) -> dict[str, int]:
    """How many requests for a backup had each status."""
    start = 'crosslet_requests_total{route="/backup",status="'
    lines = [line.removeprefix(start) for line in service.get("/metrics").text.splitlines() if line.startswith(start)]
    return {line[:3]: int(float(line.rpartition(" ")[2])) for line in lines}


def open_document(browser: Browser, url: str) -> Page:
    page = Page(browser)
    page.send("Page.navigate", url=url)
    page.wait_for(f"location.href === {url!r} && document.readyState === 'complete'")
    return page


@pytest.mark.parametrize("script", [POST, FORM])
def test_a_foreign_page_starts_no_backup(browser: Browser, service: httpx.Client, script: str) -> None:
    """Its browser sends the request, since it takes no body and no header of its own; only the answer is hidden."""
    before = backups(service)
    page = open_document(browser, f"http://localhost:{service.base_url.port}/health")
    page.value(script % f"{service.base_url}/backup")
    wait_for(lambda: sum(backups(service).values()) > sum(before.values()))
    refused = {status: count - before.get(status, 0) for status, count in backups(service).items()}
    assert refused == {**dict.fromkeys(before, 0), "403": 1}


def test_a_page_of_the_service_starts_a_backup(browser: Browser, service: httpx.Client) -> None:
    page = open_document(browser, f"{service.base_url}/health")
    assert page.value(POST % f"{service.base_url}/backup") == 200


def test_a_name_that_points_here_reads_nothing(browser: Browser, service: httpx.Client) -> None:
    """As after DNS rebinding: browsers resolve *.localhost to this machine, and send the name as Host."""
    page = open_document(browser, f"http://evil.localhost:{service.base_url.port}/health")
    assert page.value(STATUSES) == [421, 421, 200]
