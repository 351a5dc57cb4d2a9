from collections.abc import Iterator

import pytest

from tests.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium; skipped where there is none."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()
