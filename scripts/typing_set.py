"""Writes training/evaluation/bundled/typing from its hand-written sources: catalogue, part numbers, typos, prefixes.

PYTHONPATH=. python scripts/typing_set.py      # from the root of the repository, in the development environment

The same sources give the same files. Sources are tables without headers:

brands.tsv      language, brand, letters of its part numbers, its spellings in other scripts, two sentences of its texts
products.tsv    language, product, description; the lines of a language are in the same order
faq.tsv         topic, language, question, answer, a query
faq_abroad.tsv  topic, language without answers, a query
people.tsv      language, text, a name in another script
words.tsv       kind, language, text, a query
"""

import json
import random
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count, product
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "training" / "evaluation" / "bundled" / "typing"
SOURCES = TARGET / "sources"
SEED = 65
PRODUCT_FIRST = {"fr", "es", "ar"}  # before the brand
UNTYPED = {"zh", "zh_Hant"}  # no letters to mistype
NO_PREFIXES = {*UNTYPED, "ja", "ko"}  # words of four letters are long there
OTHER_CHINESE = {"zh": "zh_Hant", "zh_Hant": "zh"}
CODES, TYPOS, PREFIXES, NAMES = 8, 10, 10, 2  # queries a language, or a brand
PREFIX_WORD = 7  # letters of a word whose prefix is typed
MOST_WITH_PREFIX = 3
NOT_IN_WORDS = re.compile(r"[\s.,;:!?()/«»„“”\"'’…¿¡،؟।。，、；：！？『』《》·–—-]+")  # noqa: RUF001
KEYBOARDS = "qwertyuiop asdfghjkl zxcvbnm йцукенгшщзх фывапролдж ячсмитьбю ضصثقفغعهخحجد شسيبلتنمك"  # rows of keys
CONFUSED = "िी ुू ेै ोौ शस बव टत डद नण गघ カガ キギ サザ タダ トド ハバパ フブ コゴ クグ スズ ツッ リレ ーァ アァ ンソ"
VOWELS = {0: 4, 4: 8, 8: 4, 1: 5, 5: 1, 13: 18, 18: 20, 20: 18}  # of Hangul: keys side by side, or the same sound


@dataclass(frozen=True)
class CatalogueItem:
    """A product of the catalogue."""

    id: str
    language: str
    brand: str
    spellings: tuple[str, ...]
    name: str
    text: str
    code: str
    number: int


@dataclass(frozen=True)
class QueryRow:
    """A line of typed.jsonl. documents: the ids that are right."""

    id: str
    language: str
    kind: str
    split: str
    text: str
    documents: tuple[str, ...]


Row = dict[str, str]
Typed = tuple[str, str, str, tuple[str, ...]]  # kind, language, text, documents


def build() -> tuple[list[Row], list[QueryRow]]:
    """Return the documents and the queries."""
    rng = random.Random(SEED)  # noqa: S311
    items = _items(rng)
    documents = [{"id": item.id, "language": item.language, "text": item.text} for item in items]
    queries: list[Typed] = []
    for topic, language, question, answer, query in _rows("faq", 5):
        id_ = f"faq-{topic}-{language}"
        documents.append({"id": id_, "language": language, "text": f"{question} {answer}", "topic": topic})
        queries.append(("faq", language, query, (id_,)))
    for topic, language, query in _rows("faq_abroad", 3):
        ids = tuple(row["id"] for row in documents if row.get("topic") == topic)
        queries.append(("faq_abroad", language, query, ids))
    for kind, (language, text, query) in [
        *(("names", row) for row in _rows("people", 3)),
        *((row[0], row[1:]) for row in _rows("words", 4)),
    ]:
        id_ = f"{kind}-{len(documents):04}"
        documents.append({"id": id_, "language": language, "text": text})
        queries.append((kind, language, query, (id_,)))
    queries = [_with_the_same_parts(query, documents) for query in queries]
    queries += [*_of_codes(items, rng), *_of_names(items, rng), *_of_prefixes(documents, rng)]
    return documents, _numbered(queries)


def _rows(name: str, columns: int) -> list[list[str]]:
    lines = (SOURCES / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    if any(len(row) != columns or not all(row) for row in rows):
        raise ValueError(f"{name}.tsv: each line has {columns} columns")
    return rows


def _items(rng: random.Random) -> list[CatalogueItem]:
    """Every product of a language by every brand of it."""
    products = defaultdict(list)
    for language, name, description in _rows("products", 3):
        products[language].append((name, description))
    items: list[CatalogueItem] = []
    taken: set[str] = set()
    numbers = defaultdict(count)
    for language, brand, letters, spellings, label, sentence in _rows("brands", 6):
        shape = next(numbers[language])
        for number, (name, description) in enumerate(products[language]):
            code = _new_code(letters, shape, taken, rng)
            full = f"{name} {brand}" if language in PRODUCT_FIRST else f"{brand} {name}"
            end = "。" if language in {"ja", *UNTYPED} else "।" if language == "hi" else "."
            text = f"{full}{end} {description} {sentence} {label.format(code)}"
            id_ = f"product-{language}-{shape}-{number:02}"
            items.append(
                CatalogueItem(id_, language, brand, tuple(spellings.strip("-").split("/")), full, text, code, number)
            )
    return items


def _new_code(letters: str, shape: int, taken: set[str], rng: random.Random) -> str:
    """A part number of three shapes. Its digits and first five characters are nobody else's."""
    while True:
        digits = str(rng.randrange(*((10_000, 100_000), (1_000, 10_000), (100_000, 1_000_000))[shape]))
        last = rng.choice("ABCDEFHKLMNPRSTX")
        code = (f"{letters}-{digits}{last}", f"{letters}-{digits}-{last}", f"{letters}{digits[:4]}-{digits[4:]}{last}")[
            shape
        ]
        swapped = {
            digits[:place] + digits[place + 1] + digits[place] + digits[place + 2 :] for place in range(len(digits) - 1)
        }
        is_free = not any(other in digits or any(typed in other for typed in {digits, *swapped}) for other in taken)
        if is_free and code[:5] not in taken and len({*digits}) > 1:
            taken |= {digits, code[:5]}
            return code


def _of_codes(items: list[CatalogueItem], rng: random.Random) -> Iterator[Typed]:
    variants: dict[str, Callable[[str], str]] = {
        "code": lambda code: code,
        "code_case": str.lower,
        "code_joined": lambda code: code.replace("-", ""),
        "code_cut": lambda code: code[:-1].rstrip("-"),
        "code_swapped": lambda code: _swapped(code, rng),
        "code_digits": _digits,
        "code_start": lambda code: code[:5],
    }
    chosen = _sampled(items, CODES, rng, key=lambda item: item.language)
    for kind, vary in variants.items():
        for item in chosen:
            query = vary(item.code)
            if kind == "code_swapped" and any(_is_near(query, other.code) for other in items if other != item):
                raise ValueError(f"{query} may mean another product, too: choose another seed")
            yield kind, item.language, query, (item.id,)


def _is_near(query: str, code: str) -> bool:
    """Whether a code of another product has the digits, or those and all else but one."""
    if query[:2] != code[:2]:
        return _digits(query) == _digits(code)
    return distance(query, code) < 2


def _digits(code: str) -> str:
    return re.sub(r"\D", "", code)


def _swapped(code: str, rng: random.Random) -> str:
    """Two digits side by side, swapped."""
    places = [place for place in range(len(code) - 1) if code[place : place + 2].isdigit()]
    place = rng.choice([place for place in places if code[place] != code[place + 1]])
    return code[:place] + code[place + 1] + code[place] + code[place + 2 :]


def _of_names(items: list[CatalogueItem], rng: random.Random) -> Iterator[Typed]:
    """Typos; brands in another script; traditional Chinese for simplified, and back."""
    long = [item for item in items if item.language not in UNTYPED and any(map(_is_long, item.name.split(" ")))]
    typed = _sampled(long, TYPOS, rng, key=lambda item: item.language)
    for place, item in enumerate(typed):
        edit = EDITS[place // 2 % len(EDITS)]  # the same for a query of dev and for the next, of test
        yield "typo", item.language, mistyped(item.name, edit, rng), (item.id,)
    foreign = [item for item in items if item.spellings != ("",)]
    for item in _sampled(foreign, NAMES, rng, key=lambda item: item.brand):
        yield "names", item.language, item.name.replace(item.brand, item.spellings[0]), (item.id,)
    products = {(language, number): name for language in OTHER_CHINESE for number, name in _products_of(language)}
    for item in items:
        if other := OTHER_CHINESE.get(item.language):
            yield "chinese", other, f"{item.spellings[1]} {products[other, item.number]}", (item.id,)


def _products_of(language: str) -> Iterator[tuple[int, str]]:
    return enumerate(row[1] for row in _rows("products", 3) if row[0] == language)


def mistyped(name: str, edit: Callable[[str, random.Random], str | None], rng: random.Random) -> str:
    """A name with one typo in a word of at least four letters, three in Hangul; another one where none can be so."""
    words = name.split(" ")
    for tried in (edit, *EDITS):
        for place in rng.sample(range(len(words)), len(words)):
            if _is_long(words[place]):
                typed = tried(words[place], rng)
                if typed and typed.casefold() != words[place].casefold():
                    return " ".join([*words[:place], typed, *words[place + 1 :]])
    raise ValueError(f"{name} has no word to mistype")


def _is_long(word: str) -> bool:
    return len(word) >= (3 if "가" <= word[-1] <= "힣" else 4)


def _place(word: str, rng: random.Random) -> int:
    """A letter that has neighbours: not a sign, an accented letter or a Han character."""
    return rng.choice([place for place, letter in enumerate(word) if _confused(letter)] or [0])


def _insert(word: str, rng: random.Random) -> str | None:
    """A key pressed twice, or its neighbour as well."""
    place = _place(word, rng)
    return word[:place] + rng.choice([word[place].lower(), *_confused(word[place])]) + word[place:]


def _delete(word: str, rng: random.Random) -> str | None:
    place = _place(word, rng)
    return word[:place] + word[place + 1 :]


def _substitute(word: str, rng: random.Random) -> str | None:
    place = _place(word, rng)
    others = _confused(word[place])
    return word[:place] + rng.choice(others) + word[place + 1 :] if others else None


def _transpose(word: str, rng: random.Random) -> str | None:
    """Two letters side by side, neither a mark nor before one."""
    bare = [place for place, letter in enumerate(f"{word} ") if unicodedata.category(letter) in {"Mn", "Mc"}]
    places = [
        place
        for place in range(1, len(word) - 1)
        if word[place] != word[place + 1] and not {place, place + 1, place + 2} & {*bare}
    ]
    if not places:
        return None
    place = rng.choice(places)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


EDITS = (_insert, _delete, _substitute, _transpose)


def _confused(letter: str) -> list[str]:
    """What is typed for a letter: the keys beside it, a syllable of one other vowel, or a letter of its group."""
    if "가" <= letter <= "힣":
        rest, final = divmod(ord(letter) - ord("가"), 28)
        initial, vowel = divmod(rest, 21)
        return [chr(ord("가") + (initial * 21 + VOWELS[vowel]) * 28 + final)] if vowel in VOWELS else []
    place = KEYBOARDS.find(letter.lower())
    if letter.strip() and place >= 0:
        return [*KEYBOARDS[max(0, place - 1) : place].strip(), *KEYBOARDS[place + 1 : place + 2].strip()]
    return [other for group in CONFUSED.split() if letter in group for other in group if other != letter]


def _of_prefixes(documents: list[Row], rng: random.Random) -> Iterator[Typed]:
    """Four and six letters of a title's word that few documents have, all in one language."""
    having: dict[str, dict[str, str]] = defaultdict(dict)  # prefix -> documents with its word -> their language
    words: dict[str, set[str]] = defaultdict(set)
    for row in documents:
        for word, length in product(NOT_IN_WORDS.split(row["text"]), (4, 6)):
            having[_plain(word)[:length]][row["id"]] = row["language"]
        title = NOT_IN_WORDS.split(re.split(r"[.:?।] ", row["text"])[0].lower())
        words[row["language"]] |= {word for word in title if len(word) >= PREFIX_WORD and word.isprintable()}
    chosen = []
    for language in sorted(words.keys() - NO_PREFIXES):
        fitting = [
            word
            for word in sorted(words[language])
            if {*having[_plain(word)[:4]].values()} == {language}
            and len(having[_plain(word)[:4]]) <= MOST_WITH_PREFIX
            and not any(unicodedata.category(char)[0] == "M" for char in (word[4], word[6]))
        ]
        beginnings = {word[:4]: word for word in fitting}  # one word a beginning
        chosen += [(language, word) for word in rng.sample(sorted(beginnings.values()), PREFIXES)]
    for length, (language, word) in product((4, 6), chosen):
        yield f"prefix_{length}", language, word[:length], tuple(having[_plain(word)[:length]])


def _plain(word: str) -> str:
    """Lower case, Latin letters without accents."""
    bare = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", word.lower()))
    return bare if bare.isascii() else word.lower()


def _with_the_same_parts(query: Typed, documents: list[Row]) -> Typed:
    """A part of compounds: a text of the other language with the same parts is right, too."""
    kind, language, text, ids = query
    if kind == "compound":
        others = [
            row["id"]
            for row in documents
            if row["id"].startswith(kind) and all(part in row["text"].lower() for part in text.lower().split())
        ]
        ids = (*ids, *(id_ for id_ in others if id_ not in ids))
    return kind, language, text, ids


def _sampled(
    items: list[CatalogueItem], number: int, rng: random.Random, *, key: Callable[[CatalogueItem], str]
) -> list[CatalogueItem]:
    groups: dict[str, list[CatalogueItem]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return [item for group in groups.values() for item in rng.sample(group, number)]


def _numbered(queries: list[Typed]) -> list[QueryRow]:
    """Every other query of a kind and language is dev. A topic of the FAQ is dev or test as a whole."""
    places: dict[object, Iterator[int]] = defaultdict(count)
    numbered = []
    for kind, language, text, ids in queries:
        place = int(ids[0].split("-")[1]) if kind.startswith("faq") else next(places[kind, language])
        split = "dev" if place % 2 == 0 else "test"
        numbered.append(QueryRow(f"{kind}-{next(places[kind]):03}", language, kind, split, text, ids))
    return numbered


def distance(left: str, right: str) -> int:
    """Edits between two strings: letters inserted, deleted, substituted, or swapped with the next (OSA)."""
    rows = [list(range(len(right) + 1))]
    for i, char in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (char != other))
            if i > 1 and j > 1 and (left[i - 2], char) == (other, right[j - 2]):
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def files() -> dict[str, str]:
    """Return the text of each file."""
    documents, queries = build()
    rows = {"documents": documents, "typed": [asdict(query) for query in queries]}
    return {
        f"{name}.jsonl": "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in lines)
        for name, lines in rows.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        (TARGET / name).write_text(text, encoding="utf-8")
