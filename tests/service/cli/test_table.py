import pytest

from service.cli.table import LEFT_TO_RIGHT, clipped, described, one_line, table, width_of

TEXTS = {
    "Größe": 5,
    "日本語": 6,
    "ｈａｌｆ": 8,
    "ﾊﾝｶｸ": 4,
    "الطبيب": 6,
    "שָׁלוֹם": 4,  # with points
    "e\u0301te\u0301": 3,
    "한국어": 6,
    "\u1112\u1161\u11ab": 2,  # one syllable of three letters
    "a\u200db": 2,
    "👍": 2,
}


@pytest.mark.parametrize(("text", "columns"), TEXTS.items())
def test_the_width_is_what_a_terminal_takes(text: str, columns: int) -> None:
    assert width_of(text) == columns


@pytest.mark.parametrize("text", TEXTS)
def test_clipped_text_fits_and_keeps_marks_with_letters(text: str) -> None:
    long = text * 9
    for columns in range(2, 18):
        cut = clipped(long, columns)
        assert width_of(cut) <= columns
        assert cut.endswith("…")
        assert width_of(long[len(cut) - 1]) > 0
    assert clipped(text, width_of(text)) == text


def test_the_last_column_starts_at_the_same_place_in_every_row() -> None:
    rows = [("0.5", id_, "lang=xx", "text") for id_ in TEXTS]
    first, *others = table(("score", "id", "metadata", "text"), rows, columns=60).splitlines()
    assert {width_of(line[: line.rindex("text")]) for line in others} == {width_of(first[: first.rindex("text")])}


def test_right_to_left_cell_keeps_the_next_in_its_column() -> None:
    line = table(("score", "id", "text"), [("1", "الطبيب", "12")], columns=40).splitlines()[1]
    assert line.replace(" ", "") == f"1الطبيب{LEFT_TO_RIGHT}12"


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    rows = [("0.123", "日本/" * 30, 'tags=["x"] ' * 9, text * 50) for text in TEXTS]
    header = ("score", "id", "metadata", "text")
    least = 5 + 2 + 8 + 2 + 8 + 2 + 8
    assert max(map(width_of, table(header, rows, columns=columns).splitlines())) <= max(columns, least)


def test_a_column_without_a_cell_is_left_out() -> None:
    assert table(("score", "metadata", "text"), [("1", "", "a")], columns=80) == "score  text\n    1  a\n"


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    text = "a\x1b[2Jb\u202ec\u2066d\r\n\te\u2028f\x9bg"
    assert one_line(text) == "a [2Jbcd e f g"


def test_metadata_are_names_and_values() -> None:
    assert described({"lang": "de", "year": 2021, "tags": ["a", "ü"]}) == 'lang=de year=2021 tags=["a","ü"]'
