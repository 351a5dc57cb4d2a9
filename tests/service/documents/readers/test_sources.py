import csv
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.document import Document
from service.documents.ingest import is_same
from service.documents.own_fields import OwnFields
from service.documents.readers import jsonl
from service.documents.readers.csv_table import column_types, read_csv
from service.documents.readers.jsonl import read_jsonl
from service.documents.readers.records import Record
from service.documents.readers.sources import format_of, open_source
from service.errors import InvalidInput, StartError
from service.offline.loading import to_document
from tests.service.offline.files import DOCUMENTS, records_of, write_jsonl

HALF = "has half a surrogate pair, which is no character: send both halves, or U+FFFD in place of one"


def documents_of(path: Path) -> list[Document]:
    return [to_document(record, max_text_chars=1000) for record in records_of(path)]


def test_the_three_formats_give_the_same_documents(tmp_path: Path) -> None:
    flat = [{"id": row["id"], "text": row["text"], "lang": row["metadata"]["lang"]} for row in DOCUMENTS]
    expected = [Document(row["id"], row["text"], {"lang": row["lang"]}) for row in flat]
    write_jsonl(tmp_path / "a.jsonl", [{"id": one.id, "text": one.text, "metadata": one.metadata} for one in expected])
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["lang", "id", "text"])
        writer.writeheader()
        writer.writerows(flat)
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        assert documents_of(tmp_path / name) == expected


def test_csv_cells_hold_any_text_and_empty_ones_are_no_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfid,text,note\r\n1,"a ""b"",\nc",\r\n2,d,x\r\n')
    assert documents_of(tmp_path / "a.csv") == [Document("1", 'a "b",\nc', {}), Document("2", "d", {"note": "x"})]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.jsonl",
            b'{"id": "1", "text": "a"}\n\n{nope\n[1]\n{"id": "2", "text": "\xff"}\n{"id": "3", "text": "b"}',
            {1: "a", 3: "is not valid JSON", 4: "is not a JSON object", 5: "text is not valid UTF-8", 6: "b"},
        ),
        (
            "a.jsonl",
            b'{"id": "1", "text": "\\ud83d"}\n{"id": "2", "text": "b", "metadata": {"a": {"\\udc00": 1}}}\n',
            {1: f"text {HALF}", 2: f"a key of metadata.a {HALF}"},
        ),
        (
            "a.csv",
            b"id,text\n1,a\n2\n3,\xff\n4,d\n",
            {2: "a", 3: "has 1 columns; the header has 2", 4: "is not valid UTF-8", 5: "d"},
        ),
        (
            "a.csv",
            b'id,text\n1,"a"b\n2,c"d\n3,"e\nf"\n',
            {2: "is not CSV (',' expected after '\"')", 3: 'c"d', 5: "e\nf"},
        ),
    ],
)
def test_each_bad_line_has_its_number_and_a_reason(
    tmp_path: Path, name: str, content: bytes, expected: dict[int, str]
) -> None:
    (tmp_path / name).write_bytes(content)
    found = {record.line: record.fault or record.fields["text"] for record in records_of(tmp_path / name)}
    assert found == expected


@pytest.mark.parametrize("limit", [100, 16 * 2**20])
def test_an_open_quote_ends_the_reading_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Else all that follows would be one text, without a word."""
    monkeypatch.setattr("service.documents.readers.csv_table.MAX_LINE_BYTES", limit)
    (tmp_path / "a.csv").write_text('id,text\n1,a\n2,"b\n' + "3,c\n" * 100)
    complaint = f"begins in line 3 has a quote that is not closed .* more than {limit} char"
    with pytest.raises(InvalidInput, match=complaint):
        records_of(tmp_path / "a.csv")


def test_line_over_the_limit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 30)
    write_jsonl(tmp_path / "a.jsonl", [{"id": "1", "text": "a" * 100}, {"id": "2", "text": "b"}])
    assert {record.line: record.fault is None for record in records_of(tmp_path / "a.jsonl")} == {1: False, 2: True}


UTF16 = "^is UTF-16 by its byte-order mark; save it as UTF-8$"
SAVE = "save them with commas$"


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "id,text".encode("utf-16"), UTF16),
        ("a.csv", "\ufeffid,text".encode("utf-16-be"), UTF16),
        ("a.jsonl", '{"id": "1", "text": "a"}'.encode("utf-16"), UTF16),
        ("a.jsonl", '\ufeff{"id": "1", "text": "a"}'.encode("utf-16-be"), UTF16),
        ("a.csv", b"id,text,T\xfcr", "^line 1 is not valid UTF-8$"),
        ("a.csv", b"id,text,\xed\xa0\xbd", "^line 1 is not valid UTF-8$"),
        ("a.csv", b"id,body", "the header has no column text; documents need id and text; it has 'id', 'body'$"),
        ("a.csv", b"", "the header has no column id and none text; documents need id and text; it is empty$"),
        ("a.csv", ",".join(f"c{n}" for n in range(30)).encode(), "'c18', 'c19' and 10 more$"),
        ("a.csv", b"id;text;lang", f"the columns 'id', 'text', 'lang' are separated by ';'; {SAVE}"),
        ("a.csv", b'"id";"text, or body"', f"the columns 'id', 'text, or body' are separated by ';'; {SAVE}"),
        ("a.csv", b"nr\ttitle\ttext", rf"the columns 'nr', 'title', 'text' are separated by '\\t'; {SAVE}"),
        ("a.csv", b"id;name\r1;a", f"the columns 'id', 'name' are separated by ';'; {SAVE}"),
        ("a.csv", b"id|text", rf"the columns 'id', 'text' are separated by '\|'; {SAVE}"),
        ("a.csv", b"id,text,a,a", "the header has the column 'a' 2 times"),
        ("a.parquet", b"PAR1", "is not a parquet file, or is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=complaint):
        records_of(tmp_path / name)


@pytest.mark.parametrize("types", [None, "auto"])
def test_of_csv_a_column_metadata_gives_its_fields(tmp_path: Path, types: str | None) -> None:
    """As of a table that a database makes of an export."""
    rows = 'id,text,metadata,vector,n\n1,a,"{""lang"": ""de"", ""no"": null}",AAAA,1\n2,b,words,,2\n3,c,,,3\n'
    (tmp_path / "a.csv").write_text(rows)
    chosen = None if types is None else column_types(types, lambda sentence: None)
    with open_source(tmp_path / "a.csv", "csv", chosen) as source:
        found = [record.fields["metadata"] for record in source.records(None)]
    numbers = ["1", "2", "3"] if types is None else [1, 2, 3]
    assert found == [{"lang": "de", "n": numbers[0]}, {"metadata": "words", "n": numbers[1]}, {"n": numbers[2]}]


def test_a_semicolon_in_a_header_of_documents_is_a_letter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,a;b;c;d\n1,x,y\n")
    assert documents_of(tmp_path / "a.csv") == [Document("1", "x", {"a;b;c;d": "y"})]


def test_the_format_follows_the_name_unless_it_is_given(tmp_path: Path) -> None:
    formats = [format_of(Path(name), None) for name in ("-", "x.csv", "X.CSV")]
    assert formats == ["jsonl", "csv", "csv"]
    assert format_of(Path("x.csv"), "parquet") == "parquet"
    with pytest.raises(InvalidInput, match=r"x\.txt ends in none of \.jsonl, \.csv, \.parquet: set --format"):
        format_of(Path("x.txt"), None)
    with pytest.raises(StartError, match="cannot be read"), open_source(tmp_path / "no.csv", "csv"):
        pass


def test_standard_input_is_read_but_for_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id,text\n1,a\n")))
    assert [record.fields for record in records_of(Path("-"), "csv")] == [{"id": "1", "text": "a", "metadata": {}}]
    with pytest.raises(InvalidInput, match="cannot be read from standard input"):
        records_of(Path("-"), "parquet")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"id": "1"}, "text: Field required$"),
        ({"id": 1, "text": "a"}, "id: Input should be a valid string$"),
        ({"id": "1", "text": "secret" * 9}, r"text: has 54 characters; the limit is 10 \(CROSSLET_MAX_TEXT_CHARS\)$"),
        ({"id": "1", "text": ""}, "text: String should have at least 1 character$"),
        ({"id": "1", "text": "a", "metadata": {"x": b"y"}}, "metadata: cannot be written as JSON"),
        ({"id": "1", "text": "a", "metadata": {"x": [2**63]}}, "metadata: a whole number is beyond 64 bits"),
        ({"id": "1", "text": "a", "lang": "de"}, "the field 'lang' is unknown; known are id, text"),
    ],
)
def test_files_have_the_rules_of_http_and_errors_no_text(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{fault}"):
        to_document(Record(1, 0, fields), max_text_chars=10)


def test_documents_differ_where_python_says_that_they_do_not() -> None:
    one = Document("1", "a", {"x": 1, "y": 2})
    assert is_same(one, Document("1", "a", {"y": 2, "x": 1}))
    assert not is_same(one, Document("1", "a", {"x": True, "y": 2}))
    assert not is_same(one, Document("1", "b", one.metadata))


@given(st.lists(st.text(min_size=1), max_size=8))
def test_any_text_comes_back_from_csv_and_jsonl(texts: list[str]) -> None:
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("id", "text"), *enumerate(texts)])
    objects = "".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts))
    for format_, content in (("csv", table.getvalue()), ("jsonl", objects)):
        records = (read_csv if format_ == "csv" else read_jsonl)(io.BytesIO(content.encode()))
        assert [to_document(record, max_text_chars=10_000).text for record in records] == texts


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_file_is_never_held_whole(tmp_path: Path, name: str) -> None:
    text, count = "x" * 1000, 5_000
    with (tmp_path / name).open("w") as file:
        file.write("id,text\n" if name.endswith("csv") else "")
        for number in range(count):
            file.write(f"{number},{text}\n" if name.endswith("csv") else f'{{"id": "{number}", "text": "{text}"}}\n')
    tracemalloc.start()
    try:
        with open_source(tmp_path / name, format_of(tmp_path / name, None)) as source:
            read = 0
            for record in source.records(None):
                read = record.read
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == source.size
    assert peak_bytes < (tmp_path / name).stat().st_size / 8


def test_own_fields_are_columns_as_they_are() -> None:
    own = OwnFields.parsed("{text}", None)
    content = b'id,text,metadata,vector,empty\n1,5,"{""a"": 1}",0.5,\n'
    (record,) = read_csv(io.BytesIO(content), column_types("text=int", print), own)
    assert record.fields == {"id": "1", "text": 5, "metadata": '{"a": 1}'}
    with pytest.raises(InvalidInput, match="the header has no column id; documents need an id; it has 'text'"):
        list(read_csv(io.BytesIO(b"text\nx\n"), None, own))
    with pytest.raises(InvalidInput, match=r"the header has no column 'a.b', which the text uses; it has 'id', 'b'"):
        list(read_csv(io.BytesIO(b"id,b\n1,x\n"), None, OwnFields.parsed("{a.b}", None)))
    assert list(read_csv(io.BytesIO(b"id,a\n1,x\n"), None, OwnFields.parsed("{a.b}", None)))
