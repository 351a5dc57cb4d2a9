from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from service.documents.vectors.snapshots import SnapshotFolder


def folder(path: Path, fingerprint: str = "aa") -> SnapshotFolder:
    return SnapshotFolder(path, fingerprint=fingerprint)


@pytest.fixture
def known() -> list[str]:
    """What the store remembers."""
    return []


def dump(data: bytes) -> Callable[[Path], None]:
    return lambda target: target.write_bytes(data) and None


def write(path: Path, known: list[str], data: bytes = b"vectors", revision: int = 3) -> Path:
    return folder(path).write(dump(data), revision=revision, facts={"probes": 8}, remember=known.append)


def test_what_was_written_is_found(tmp_path: Path, known: list[str]) -> None:
    assert folder(tmp_path).find(known=known) is None
    write(tmp_path, known)
    found = folder(tmp_path).find(known=known)
    assert found is not None
    snapshot, path = found
    assert (snapshot.revision, dict(snapshot.facts), path.read_bytes()) == (3, {"probes": 8}, b"vectors")


def test_a_write_that_fails_leaves_the_one_before(tmp_path: Path, known: list[str]) -> None:
    write(tmp_path, known)

    def fail(target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("no space left")

    def cut_off(id_: str) -> None:
        known.append(id_)
        raise OSError("cut off")

    for written, remember in ((fail, known.append), (dump(b"more"), cut_off)):
        with pytest.raises(OSError, match=r"no space left|cut off"):
            folder(tmp_path).write(written, revision=4, facts={}, remember=remember)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["index-3", "index.json"]
        found = folder(tmp_path).find(known=known)
        assert found is not None
        assert found[0].revision == 3


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("index-3", lambda data: data[:-1]),
        ("index-3", lambda data: bytes([data[0] ^ 1]) + data[1:]),
        ("index-3", lambda data: None),
        ("index.json", lambda data: data[:-9]),
        ("index.json", lambda data: data.replace(b'"format": 2', b'"format": 3')),
        ("index.json", lambda data: data.replace(b'"revision": 3', b'"revision": 7')),
        ("index.json", lambda data: data.replace(b'"probes": 8', b'"probes": 0')),
        ("index.json", lambda data: b'{"snapshot": {"format": 2, "file": null}, "sha256": ""}'),
        ("index.json", lambda data: data.replace(b'"index-3"', b'"../index-3"')),
        ("index.json", lambda data: b"[]"),
        ("index.json", lambda data: b"\xff\x00"),
    ],
)
def test_a_damaged_snapshot_is_put_aside(tmp_path: Path, known: list[str], name: str, damage: object) -> None:
    write(tmp_path, known)
    data = damage((tmp_path / name).read_bytes())  # type: ignore[operator]
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    assert folder(tmp_path).find(known=known) is None
    assert (tmp_path / "index.json.quarantined").exists()
    assert folder(tmp_path).find(known=known) is None  # it is not looked at again
    write(tmp_path, known, revision=5)
    assert folder(tmp_path).find(known=known) is not None


def test_a_snapshot_of_another_model_is_put_aside(tmp_path: Path, known: list[str]) -> None:
    write(tmp_path, known)
    assert folder(tmp_path, "bb").find(known=known) is None
    assert orjson.loads((tmp_path / "index.json.quarantined").read_bytes())["snapshot"]["fingerprint"] == "aa"


def test_snapshot_unknown_to_the_store_is_quarantined(tmp_path: Path, known: list[str]) -> None:
    write(tmp_path, known)
    assert folder(tmp_path).find(known=["of another time"]) is None
    assert folder(tmp_path).find(known=known) is None


def test_newer_snapshot_replaces_only_the_one_before(tmp_path: Path, known: list[str]) -> None:
    others = [tmp_path / name for name in ("index-of-my-notes.txt", "index-2024-01-sales.csv", "index-7.bak")]
    for other in others:
        other.write_text("mine")
    write(tmp_path, known)
    write(tmp_path, known, b"more", revision=9)
    assert {path.name for path in tmp_path.iterdir()} == {"index-9", "index.json", *(other.name for other in others)}
