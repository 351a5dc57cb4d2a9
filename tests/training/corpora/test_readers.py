import gzip
import io
import json
import re
import zipfile
from collections import Counter
from pathlib import Path

import datasets
import pytest

from tests.training.files import write
from training.corpora.archives import open_zip, unpack
from training.corpora.hub import read_dataset_pairs
from training.corpora.readers import files_of, find_pair_file, mono_texts, read_pair_file
from training.corpora.text_pairs import BadLines, read_multiway_pairs, read_tsv_pairs, read_zipped_tsv_pairs
from training.corpora.tmx import read_tmx_pairs
from training.errors import CorpusError

PAIRS = [("Good day", "Guten Tag"), ("Thanks & bye", "Danke & tschüss")]

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plain"/><body>
<tu><tuv xml:lang="en"><seg>Good day</seg></tuv><tuv xml:lang="de-DE"><seg>Guten Tag</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv><tuv xml:lang="den"><seg>Slave</seg></tuv></tu>
<tu><note>a note</note><tuv lang="DE"><seg>Danke <bpt i="1">&lt;b&gt;</bpt>&amp; <hi>tschüss</hi></seg></tuv>
<tuv lang="EN_us"><seg>Thanks &#38; bye</seg></tuv><tuv lang="en"><seg>Second English</seg></tuv></tu>
</body></tmx>"""


def zipped(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def flipped(members: dict[str, str | bytes], *, at: bytes) -> bytes:
    """A zip with a damaged byte in a member's content."""
    content = bytearray(zipped(members, zipfile.ZIP_STORED))
    content[content.index(at) + 60] ^= 1
    return bytes(content)


def moses(stem: str = "News.de-en", other: str = "de") -> bytes:
    sides = ("".join(f"{side}\n" for side in column) for column in zip(*PAIRS, strict=True))
    return zipped({"README": "about", **dict(zip((f"{stem}.en", f"{stem}.{other}"), sides, strict=True))})


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def pairs_found(folder: Path, source: str, language: str) -> list[tuple[str, str]]:
    path = find_pair_file(folder, source, language)
    assert path is not None
    return list(read_pair_file(path, language))


def packed(name: str, start: str = "") -> bytes:
    """PAIRS as a file of this name would hold them; each text begins with `start`."""
    if name.endswith(".txt.zip"):
        sides = (start + "\n".join(column) for column in zip(*PAIRS, strict=True))
        return zipped(dict(zip(("N.en", "N.de"), sides, strict=True)))
    table = "".join(f"{english}\t{other}\r\n" for english, other in PAIRS)
    content = (start + (table if ".tsv" in name else TMX)).encode()
    return gzip.compress(content) if name.endswith(".gz") else zipped({"a.tmx": content}) if ".zip" in name else content


NAMES = ["en-de.tsv", "en-de.tsv.gz", "en-de.txt.zip", "de-en.txt.zip", "en-de.tmx", "de-en.tmx.gz", "en-de.tmx.zip"]


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte-order mark"])
@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str, mark: str) -> None:
    put(tmp_path / "memory" / name, packed(name, mark))
    assert pairs_found(tmp_path, "memory", "de") == PAIRS


def test_the_first_format_wins_and_an_absent_pair_is_none(tmp_path: Path) -> None:
    put(tmp_path / "news/en-de.tmx", b"")
    put(tmp_path / "news/en-de.tsv.gz", b"")
    put(tmp_path / "news/de-en.tsv", b"")  # columns have no names: this order is not ours
    assert find_pair_file(tmp_path, "news", "de") == tmp_path / "news/en-de.tsv.gz"
    assert find_pair_file(tmp_path, "news", "fr") is None


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", ["only one", "a\tb\tc", "\tb", "a\t ", ""])
def test_a_line_that_is_no_pair_stops_or_is_skipped(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "en-de.tsv", "Good day\tGuten Tag", line, "Thanks\tDanke")
    with pytest.raises(CorpusError, match=r"en-de\.tsv line 2 has \d columns.*on_bad_line: skip"):
        list(read_pair_file(path, "de"))
    dropped: Counter[str] = Counter()
    pairs = list(read_pair_file(path, "de", on_bad_line="skip", dropped=dropped))
    assert pairs == [("Good day", "Guten Tag"), ("Thanks", "Danke")]
    assert dropped == {"not a pair": 1}


# What is not UTF-8 in the second line of each format that is read by lines
LATIN = b"Good day\tGuten Tag\nT\xfcr\tdoor\nYes\tJa\n"
SIDES = {"N.de-en.en": "Good day\nDoor\nYes\n", "N.de-en.de": b"Guten Tag\nT\xfcr\nJa\n"}
UNITS = TMX.replace("Thanks", "T\xfcr").encode("latin-1")  # says that it is UTF-8
BAD = {
    "en-de.tsv": (LATIN, r"en-de\.tsv line 2", ["Good day", "Yes"]),
    "en-de.tsv.gz": (gzip.compress(LATIN), r"en-de\.tsv\.gz line 2", ["Good day", "Yes"]),
    "en-de.txt.zip": (zipped(SIDES), r"en-de\.txt\.zip: N\.de-en\.de line 2", ["Good day", "Yes"]),
    "en-de.tmx": (UNITS, r"en-de\.tmx: the unit that ends in line 7", ["Good day"]),
    "en-de.tmx.gz": (gzip.compress(UNITS), r"en-de\.tmx\.gz: the unit that ends in line 7", ["Good day"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_line_that_is_not_utf8_stops_or_is_skipped(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, where, left = BAD[name]
    path = put(tmp_path / name, content)
    with pytest.raises(CorpusError, match=rf"{where} is not valid UTF-8 \(corpus\.on_bad_line: skip "):
        list(read_pair_file(path, "de"))
    dropped: Counter[str] = Counter()
    assert [english for english, _ in read_pair_file(path, "de", on_bad_line="skip", dropped=dropped)] == left
    assert dropped == {"not UTF-8": 1}
    assert re.search(rf"{where} is not valid UTF-8; skipping this line", caplog.text)


def test_lines_of_the_catalogues_own_formats_are_skipped_too(tmp_path: Path) -> None:
    bad = BadLines("skip")
    multiway = put(tmp_path / "ted.tsv", b"\xef\xbb\xbfen\tde\r\nHi\tHallo\r\nT\xfcr\tx\r\none\r\nNo\tNein\r\n")
    assert list(read_multiway_pairs(multiway, "de", bad)) == [("Hi", "Hallo"), ("No", "Nein")]
    tatoeba = {"deu.txt": b"\xef\xbb\xbfHi\tHallo\tx\nT\xfcr\tx\none\nNo\tNein\tx\n"}
    cards = put(tmp_path / "deu.zip", zipped(tatoeba))
    assert list(read_zipped_tsv_pairs(cards, "deu", bad)) == [("Hi", "Hallo"), ("No", "Nein")]
    assert bad.dropped == {"not UTF-8": 2, "not a pair": 2}
    with pytest.raises(CorpusError, match=r"ted\.tsv line 3 is not valid UTF-8"):
        list(read_multiway_pairs(multiway, "de"))
    with pytest.raises(CorpusError, match=r"deu\.zip: deu\.txt line 2 is not valid UTF-8"):
        list(read_zipped_tsv_pairs(cards, "deu"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_text_in_utf16_is_one_sentence_and_no_bad_line(tmp_path: Path, encoding: str) -> None:
    text = "Good day\tGuten Tag\n"
    content = (text if encoding == "utf-16" else f"\ufeff{text}").encode(encoding)
    for name, packed in (
        ("en-de.tsv", content),
        ("en-de.tsv.gz", gzip.compress(content)),
        ("en-de.txt.zip", zipped({"N.en": content, "N.de": content})),
    ):
        with pytest.raises(CorpusError, match=rf"{name}.* is UTF-16 by its byte-order mark; save it as UTF-8"):
            list(read_pair_file(put(tmp_path / name, packed), "de", on_bad_line="skip"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "iso-8859-1", "shift_jis", "gb18030", "euc-jp"])
def test_a_tmx_is_read_in_the_encoding_it_names(tmp_path: Path, encoding: str) -> None:
    text = TMX.replace("UTF-8", encoding.upper().removesuffix("-LE")).replace("a note", "日本語")
    content = text.encode(encoding, errors="xmlcharrefreplace")
    assert list(read_tmx_pairs(put(tmp_path / "en-de.tmx", content), "de")) == PAIRS


@pytest.mark.parametrize("encoding", ["x-unknown", "hex", "euc-jp", "utf-16"])
def test_a_tmx_in_no_known_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = put(tmp_path / "en-de.tmx", TMX.replace("UTF-8", encoding).replace("Thanks", "T\xfcr").encode("latin-1"))
    complaint = r"en-de\.tmx is not text in the encoding that it names .*; convert it to UTF-8"
    with pytest.raises(CorpusError, match=complaint):
        list(read_tmx_pairs(path, "de"))


def test_a_truncated_or_flipped_gzip_is_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(b"Good day\tGuten Tag\n" * 500)
    (tmp_path / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.tsv.gz").write_bytes(whole[:20] + bytes([whole[20] ^ 255]) + whole[21:])
    for name in ("cut.tsv.gz", "flipped.tsv.gz"):
        with pytest.raises(CorpusError, match=f"{name} cannot be read to its end"):
            list(read_tsv_pairs(tmp_path / name))


def test_a_multiway_file_gives_the_pairs_of_a_language(tmp_path: Path) -> None:
    path = write(tmp_path / "ted.tsv.gz", "talkid\ten\tde\tzh-cn", "1\tHi\tHallo\t", "1\tYes\t\t是", "2\tNo\tNein\t不")
    assert list(read_multiway_pairs(path, "de")) == [("Hi", "Hallo"), ("No", "Nein")]
    assert list(read_multiway_pairs(path, "zh-cn")) == [("Yes", "是"), ("No", "不")]
    with pytest.raises(CorpusError, match="no columns for en and fr; its columns: talkid, en, de, zh-cn"):
        list(read_multiway_pairs(path, "fr"))
    with pytest.raises(CorpusError, match="line 2 has 2 columns, its first line 3"):
        list(read_multiway_pairs(write(tmp_path / "bad.tsv", "id\ten\tde", "1\tHi"), "de"))


# ── Moses ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "stem", "code", "language"),
    [
        ("en-de.txt.zip", "News.de-en", "de", "de"),
        ("de-en.txt.zip", "folder/News.de-en", "de", "de"),
        ("en-zh_Hant.txt.zip", "TED2020.en-zh_tw", "zh_tw", "zh_Hant"),  # another code inside
    ],
)
def test_moses_zips_are_read_in_either_order_and_other_codes(
    tmp_path: Path, name: str, stem: str, code: str, language: str
) -> None:
    put(tmp_path / "news" / name, moses(stem, code))
    assert pairs_found(tmp_path, "news", language) == PAIRS


def test_files_beside_the_two_sides_of_a_moses_zip_are_no_sides(tmp_path: Path) -> None:
    content = zipped({"N.de-en.xml": "<x/>", "N.de-en.ids": "1", "N.de-en.en": "Hi\n", "N.de-en.de": "Hallo\n"})
    assert list(read_pair_file(put(tmp_path / "en-de.txt.zip", content), "de")) == [("Hi", "Hallo")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (moses()[:-30], "is damaged"),
        (b"<html>not found</html>", "is damaged: File is not a zip file"),
        (zipped({"N.en": b"T\xfcr\n", "N.de": "Hallo\n"}), r"N\.en line 1 is not valid UTF-8"),
        (zipped({"N.en": "Hi\n"}), "holds no files <name>.en and <name>.de; it holds N.en"),
        (zipped({"N.en": "Hi\n", "N.de": "Hallo\n"}, zipfile.ZIP_BZIP2), "packed other than by deflate"),
        (zipped({"N.en": "Hi\nYes\n", "N.de": "Ho\n"}), r"N\.de ends before line 2, the other side does not"),
        (flipped({"N.en": "Hi\n" * 50, "N.de": "Ho\n" * 50}, at=b"Hi\n"), r"is damaged: Bad CRC-32 for file 'N\.en'"),
    ],
)
def test_a_bad_archive_is_refused_in_one_sentence(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(CorpusError, match=complaint):
        list(read_pair_file(put(tmp_path / "en-de.txt.zip", content), "de"))


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "bomb.zip", zipped({"a.en": "x" * 10_000}))
    with pytest.raises(CorpusError, match="unpacks to 10000 bytes; the limit is 9999"), open_zip(path, max_bytes=9_999):
        pass


def test_unpacked_files_stay_inside_their_folder(tmp_path: Path) -> None:
    members = {
        "../../evil.txt": "a",
        "/etc/absolute.txt": "b",
        "Set/STS.en-de.txt": "c",
        "__MACOSX/._x": b"\x00\xff",
        ".DS_Store": "d",
    }
    unpack(put(tmp_path / "a.zip", zipped(members)), tmp_path / "deep/eval/sts")
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {
        "a.zip", "deep/eval/sts/evil.txt", "deep/eval/sts/absolute.txt", "deep/eval/sts/STS.en-de.txt",
    }  # fmt: skip


def test_an_archive_that_fails_half_way_leaves_no_folder(tmp_path: Path) -> None:
    half_way = flipped({"1.txt": "fine", "2.txt": "x" * 100}, at=b"x" * 100)
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    twice = zipped({"a/1.txt": "x", "b/1.txt": "y"})
    refused = {half_way: "is damaged", buffer.getvalue(): "a link or two", twice: "two files with one"}
    for bad, complaint in refused.items():
        with pytest.raises(CorpusError, match=complaint):
            unpack(put(tmp_path / "a.zip", bad), tmp_path / "eval/sts")
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


# ── TMX ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tmx_read_in_small_pieces_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.corpora.tmx.CHUNK_BYTES", 7)
    assert list(read_tmx_pairs(put(tmp_path / "en-de.tmx", TMX.encode()), "de")) == PAIRS


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><tmx><tu><tuv lang="en"><seg>&b;</seg></tuv></tu></tmx>'
OUTSIDE = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx/>'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (LAUGHS, "has the entity a; only XML's predefined ones are read"),
        (OUTSIDE, "has the entity x"),
        (TMX.replace("Good day", "&unknown;"), "has the entity unknown"),
        (TMX[:-40], "cannot be read to its end"),
        (TMX.replace("lang", "kind"), "has no unit in English and de; its languages: none"),
    ],
)
def test_a_harmful_or_cut_tmx_is_one_sentence(tmp_path: Path, content: str, complaint: str) -> None:
    path = put(tmp_path / "en-de.tmx", content.encode())
    with pytest.raises(CorpusError, match=complaint):
        list(read_tmx_pairs(path, "de"))
    with pytest.raises(CorpusError, match="its languages: de, de-de, den, en, en-us"):
        list(read_tmx_pairs(put(tmp_path / "en-fr.tmx", TMX.encode()), "fr"))


# ── Hugging Face datasets ─────────────────────────────────────────────────────────────────────────────────────────

LEFT_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of CSV, by `datasets`
TRANSLATION = {"id": ["1", "2"], "translation": [{"en": english, "de": other} for english, other in PAIRS]}
NAMED = {"de": [pair[1] for pair in PAIRS], "en": [pair[0] for pair in PAIRS], "score": [1.0, 0.5]}
TWO = {"source": [pair[0] for pair in PAIRS], "target": [pair[1] for pair in PAIRS]}


@pytest.mark.parametrize("columns", [TRANSLATION, NAMED, TWO])
@pytest.mark.parametrize("how", ["dataset", "splits", "parquet", "json"])
def test_a_dataset_folder_is_read_whatever_its_columns_and_files(tmp_path: Path, columns: dict, how: str) -> None:
    folder = tmp_path / "books/en-de"
    dataset = datasets.Dataset.from_dict(columns)
    if how == "dataset":
        dataset.save_to_disk(folder)
    elif how == "splits":
        other = datasets.Dataset.from_dict(TWO).select([0])
        datasets.DatasetDict({"train": dataset, "test": other}).save_to_disk(folder)
    else:
        folder.mkdir(parents=True)
        dataset.to_parquet(folder / "train.parquet") if how == "parquet" else dataset.to_json(folder / "train.jsonl")
    assert pairs_found(tmp_path, "books", "de") == PAIRS
    assert files_of(folder)


def test_a_broken_dataset_is_refused_in_one_sentence(tmp_path: Path) -> None:
    write(tmp_path / "broken/train.parquet", "no parquet")
    with pytest.raises(CorpusError, match="broken cannot be read as a dataset: "):
        list(read_dataset_pairs(tmp_path / "broken", "de"))


# Each would be trained on as English, were columns taken by their place
NO_TEXTS = [
    {"a": ["x"], "b": ["y"], "c": ["z"]},
    {"id": ["a1", "b2"], "text": ["Guten Tag", "Danke"]},
    {"id": [1, 2], "de": ["Guten Tag", "Danke"]},
    {"en": ["Good day", "Thanks"], "score": ["1", "2"]},
    {"Good day": ["Thanks"], "Guten Tag": ["Danke"]},  # the first pair, taken for a header
]


@pytest.mark.parametrize("columns", NO_TEXTS)
def test_columns_are_never_taken_by_their_place(tmp_path: Path, columns: dict) -> None:
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path)
    with pytest.raises(CorpusError, match=f"has the columns {', '.join(columns)}; it needs translation, en and de, or"):
        list(read_dataset_pairs(tmp_path, "de"))


def test_a_row_that_is_no_pair_stops_or_is_skipped(tmp_path: Path) -> None:
    rows = [{"en": "Good day", "de": "Guten Tag"}, {"en": 7, "de": "sieben"}, {"en": None, "de": "x"}]
    translations = [{"translation": row} for row in rows] + [{"translation": "Good day"}]
    for name, content, found, left_out in (
        ("named", rows, "has a int where a text should be", 1),
        ("nested", translations, "has a (int where a text|str where texts by language) should be", 2),
    ):
        write(tmp_path / name / "train.jsonl", *map(json.dumps, content))
        with pytest.raises(CorpusError, match=rf"{name} row \d {found}"):
            list(read_dataset_pairs(tmp_path / name, "de"))
        bad = BadLines("skip")
        assert list(read_dataset_pairs(tmp_path / name, "de", bad)) == [("Good day", "Guten Tag"), ("", "x")]
        assert bad.dropped == {"not a pair": left_out}
    write(tmp_path / "french/train.jsonl", json.dumps({"translation": {"en": "Good day", "fr": "Bonjour"}}))
    with pytest.raises(CorpusError, match="has translations in en, fr; it needs en and de"):
        list(read_dataset_pairs(tmp_path / "french", "de"))
    write(tmp_path / "numbers/train.jsonl", *(json.dumps({"en": 1, "de": 2}) for _ in range(2)))
    with pytest.raises(CorpusError, match="numbers row 1 has a int where a text should be"):
        list(read_dataset_pairs(tmp_path / "numbers", "de"))


@LEFT_OPEN
@pytest.mark.parametrize("name", ["train.csv", "train.tsv"])
def test_a_cell_is_the_text_that_it_says(tmp_path: Path, name: str) -> None:
    cells = [("NA", "null"), ("nan", "None"), ("N/A", "#NA"), ("007", "1.50"), ("True", "1e3"), ("a", ""), ("", "b")]
    separator = "," if name == "train.csv" else "\t"
    write(tmp_path / name, "\ufeffen" + separator + "de", *(separator.join(row) for row in cells))
    assert list(read_dataset_pairs(tmp_path, "de")) == cells
    put(tmp_path / name, f"en{separator}de\na{separator}b\n".encode("utf-16"))
    with pytest.raises(CorpusError, match="has column names that are not UTF-8"):
        list(read_dataset_pairs(tmp_path, "de"))


@LEFT_OPEN
def test_numbers_that_fill_a_chunk_of_csv_stay_texts(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "en,de", *(["a,b"] * 10_000), "1999,1_999")  # the second chunk is a number alone
    assert list(read_dataset_pairs(tmp_path, "de"))[9_999:] == [("a", "b"), ("1999", "1_999")]


@LEFT_OPEN
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.csv", b"\xef\xbb\xbfen,de\nGood day,Guten Tag\nDoor,T\xfcr\nYes,Ja\n"),
        (
            "train.jsonl",
            b'\xef\xbb\xbf{"en": "Good day", "de": "Guten Tag"}\n{"en": "Door", "de": "T\xfcr"}\n'
            b'{"en": "Yes", "de": "Ja"}\n',
        ),
    ],
)
def test_a_row_that_is_not_utf8_stops_or_is_skipped(tmp_path: Path, name: str, content: bytes) -> None:
    put(tmp_path / name, content)
    with pytest.raises(CorpusError, match="row 2 is not valid UTF-8"):
        list(read_dataset_pairs(tmp_path, "de"))
    bad = BadLines("skip")
    assert list(read_dataset_pairs(tmp_path, "de", bad)) == [("Good day", "Guten Tag"), ("Yes", "Ja")]
    assert bad.dropped == {"not UTF-8": 1}


# ── monolingual text ──────────────────────────────────────────────────────────────────────────────────────────────


def test_mono_text_is_read_in_english_and_given_languages(tmp_path: Path) -> None:
    write(tmp_path / "mono/web/de.txt.gz", "Der Hund schläft.", "", "  Die Katze auch. ")
    write(tmp_path / "mono/web/en.txt", "A dog sleeps.")
    write(tmp_path / "mono/web/fr.txt", "Un chien dort.")
    found = list(mono_texts(tmp_path, ["web"], ["de", "ja"]))
    assert found == ["A dog sleeps.", "Der Hund schläft.", "Die Katze auch."]


def test_mono_text_missing_or_not_utf8_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "mono/web/de.txt", "groß\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"de\.txt line 1 is not valid UTF-8"):
        list(mono_texts(tmp_path, ["web"], ["de"]))
    with pytest.raises(CorpusError, match="source 'books' has no"):
        list(mono_texts(tmp_path, ["books"], ["de"]))
