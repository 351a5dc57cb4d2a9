"""The Markdown of the repository: that its links lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.skeleton.project import ROOT, tracked_files

# Without models/: a card is under its artifact's hashes and keeps the links it was exported with.
PAGES = [
    path for path in tracked_files() if path.suffix == ".md" and path.is_file() and ROOT / "models" not in path.parents
]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)(?P<path>[^)\s#]*)(?:#(?P<heading>[^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = page.parent / unquote(link["path"]) if link["path"] else page
        assert target.exists(), link[0]
        if link["heading"]:
            assert unquote(link["heading"]) in anchors(target), link[0]
