import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.readers.sources import open_source
from service.errors import InvalidInput, StartError
from service.offline.loading import to_document
from tests.service.offline.files import records_of


def metadata_of(path: Path, **columns: pa.Array) -> list[Any]:
    """The metadata of each row of a file with these columns, or why the row is bad."""
    rows = len(next(iter(columns.values())))
    ids = [str(row) for row in range(rows)]
    pq.write_table(pa.table({"id": ids, "text": ["a"] * rows, **columns}), path)
    found: list[Any] = []
    for record in records_of(path):
        try:
            found.append(to_document(record, max_text_chars=10).metadata)
        except InvalidInput as exc:
            found.append(str(exc))
    return found


def extension(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


DAY = datetime.date(2020, 1, 2)
BERLIN, KOLKATA, NOWHERE = (pa.timestamp("us", tz=zone) for zone in ("Europe/Berlin", "+05:30", "Mars/Phobos"))
ARRAYS = [
    (pa.array(["a"], pa.large_string()), "a"),
    (pa.array(["a"], pa.string_view()), "a"),
    (pa.array(["a"]).dictionary_encode(), "a"),
    (pa.array([19.99], pa.float32()).dictionary_encode(), 19.99),
    (pa.array([True]), True),
    (pa.array([-5], pa.int8()), -5),
    (pa.array([2**63 - 1], pa.uint64()), 2**63 - 1),
    (pa.array([19.99]), 19.99),
    (pa.array([19.99], pa.float32()), 19.99),
    (pa.array([1e30], pa.float32()), 1e30),
    (pa.array([np.float16(19.99)], pa.float16()), 19.98),
    (pa.array([Decimal("19.99")], pa.decimal128(10, 2)), 19.99),
    (pa.array([Decimal("20.00")], pa.decimal128(10, 2)), 20.0),
    (pa.array([Decimal(2**63 - 1)], pa.decimal128(38, 0)), 2**63 - 1),
    (pa.array([Decimal("-1.5")], pa.decimal256(50, 3)), -1.5),
    (pa.array([Decimal("1.5")], pa.decimal32(5, 1)), 1.5),
    (pa.array([DAY]), "2020-01-02"),
    (pa.array([DAY], pa.date64()), "2020-01-02"),
    (pa.array([3661], pa.time32("s")), "01:01:01"),
    (pa.array([3661123], pa.time32("ms")), "01:01:01.123000"),
    (pa.array([1999], pa.time64("ns")), "00:00:00.000001"),
    (pa.array([-1], pa.timestamp("us")), "1969-12-31T23:59:59.999999"),
    (pa.array([1_999], pa.timestamp("ns")), "1970-01-01T00:00:00.000001"),
    (pa.array([0], BERLIN), "1970-01-01T00:00:00+00:00"),
    (pa.array([0], KOLKATA), "1970-01-01T00:00:00+00:00"),
    (pa.array([0], NOWHERE), "1970-01-01T00:00:00+00:00"),
    (pa.array([90], pa.duration("s")), 90),
    (pa.array([-1500], pa.duration("ms")), -1.5),
    (pa.array([[1, None, 3]]), [1, None, 3]),
    (pa.array([[]], pa.list_(pa.string())), []),
    (pa.array([["a"]], pa.large_list(pa.string())), ["a"]),
    (pa.array([[0.1, 0.2]], pa.list_(pa.float32(), 2)), [0.1, 0.2]),
    (pa.array([[0]], pa.list_(BERLIN)), ["1970-01-01T00:00:00+00:00"]),
    (pa.array([[{"a": 1.1}]], pa.list_(pa.struct({"a": pa.float32()}))), [{"a": 1.1}]),
    (pa.array([{"a": Decimal("1.10"), "b": None}], pa.struct({"a": pa.decimal128(5, 2), "b": pa.string()})), None),
    (pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int32())), {"a": 1, "b": 2}),
    (pa.array([[(7, "x")]], pa.map_(pa.int32(), pa.string())), {"7": "x"}),
    (pa.array([[(DAY, 1)]], pa.map_(pa.date32(), pa.int32())), {"2020-01-02": 1}),
    (extension(pa.uuid(), UUID(int=7).bytes), "00000000-0000-0000-0000-000000000007"),
    (extension(pa.json_(), '{"a": 1}'), {"a": 1}),
    (extension(pa.bool8(), 1), True),
    (extension(pa.fixed_shape_tensor(pa.float32(), (2,)), [0.1, 0.2]), [0.1, 0.2]),
]


@pytest.mark.parametrize(("array", "value"), ARRAYS, ids=[str(array.type) for array, _ in ARRAYS])
def test_each_type_of_column_has_its_value_in_json(tmp_path: Path, array: pa.Array, value: Any) -> None:
    expected = {"a": 1.1, "b": None} if value is None else value
    (found,) = metadata_of(tmp_path / "a.parquet", x=array)
    assert (found, type(found["x"])) == ({"x": expected}, type(expected))


@pytest.mark.parametrize("array", [pa.nulls(1), *(array for array, _ in ARRAYS if array.type != pa.bool8())], ids=str)
def test_a_null_of_any_type_is_no_field(tmp_path: Path, array: pa.Array) -> None:
    nulls = pa.nulls(1, array.type)
    assert metadata_of(tmp_path / "a.parquet", x=nulls) == [{}]


DATE = "column 'x' has a date or time outside of the years 1 to 9999"
TWICE = "column 'x' has a struct or map with the same key twice"
BYTES = "JSON has not: cast it to text or a number, or leave it out"


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (pa.array([b"ab"]), f"column 'x' has the type binary, which {BYTES}"),
        (pa.array([b"ab"], pa.large_binary()), f"column 'x' has the type large_binary, which {BYTES}"),
        (pa.array([b"ab"], pa.binary(2)), f"column 'x' has the type fixed_size_binary[2], which {BYTES}"),
        (pa.array([[b"ab"]]), f"column 'x' has the type binary, which {BYTES}"),
        (pa.array([2**63], pa.uint64()), "metadata: a whole number is beyond 64 bits"),
        (pa.array([Decimal(10**20)], pa.decimal128(38, 0)), "metadata: a whole number is beyond 64 bits"),
        (pa.array([float("nan")], pa.float32()), "metadata: a number is NaN or infinite"),
        (
            pa.array([Decimal("0.12345678901234567890")], pa.decimal128(30, 20)),
            "column 'x' has a decimal of more digits than a number of JSON keeps: cast it to text or double",
        ),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), TWICE),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), TWICE),
        (extension(pa.json_(), "{"), "column 'x' is not valid JSON"),
        (pa.array([float("inf"), 1.5]), "metadata: a number is NaN or infinite"),
        (pa.array([[1.5, float("-inf")], [1.5]]), "metadata: a number is NaN or infinite"),
        (pa.array([2_932_897, 0], pa.date32()), DATE),  # 10000-01-01
        (pa.array([253_402_300_800, 0], pa.timestamp("s")), DATE),
        (pa.array([253_402_300_800_000, 0], pa.timestamp("ms", tz="UTC")), DATE),
        (pa.array([-(2**62), 0], pa.timestamp("us")), DATE),
        (pa.array([[2_932_897], [0]], pa.list_(pa.date32())), DATE),
        (pa.array([{"day": 2_932_897}, {"day": 0}], pa.struct({"day": pa.date32()})), DATE),
    ],
)
def test_a_value_that_json_has_not_is_the_fault_of_its_row(tmp_path: Path, array: pa.Array, complaint: str) -> None:
    first, *others = metadata_of(tmp_path / "a.parquet", x=array)
    assert first.startswith(complaint)
    assert all(isinstance(metadata, dict) for metadata in others)


def test_text_of_another_encoding_is_a_bad_row(tmp_path: Path) -> None:
    offsets = pa.array([0, 2, 3], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfea")])
    pq.write_table(pa.table({"id": ["1", "2"], "text": text}), tmp_path / "a.parquet")
    found = {record.line: record.fault or record.fields["text"] for record in records_of(tmp_path / "a.parquet")}
    assert found == {1: "column 'text' is not valid UTF-8", 2: "a"}


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["1"] * 2000, "text": [f"text {n}" for n in range(2000)]}), path)
    whole = path.read_bytes()
    for damaged in (whole[:-20] + b"\xff" * 12 + whole[-8:], b"\xff" * 2000 + whole[2000:], whole[:300]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="is not a parquet file, or is damaged"):
            records_of(path)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**8), max_value=10**8, places=6))
def test_a_decimal_of_fifteen_digits_is_the_same_number(
    tmp_path_factory: pytest.TempPathFactory, value: Decimal
) -> None:
    array = pa.array([value], pa.decimal128(20, 6))
    (found,) = metadata_of(tmp_path_factory.mktemp("decimal") / "a.parquet", x=array)
    assert Decimal(str(found["x"])) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float32_is_the_shortest_decimal_that_gives_it_back(
    tmp_path_factory: pytest.TempPathFactory, value: float
) -> None:
    path = tmp_path_factory.mktemp("float") / "a.parquet"
    (found,) = metadata_of(path, x=pa.array([value], pa.float32()))
    assert np.float32(found["x"]) == np.float32(value)
    assert len(repr(found["x"])) <= len(repr(value))


@pytest.mark.parametrize(
    "own",
    [
        pa.array([{"lang": "de", "year": None}], pa.struct({"lang": pa.string(), "year": pa.int32()})),
        pa.array([[("lang", "de")]], pa.map_(pa.string(), pa.string())),
        pa.array(['{"lang": "de", "year": null}']),
        extension(pa.json_(), '{"lang": "de"}'),
    ],
    ids=["struct", "map", "text", "json"],
)
def test_a_column_metadata_gives_its_fields(tmp_path: Path, own: pa.Array) -> None:
    assert metadata_of(tmp_path / "a.parquet", metadata=own, n=pa.array([1])) == [{"lang": "de", "n": 1}]
    (clash,) = metadata_of(tmp_path / "a.parquet", metadata=own, lang=pa.array(["en"]))
    assert clash == "column 'lang' is also a field of the column 'metadata'"


def test_metadata_of_words_is_a_field_and_an_export_vector_none(tmp_path: Path) -> None:
    words = pa.array(["{x", "x"])
    assert metadata_of(tmp_path / "a.parquet", metadata=words) == [{"metadata": "{x"}, {"metadata": "x"}]
    vector, passages = pa.array([[0.1, 0.2]]), pa.array([[{"start": 0}]])
    assert metadata_of(tmp_path / "a.parquet", vector=vector, passages=passages, n=pa.array([1])) == [{"n": 1}]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([7]), "7"),
        (pa.array([7], pa.uint8()).dictionary_encode(), "7"),
        (pa.array([Decimal(7)], pa.decimal128(20, 0)), "7"),
        (extension(pa.uuid(), UUID(int=7).bytes), "00000000-0000-0000-0000-000000000007"),
        (pa.array(["7"], pa.large_string()), "7"),
        (pa.array([True]), None),
        (pa.array([7.0]), None),
        (pa.array([b"7"]), None),
    ],
)
def test_an_id_is_text_or_a_whole_number(tmp_path: Path, ids: pa.Array, expected: str | None) -> None:
    pq.write_table(pa.table({"id": ids, "text": ["a"]}), tmp_path / "a.parquet")
    (record,) = records_of(tmp_path / "a.parquet")
    if expected is not None:
        assert to_document(record, max_text_chars=10).id == expected
        return
    with pytest.raises(InvalidInput, match=r"id: Input should be a valid string|column 'id' has the type binary"):
        to_document(record, max_text_chars=10)


def test_without_pyarrow_a_parquet_file_says_what_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        pytest.raises(StartError, match=r"parquet files need pyarrow: `make setup-dev`"),
        open_source(tmp_path / "a.parquet", "parquet"),
    ):
        pass
