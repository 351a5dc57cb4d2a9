from pathlib import Path

from benchmarks.search_page import PAGE, PLOT, Measured, Setting, page, write_page

FOUND = [
    Measured(1000, "crosslet (faiss-flat)", 0.14, 0.23, 0.999, 1.5, 0.3),
    Measured(1000, "milvus-lite", 292.0, 434.0, 1.0, None, 2.0),
    Measured(100_000, "crosslet (faiss-ivf-sq8)", 0.7, 1.1, 0.98, 38.0, 40.0),
]
SETTING = Setting("mini", "0123456789abcdef", 20_000, 200, ("--sizes", "1000", "100000", "--model", "my model"))


def test_search_page_has_every_row_and_its_command() -> None:
    text = page(FOUND, SETTING)
    assert "| 1,000 | crosslet (faiss-flat) | 0.14 | 0.23 | 0.999 | 2 | 0.3 |" in text
    assert "| 1,000 | milvus-lite | 292.00 | 434.00 | 1.000 | - | 2.0 |" in text
    assert "mini 0123456789ab, of 20,000 real sentences" in text
    assert "--data DIR --sizes 1000 100000 --model 'my model'`" in text


def test_missing_search_figures_are_dashes_and_no_points(tmp_path: Path) -> None:
    write_page([*FOUND, Measured(1000, "txtai: not measured")], SETTING, tmp_path)
    assert "| 1,000 | txtai: not measured | - | - | - | - | - |" in (tmp_path / PAGE).read_text()
    assert "txtai" not in (tmp_path / PLOT).read_text()


def test_the_page_and_its_plot_are_written_together(tmp_path: Path) -> None:
    write_page(FOUND, SETTING, tmp_path)
    assert f"]({PLOT})" in (tmp_path / PAGE).read_text()
    assert "milvus-lite" in (tmp_path / PLOT).read_text()
