"""Flipped bytes and truncated files, in each file of the store: damage is always detected."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from service.documents.collections import Collection
from service.documents.document import Document, Vectors
from service.errors import Damaged, StoreError
from service.offline.embedding import Embedded, Engine
from service.offline.repair import Repair
from service.offline.store_file import open_store_file
from tests.service.documents import stores
from tests.service.documents.oracle import search_one
from tests.service.documents.stores import (
    INVERTED,
    STORE,
    count_stored,
    faults,
    open_store,
    read_page,
    unit_vectors,
    wait_for,
)

DIM, COUNT, SEARCHED = 16, 500, 125
opened = partial(stores.open_collection, dim=DIM, exact_rows=400)
FLIPS = Counter({STORE: 40})  # of another file 6
VECTORS = unit_vectors(COUNT, DIM, seed=5)
TEXTS = {f"d{n}": f"Ein Satz über {n} Dinge, {'lang ' * (n % 7)}genug." for n in range(COUNT)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of `COUNT` documents with inverted lists."""
    folder = tmp_path_factory.mktemp("sound")
    collection = opened(folder)
    collection.put([Document(id_, text, {"n": n % 5}) for n, (id_, text) in enumerate(TEXTS.items())], VECTORS)
    wait_for(lambda: collection.backend == INVERTED)
    collection.close()
    return folder


def differences(folder: Path) -> str:
    """How the store answers: `sound`, `refused`, `said` (some documents are called damaged), `lacking` (silently)."""
    try:
        collection = opened(folder)
    except (Damaged, StoreError) as exc:
        return "refused" if STORE in str(exc) or "damaged on the disk" in str(exc) else f"refused: {exc}"
    try:
        kinds = {_outcome(partial(collection.get, f"d{n}"), n) for n in range(COUNT)}
        kinds |= {_outcome(partial(_nearest, collection, n), n) for n in range(0, COUNT, COUNT // SEARCHED)}
        return "said" if kinds == {"said", "sound"} else ", ".join(sorted(kinds))
    finally:
        collection.close()


def _outcome(look: Callable[[], Document | None], number: int) -> str:
    """How one document is given; what is given must be right."""
    try:
        document = look()
    except Damaged as exc:
        return "said" if "damaged on the disk" in str(exc) else str(exc)
    if document is None:
        return "lacking"
    assert (document.text, document.metadata) == (TEXTS[f"d{number}"], {"n": number % 5})
    return "sound"


def _nearest(collection: Collection, number: int) -> Document | None:
    matches = search_one(collection, VECTORS[number], top_k=1)
    return matches[0].document if matches and matches[0].document.id == f"d{number}" else None


def is_found_by_verify(folder: Path) -> bool:
    try:
        return bool(faults(folder))
    except StoreError:
        return True


def damages(folder: Path) -> Iterator[tuple[str, bytes]]:
    """File name and damaged content: single bits flipped all over, and each file cut at some places."""
    generator = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        if not content:
            continue
        for place in generator.integers(len(content), size=FLIPS[path.name] or 6):
            flipped = bytearray(content)
            flipped[place] ^= 1 << generator.integers(8)
            yield path.name, bytes(flipped)
        for share in (0, 1, 3):
            yield path.name, content[: len(content) * share // 4]


def test_damage_never_gives_wrong_answers(sound: Path, tmp_path: Path) -> None:
    outcomes = Counter[tuple[str, str]]()
    noticed = 0
    for number, (name, content) in enumerate(damages(sound)):
        folder = tmp_path / str(number)
        shutil.copytree(sound, folder)
        (folder / name).write_bytes(content)
        found_by_verify = is_found_by_verify(folder)
        what = differences(folder)
        outcomes[name.split("-")[0], what] += 1
        is_known = what in ("refused", "said") or found_by_verify  # the rest: rows that SQLite no longer finds
        assert what == "sound" or (name == STORE and is_known), (name, what)
        noticed += name == STORE and is_known
        shutil.rmtree(folder)
    assert outcomes["index", "sound"] == outcomes["index.json", "sound"] == 6 + 3  # made anew from the store
    assert noticed > FLIPS[STORE] / 2


def test_a_damaged_log_is_not_taken_for_an_older_store(tmp_path: Path) -> None:
    """The log of a killed process holds what was answered last; SQLite drops all of it from the damage on."""
    running = opened(tmp_path / "running")
    for number in range(8):
        running.put([Document(f"d{number}", TEXTS[f"d{number}"], {})], VECTORS[number : number + 1])
    killed = shutil.copytree(tmp_path / "running", tmp_path / "killed")
    running.close()
    log = (killed / f"{STORE}-wal").read_bytes()
    places = range(100, len(log), len(log) // 9)
    for number, content in enumerate(
        [*(log[:at] + b"?" + log[at + 1 :] for at in places), *(log[:at] for at in places)]
    ):
        folder = shutil.copytree(killed, tmp_path / str(number))
        (folder / f"{STORE}-wal").write_bytes(content)
        with pytest.raises(StoreError, match=r"has revision \d, but revision 8 was acknowledged|cannot be used"):
            opened(folder)
    assert count_stored(killed, dim=DIM) == 8


def flip(folder: Path, content: bytes) -> None:
    """One bit of these bytes in the store."""
    data = bytearray((folder / STORE).read_bytes())
    data[data.index(content) + len(content) // 2] ^= 1
    (folder / STORE).write_bytes(data)


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "store"))


def repaired(store: Path, engine: Engine, fingerprint: str = "aa") -> Repair:
    return Repair(engine).run(store / STORE, fingerprint=fingerprint, dim=DIM)


def nothing_to_embed(batches: Iterable[Sequence[str]]) -> Vectors:
    assert not list(batches)
    yield from ()


def test_a_damaged_text_is_said_wherever_it_would_be_given(store: Path) -> None:
    flip(store, TEXTS["d7"].encode())
    assert repaired(store, nothing_to_embed) == Repair(nothing_to_embed, lost=[("default", "d7")])
    collection = opened(store)
    sentence = r'the text or metadata of document "d7" is damaged on the disk: put it again or delete it'
    for look in (
        lambda: collection.get("d7"),
        lambda: search_one(collection, VECTORS[7], top_k=1),
        lambda: read_page(collection),
    ):
        with pytest.raises(Damaged, match=sentence):
            look()
    assert collection.get("d8") is not None
    collection.put([Document("d7", TEXTS["d7"], {"n": 2})], VECTORS[7:8])
    collection.close()
    assert differences(store) == "sound"


def test_a_damaged_vector_is_said_and_repaired_from_its_text(store: Path) -> None:
    (store / "index.json").unlink()  # every vector is read
    rows = {TEXTS[f"d{row}"]: row for row in (4, 9)}
    for row in rows.values():
        flip(store, VECTORS[row].tobytes())
    with pytest.raises(Damaged, match=r'the vector of document "d4" is damaged'):
        opened(store)
    failing = {TEXTS["d4"]}

    def engine(batches: Iterable[Sequence[str]]) -> Vectors:
        for texts in batches:
            failed = {at: "the model failed" for at, text in enumerate(texts) if text in failing}
            embedded = [rows[text] for text in texts if text not in failing]
            yield Embedded(VECTORS[np.array(embedded, int)], (), failed)

    for count in (1, 0):
        done = repaired(store, engine)
        assert (done.vectors, done.lost, done.failed) == (count, [], {("default", "d4"): "the model failed"})
        assert is_found_by_verify(store)
    failing.clear()
    assert repaired(store, engine) == Repair(engine, vectors=1)
    assert not is_found_by_verify(store)
    assert differences(store) == "sound"


def test_only_what_is_asked_for_must_be_sound(store: Path) -> None:
    """A damaged vector is no obstacle to an export without vectors, nor to re-embedding."""
    flip(store, VECTORS[9].tobytes())
    with open_store_file(store / STORE) as file:
        assert len(list(file.documents(with_vectors=False))) == COUNT
        with pytest.raises(StoreError, match=r'document "d9" .* is damaged'):
            list(file.documents(with_vectors=True))


def test_text_that_is_no_utf8_counts_as_missing(store: Path) -> None:
    with closing(sqlite3.connect(store / STORE)) as connection, connection:
        connection.execute("UPDATE documents SET text = CAST(x'68ff' AS TEXT) WHERE id = 'd7'")
        connection.execute("UPDATE fields SET kind = 'string', value = CAST(x'68ff' AS TEXT) WHERE row = 8")
    collection = opened(store)
    with pytest.raises(Damaged, match="not UTF-8"):
        collection.counts(["n"], most_values=9)
    assert list(collection.documents_of(["d6", "d7"])) == ["d6"]
    collection.put([Document("d7", "neu", {})], VECTORS[7:8])
    assert collection.documents_of(["d7"])["d7"].text == "neu"
    collection.close()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("INSERT INTO keywords_1 (rowid, terms) VALUES (1, 'never')", "the keywords are not those of the texts"),
        ("UPDATE keywords_1_data SET block = x'00' WHERE id > 10", "SQLite finds the keywords damaged"),
        ("DELETE FROM keywords_1_docsize WHERE id = 1", "the keywords are not those of the texts"),
    ],
)
def test_damaged_keywords_are_said_and_made_anew(store: Path, damage: str, fault: str) -> None:
    with closing(sqlite3.connect(store / STORE)) as connection, connection:
        connection.execute(damage)
    (said,) = faults(store)
    assert said.startswith(fault)
    assert "`crosslet index repair` makes them anew" in said
    assert repaired(store, nothing_to_embed) == Repair(nothing_to_embed, keywords=True)
    assert not is_found_by_verify(store)


def test_repair_for_another_model_or_beside_service_is_refused(store: Path) -> None:
    with pytest.raises(StoreError, match="holds vectors of model"):
        repaired(store, nothing_to_embed, "bb")
    with closing(open_store(store, dim=DIM)), pytest.raises(StoreError, match="in use by another process"):
        repaired(store, nothing_to_embed)
