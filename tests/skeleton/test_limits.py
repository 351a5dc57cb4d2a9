"""docs/guide/limits.md: that each guard's test is there."""

import re

import pytest

from tests.skeleton.project import ROOT

PAGE = ROOT / "docs" / "guide" / "limits.md"
ROW = re.compile(r"(?m)^- \*\*(?P<attack>[^*]+)\*\*: .*\(`(?P<test>test_\w+)`\)$")
ROWS = [row.groupdict() for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_line_of_the_lists_is_read() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(ROWS) == sum(line.startswith("- ") for line in lines) > 0


@pytest.mark.parametrize("row", ROWS, ids=[row["attack"] for row in ROWS])
def test_the_test_of_a_guard_exists(row: dict[str, str]) -> None:
    assert re.search(rf"(?m)^(?:async )?def {re.escape(row['test'])}\(", TESTS)
