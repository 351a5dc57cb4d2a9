import gzip
import io
import zipfile
from collections import Counter
from pathlib import Path

import datasets
import pytest

from tests.training.files import write
from training.corpora.archives import open_zip, unpack
from training.corpora.hub import read_dataset_pairs
from training.corpora.readers import files_of, find_pair_file, read_pairs
from training.corpora.tmx import read_tmx_pairs
from training.corpora.tsv import read_multiway_pairs, read_tsv_pairs
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


def moses(stem: str = "News.de-en", other: str = "de") -> bytes:
    sides = ("".join(f"{side}\n" for side in column) for column in zip(*PAIRS, strict=True))
    return zipped({"README": "about", **dict(zip((f"{stem}.en", f"{stem}.{other}"), sides, strict=True))})


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# ── TSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["en-de.tsv", "en-de.tsv.gz"])
def test_plain_and_gzip_pairs_read_the_same(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "Good day\tGuten Tag", "Thanks\tDanke\r")
    assert list(read_tsv_pairs(path)) == [("Good day", "Guten Tag"), ("Thanks", "Danke")]


@pytest.mark.parametrize("line", ["only one", "a\tb\tc", "\tb", "a\t ", ""])
def test_a_line_that_is_not_a_pair_stops_with_file_and_line_number(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "en-de.tsv", "Good day\tGuten Tag", line)
    with pytest.raises(CorpusError, match=r"en-de\.tsv line 2 has \d columns.*on_bad_line: skip"):
        list(read_tsv_pairs(path))


def test_a_line_that_is_not_a_pair_is_skipped_by_setting_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "en-de.tsv", "one", "Good day\tGuten Tag", "a\tb\tc")
    dropped: Counter[str] = Counter()
    assert list(read_pairs(path, "de", on_bad_line="skip", dropped=dropped)) == [("Good day", "Guten Tag")]
    assert dropped == {"not a pair": 2}


@pytest.mark.parametrize("name", ["en-de.tsv", "en-de.tsv.gz"])
def test_a_line_that_is_not_utf8_is_named_or_skipped_and_counted(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    content = b"Good day\tGuten Tag\n" + "door\tTür\n".encode("latin-1") + "green\tgrün\n".encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(CorpusError, match=rf"{name} line 2 is not valid UTF-8 \(corpus.on_bad_line: skip"):
        list(read_pairs(path, "de"))
    dropped: Counter[str] = Counter()
    pairs = list(read_pairs(path, "de", on_bad_line="skip", dropped=dropped))
    assert pairs == [("Good day", "Guten Tag"), ("green", "grün")]
    assert dropped == {"not UTF-8": 1}


def test_a_line_of_a_moses_zip_that_is_not_utf8_is_named_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "en-de.txt.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.en", "Good day\ndoor\n")
        archive.writestr("a.de", "Guten Tag\nTür\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"a\.de line 2 is not valid UTF-8"):
        list(read_pairs(path, "de"))
    dropped: Counter[str] = Counter()
    assert list(read_pairs(path, "de", on_bad_line="skip", dropped=dropped)) == [("Good day", "Guten Tag")]
    assert dropped == {"not UTF-8": 1}


def test_a_truncated_gzip_and_broken_utf8_are_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(b"Good day\tGuten Tag\n" * 500)
    (tmp_path / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "latin.tsv").write_bytes("Tür\tdoor\n".encode("latin-1"))
    (tmp_path / "flipped.tsv.gz").write_bytes(whole[:20] + bytes([whole[20] ^ 255]) + whole[21:])
    for name in ("cut.tsv.gz", "flipped.tsv.gz"):
        with pytest.raises(CorpusError, match=f"{name} cannot be read to its end"):
            list(read_tsv_pairs(tmp_path / name))
    with pytest.raises(CorpusError, match=r"latin\.tsv line 1 is not valid UTF-8"):
        list(read_tsv_pairs(tmp_path / "latin.tsv"))


def test_a_language_of_a_multiway_file_has_the_lines_it_was_translated_in(tmp_path: Path) -> None:
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
        ("en-de.txt.zip", "plain", "de", "de"),
    ],
)
def test_moses_zips_are_read_in_either_order_and_under_other_codes(
    tmp_path: Path, name: str, stem: str, code: str, language: str
) -> None:
    put(tmp_path / "news" / name, moses(stem, code))
    path = find_pair_file(tmp_path, "news", language)
    assert path is not None
    assert list(read_pairs(path, language)) == PAIRS


def test_files_beside_the_two_sides_of_a_moses_zip_are_no_sides(tmp_path: Path) -> None:
    content = zipped({"N.de-en.xml": "<x/>", "N.de-en.ids": "1", "N.de-en.en": "Hi\n", "N.de-en.de": "Hallo\n"})
    assert list(read_pairs(put(tmp_path / "en-de.txt.zip", content), "de")) == [("Hi", "Hallo")]


def test_moses_sides_of_unequal_length_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.txt.zip", zipped({"N.de-en.en": "Hi\nYes\n", "N.de-en.de": "Hallo\n"}))
    with pytest.raises(CorpusError, match=r"N\.de-en\.de ends before line 2, the other side goes on"):
        list(read_pairs(path, "de"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (moses()[:-30], "is damaged"),
        (b"<html>not found</html>", "is damaged: File is not a zip file"),
        (zipped({"N.en": b"T\xfcr\n", "N.de": "Hallo\n"}), r"N\.en line 1 is not valid UTF-8"),
        (zipped({"N.en": "Hi\n"}), "holds no two files <name>.en and <name>.de; it holds N.en"),
        (zipped({"N.en": "Hi\n", "N.de": "Hallo\n"}, zipfile.ZIP_BZIP2), "packed other than by deflate"),
    ],
)
def test_an_archive_that_is_not_what_it_should_be_is_one_sentence(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    with pytest.raises(CorpusError, match=complaint):
        list(read_pairs(put(tmp_path / "en-de.txt.zip", content), "de"))


def test_a_flipped_byte_inside_an_archive_is_found(tmp_path: Path) -> None:
    content = bytearray(zipped({"N.en": "Hi\n" * 50, "N.de": "Ho\n" * 50}, zipfile.ZIP_STORED))
    content[content.index(b"Hi\n") + 60] ^= 1
    with pytest.raises(CorpusError, match=r"is damaged: Bad CRC-32 for file 'N\.en'"):
        list(read_pairs(put(tmp_path / "en-de.txt.zip", bytes(content)), "de"))


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
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
    content = bytearray(zipped({"1.txt": "fine", "2.txt": "x" * 100}, zipfile.ZIP_STORED))
    content[content.index(b"x" * 100) + 50] ^= 1
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    twice = zipped({"a/1.txt": "x", "b/1.txt": "y"})
    for bad, complaint in (
        (bytes(content), "is damaged"),
        (buffer.getvalue(), "a link or two"),
        (twice, "two files of one"),
    ):
        with pytest.raises(CorpusError, match=complaint):
            unpack(put(tmp_path / "a.zip", bad), tmp_path / "eval/sts")
        assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


# ── TMX ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["en-de.tmx", "de-en.tmx", "en-de.tmx.gz", "en-de.tmx.zip"])
def test_a_translation_memory_gives_the_units_that_have_both_languages(tmp_path: Path, name: str) -> None:
    content = TMX.encode()
    if name.endswith(".gz"):
        content = gzip.compress(content)
    elif name.endswith(".zip"):
        content = zipped({"all.en-de.tmx": content})
    put(tmp_path / "memory" / name, content)
    path = find_pair_file(tmp_path, "memory", "de")
    assert path is not None
    assert list(read_pairs(path, "de")) == PAIRS


def test_a_memory_read_in_small_pieces_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.corpora.tmx.CHUNK_BYTES", 7)
    assert list(read_tmx_pairs(put(tmp_path / "en-de.tmx", TMX.encode()), "de")) == PAIRS


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><tmx><tu><tuv lang="en"><seg>&b;</seg></tuv></tu></tmx>'
OUTSIDE = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx/>'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (LAUGHS, "has the entity a; only those of XML itself are read"),
        (OUTSIDE, "has the entity x"),
        (TMX.replace("Good day", "&unknown;"), "has the entity unknown"),
        (TMX[:-40], "cannot be read to its end"),
        (TMX.replace("lang", "kind"), "has no unit in English and de; its languages: none"),
    ],
)
def test_a_memory_that_is_harmful_or_cut_is_one_sentence(tmp_path: Path, content: str, complaint: str) -> None:
    path = put(tmp_path / "en-de.tmx", content.encode())
    with pytest.raises(CorpusError, match=complaint):
        list(read_tmx_pairs(path, "de"))
    with pytest.raises(CorpusError, match="its languages: de, de-de, den, en, en-us"):
        list(read_tmx_pairs(put(tmp_path / "en-fr.tmx", TMX.encode()), "fr"))


# ── Hugging Face datasets ─────────────────────────────────────────────────────────────────────────────────────────

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
    path = find_pair_file(tmp_path, "books", "de")
    assert path == folder
    assert list(read_pairs(path, "de")) == PAIRS
    assert files_of(path)


def test_a_dataset_that_has_no_such_columns_or_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"a": ["x"], "b": ["y"], "c": ["z"]}).save_to_disk(tmp_path / "columns")
    with pytest.raises(CorpusError, match="has the columns a, b, c; it needs translation, en and de, or two"):
        list(read_dataset_pairs(tmp_path / "columns", "de"))
    write(tmp_path / "broken/train.parquet", "no parquet")
    with pytest.raises(CorpusError, match="broken cannot be read as a dataset: "):
        list(read_dataset_pairs(tmp_path / "broken", "de"))


def test_the_first_format_found_is_read_and_an_absent_pair_is_none(tmp_path: Path) -> None:
    put(tmp_path / "news/en-de.tmx", b"")
    put(tmp_path / "news/en-de.tsv.gz", b"")
    put(tmp_path / "news/de-en.tsv", b"")  # columns have no names: this order is not ours
    assert find_pair_file(tmp_path, "news", "de") == tmp_path / "news/en-de.tsv.gz"
    assert find_pair_file(tmp_path, "news", "fr") is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # datasets leaves its CSV open
def test_the_words_for_nothing_in_a_dataset_of_csv_are_texts(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "en,de\nNA,nan\nnull,None\n")
    assert list(read_dataset_pairs(tmp_path, "de")) == [("NA", "nan"), ("null", "None")]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # datasets leaves its CSV open
def test_dataset_rows_of_numbers_are_refused_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "id,de\n1,Tag\n2,Nacht\n")
    with pytest.raises(CorpusError, match="two sides are not texts"):
        list(read_dataset_pairs(tmp_path, "de"))
