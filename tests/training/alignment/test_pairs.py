import gzip
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from tests.parallel_text import OBJECTS, SUBJECTS, VERBS
from training.alignment.pairs import MIN_PAIRS, LanguageCheck, check_disjoint, read_pairs, split_pairs
from training.corpora.leakage import EvaluationSentences
from training.errors import AlignmentError

PAIRS = [
    (f"{a[0]} {b[0]} {c[0]} today.", f"{a[1]} {b[1]} heute {c[1]}.")
    for a, b, c in product(SUBJECTS, VERBS[:4], OBJECTS[:4])
]

GERMAN = "Der alte Mann kauft jeden Morgen ein frisches Brot beim Bäcker."
ENGLISH = "The old man buys a fresh loaf of bread from the baker every morning."


def write(path: Path, rows: list[tuple[str, ...]], encoding: str = "utf-8") -> Path:
    content = "".join("\t".join(row) + "\n" for row in rows).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_the_name_of_a_file_says_its_languages(tmp_path: Path) -> None:
    for name in ("en-de.tsv", "en-de.tsv.gz", "en-de.news.tsv"):
        assert read_pairs(write(tmp_path / name, PAIRS)).label == "en-de"
    read = read_pairs(write(tmp_path / "mine.tsv", PAIRS), languages=("en", "de"))
    assert (read.pairs, read.dropped) == (PAIRS, Counter())


def test_pairs_without_english_are_read_too(tmp_path: Path) -> None:
    rows = [
        (f"他们在计算器上快速计算了福利效应的第{n}部分。", f"Họ tính toán phần {n} của hiệu ứng phúc lợi.")
        for n in range(120)
    ]
    assert read_pairs(write(tmp_path / "zh-vi.tsv", rows)).pairs == rows


def test_what_mining_found_is_filtered_by_its_score(tmp_path: Path) -> None:
    rows = [(f"{1 + number / 100:.2f}", *pair) for number, pair in enumerate(PAIRS)]
    read = read_pairs(write(tmp_path / "en-de.tsv", rows), min_score=1.2)
    assert read.pairs == PAIRS[20:]
    assert read.dropped == Counter({"under the least score": 20})
    with pytest.raises(AlignmentError, match=r"line 1 has 2 columns, none of them a score; leave --min-score out"):
        read_pairs(write(tmp_path / "en-de.tsv", PAIRS), min_score=1.2)


def test_repeats_and_equal_sides_are_left_out(tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path / "en-de.tsv", [*PAIRS, PAIRS[0], ("Berlin!", "berlin")]))
    assert read.pairs == PAIRS
    assert read.dropped == Counter({"repeated": 1, "the same on both sides": 1})


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(left,) for left, _ in PAIRS], "line 1 has 1 column; a line is left<TAB>right, or score<TAB>left<TAB>right"),
        ([*PAIRS, ("a", "")], f"line {len(PAIRS) + 1} has 2 columns; a line is left<TAB>right"),
        ([("x", *pair) for pair in PAIRS], "has 3 columns, of which the first is no score"),
        (PAIRS[:10], f"has 10 distinct pairs; at least {MIN_PAIRS} are needed, 2,000 are good"),
        (
            [(left, left) for left, _ in PAIRS],
            f"has {len(PAIRS)} pairs of {len(PAIRS)} with the same text on both sides",
        ),
        (
            [(right, right + " Das ist alles.") for _, right in PAIRS],
            "has one language on both sides: column 1 of 2 is said to be en and looks like de in",
        ),
        ([("他们在计算器上快速计算了福利效应的部分。" + left, right) for left, right in PAIRS], "looks like zh in"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, rows: list[tuple[str, ...]], sentence: str) -> None:
    with pytest.raises(AlignmentError) as error:
        read_pairs(write(tmp_path / "en-de.tsv", rows))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_shipped_evaluation_sentences_are_not_trained_on(tmp_path: Path) -> None:
    known = ("Something new.", "die suppe ist für die kinder zu salzig")
    barred = EvaluationSentences.shipped()
    read = read_pairs(write(tmp_path / "en-de.tsv", [*PAIRS, known]), barred=barred)
    assert read.pairs == PAIRS
    assert read.dropped == Counter({"in an evaluation set": 1})


def test_a_wrong_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    late = [pair for pair in PAIRS if "".join(pair).isascii()] + [("The door is open.", "Die Tür ist offen.")]
    with pytest.raises(AlignmentError, match=rf"line {len(late)} is not valid UTF-8; save the file as UTF-8"):
        read_pairs(write(tmp_path / "en-de.tsv", late, "latin-1"))
    with pytest.raises(AlignmentError, match="UTF-16"):
        read_pairs(write(tmp_path / "en-de.tsv", late, "utf-16"))


def test_unnamed_or_repeated_languages_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.tsv", PAIRS)
    with pytest.raises(AlignmentError, match=r"mine\.tsv does not say its languages; .* --languages zh,vi"):
        read_pairs(path)
    with pytest.raises(AlignmentError, match="is said to have de on both sides"):
        read_pairs(path, languages=("de", "de"))


def test_test_sentence_in_training_is_refused_in_any_spelling(tmp_path: Path) -> None:
    train = read_pairs(write(tmp_path / "en-de.tsv", PAIRS))
    test = [("Something else.", "Etwas anderes."), (PAIRS[3][0].upper(), "Ganz anders.")]
    path = write(tmp_path / "en-de.test.tsv", test)
    with pytest.raises(
        AlignmentError, match=r"1 of the 2 pairs of .*test\.tsv have a sentence that .*en-de\.tsv has too"
    ):
        check_disjoint(train, read_pairs(path, least=1))
    check_disjoint(train, read_pairs(write(path, test[:1]), least=1))


def test_a_split_shares_no_sentence_and_is_of_its_seed() -> None:
    chained = [
        (f"source {number // 2}", f"target {(number + 1) // 2}") for number in range(20)
    ]  # each shares one with the next
    pairs = [*chained, *PAIRS]
    kept, held = split_pairs(pairs, 0.1, most=500, seed=0)
    assert sorted([*kept, *held]) == sorted(pairs)
    assert 0.08 * len(pairs) < len(held) <= 0.1 * len(pairs)
    for side in (0, 1):
        assert not {pair[side] for pair in kept} & {pair[side] for pair in held}
    assert split_pairs(pairs, 0.1, most=500, seed=0)[1] == held
    assert split_pairs(pairs, 0.1, most=500, seed=1)[1] != held
    assert len(split_pairs(pairs, 0.5, most=7, seed=0)[1]) <= 7


def test_an_untranslated_sentence_is_wrong_unless_short() -> None:
    german = LanguageCheck("de")
    assert german.is_wrong(ENGLISH)
    assert not german.is_wrong(GERMAN)
    assert not german.is_wrong(ENGLISH[:19])
    assert LanguageCheck("en").is_wrong(GERMAN)
    assert not LanguageCheck("tlh").is_wrong(ENGLISH)  # Klingon: what the identifier does not know, it cannot miss
    assert not LanguageCheck("nb").is_wrong("Den gamle mannen kjøper et ferskt brød hos bakeren hver eneste morgen.")
    assert not LanguageCheck("zh_Hant").is_wrong("那位老先生每天早上都會到巷口的麵包店買一條剛出爐的新鮮麵包回家。")
