from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.readers.csv_table import INFERRED_ROWS, column_types
from service.documents.readers.records import Record
from service.documents.readers.sources import open_source
from service.errors import InvalidInput


def read(path: Path, text: str, types: str) -> tuple[list[Record], list[str]]:
    path.write_text(text, encoding="utf-8")
    told: list[str] = []
    with open_source(path, "csv", column_types(types, told.append)) as source:
        return list(source.records(None)), told


def metadata(records: list[Record]) -> list[dict[str, Any] | str | None]:
    return [record.fault or record.fields["metadata"] for record in records]


def column(tmp_path: Path, *cells: str, types: str = "auto") -> list[Any]:
    """What the cells of a column x are read as; an empty one is None."""
    rows = "".join(f'{number},a,"{cell}"\n' for number, cell in enumerate(cells))
    records, _ = read(tmp_path / "a.csv", f"id,text,x\n{rows}", types)
    return [record.fault or record.fields["metadata"].get("x") for record in records]


def test_named_columns_have_their_type_and_the_others_stay_text(tmp_path: Path) -> None:
    rows = """id,text,price,year,new,tags,code
1,a,12.50,2020,TRUE,"[1, ""x""]",007
2,b,1e3, 7 ,false,null,
3,c,,,,,
"""
    records, told = read(tmp_path / "a.csv", rows, "price=float,year=int, new=bool,tags=json")
    assert metadata(records) == [
        {"price": 12.5, "year": 2020, "new": True, "tags": [1, "x"], "code": "007"},
        {"price": 1000.0, "year": 7, "new": False, "tags": None},
        {},
    ]
    assert told == []


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        *(("int", cell) for cell in ("1.5", "x", "1_000", "9" * 19, "٣")),
        *(("float", cell) for cell in ("nan", "inf", "1e999", "1_0", "1,5", "0x1")),
        *(("bool", cell) for cell in ("yes", "1")),
        *(("json", cell) for cell in ("{", "NaN")),
    ],
)
def test_cell_of_another_type_names_only_its_column(tmp_path: Path, kind: str, cell: str) -> None:
    fault = f"column 'x' is not {kind}; name its type, as in --types x=text"
    assert column(tmp_path, cell, "", types=f"x={kind}") == [fault, None]


def test_inferred_types_fit_all_first_rows_and_are_told(tmp_path: Path) -> None:
    rows = "id,text,whole,part,flag,zip,mixed,none\n1,a,1,1,true,01234,1,\n2,b,-2,2.5,false,5,x,\n3,c,,,,,,\n"
    records, told = read(tmp_path / "a.csv", rows, "auto")
    assert metadata(records) == [
        {"whole": 1, "part": 1.0, "flag": True, "zip": "01234", "mixed": "1"},
        {"whole": -2, "part": 2.5, "flag": False, "zip": "5", "mixed": "x"},
        {},
    ]
    kept = "--types whole=int,part=float,flag=bool"
    assert told == [
        f"types by the first 3 rows, others are text; to keep them: {kept}; a type would change cells of zip: name it "
        "where that is right, as in --types auto,zip=int"
    ]
    named, _ = read(tmp_path / "a.csv", rows, kept.removeprefix("--types "))
    assert metadata(named) == metadata(records)
    overruled, _ = read(tmp_path / "a.csv", rows, "auto,whole=text")
    assert [one.get("whole") for one in metadata(overruled) if isinstance(one, dict)] == ["1", "-2", None]


CHANGED = [
    *("007", "+1", "1_000", " 1", "1 ", "1e5", "12E5", "1.5e3", "٣", "NaN", "inf", "-0", "1.10", "1.50", "1.", ".5"),
    *("1e-400", "1e999", "1,5", "0x1", "--1", "True ", "yes"),
    *("9" * 20, "9223372036854775808", "0.1234567890123456789"),
]


@pytest.mark.parametrize("cell", CHANGED)
@pytest.mark.parametrize("beside", ["", "7", "1.5", "true"])
def test_auto_keeps_what_a_number_would_change(tmp_path: Path, cell: str, beside: str) -> None:
    assert column(tmp_path, cell, beside) == [cell, beside or None]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("0", "-7", "9007199254740993"), [0, -7, 9007199254740993]),
        ((str(2**63 - 1), str(-(2**63))), [2**63 - 1, -(2**63)]),
        (("1.0", "-0.0", "1.5", "0.1"), [1.0, -0.0, 1.5, 0.1]),
        ((str(2**53), "1.5"), [float(2**53), 1.5]),
        ((str(2**53 + 1), "1.5"), ["9007199254740993", "1.5"]),
        (("true", "false"), [True, False]),
        (("True", "False"), [True, False]),
        (("TRUE", "FALSE"), [True, False]),
        (("True", "false"), ["True", "false"]),
        (("tRue", "tRue"), ["tRue", "tRue"]),
        (("2020-01-02", "2020-01-03"), ["2020-01-02", "2020-01-03"]),
    ],
)
def test_auto_types_a_column_only_if_no_cell_changes(
    tmp_path: Path, cells: tuple[str, ...], expected: list[object]
) -> None:
    assert repr(column(tmp_path, *cells)) == repr(expected)


@pytest.mark.parametrize(
    ("first", "late"), [("1", "007"), ("1", "9" * 20), ("1.5", "1.50"), ("true", "yes"), ("1", "٣")]
)
def test_auto_changes_no_cell_of_a_later_row(tmp_path: Path, first: str, late: str) -> None:
    values = column(tmp_path, *[first] * INFERRED_ROWS, late, first)
    assert "name its type, as in --types x=text" in values[-2]
    assert values[-1] == values[0] != first


@given(st.lists(st.one_of(st.text("0123456789.-+eE_ ", min_size=1), st.floats().map(repr), st.integers().map(str))))
def test_every_cell_survives_auto(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    for cell, value in zip(cells, column(tmp_path_factory.mktemp("auto"), *cells), strict=True):
        written = value if isinstance(value, str) else orjson.dumps(value).decode()
        assert written in {cell, f"{cell}.0"}


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ("price", "price"),
        ("price=number", "text, int, float, bool, json"),
        ("=int", "COLUMN=TYPE"),
        ("prize=float", "the header has id, text, price"),
        ("text=json", "always text"),
    ],
)
def test_types_of_nothing_are_refused(tmp_path: Path, types: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path / "a.csv", "id,text,price\n1,a,2\n", types)


def test_other_formats_have_types_of_their_own(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="--types is for csv"),
        open_source(tmp_path / "a.jsonl", "jsonl", column_types("auto", print)),
    ):
        pass
