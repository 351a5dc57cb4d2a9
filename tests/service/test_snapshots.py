from pathlib import Path

import orjson
import pytest

from service.index.snapshots import SnapshotFolder


def folder(path: Path, fingerprint: str = "aa") -> SnapshotFolder:
    return SnapshotFolder(path, fingerprint=fingerprint)


def write(path: Path, data: bytes = b"vectors", revision: int = 3) -> Path:
    return folder(path).write(lambda target: target.write_bytes(data) and None, revision=revision, facts={"probes": 8})


def test_what_was_written_is_found(tmp_path: Path) -> None:
    assert folder(tmp_path).find() is None
    write(tmp_path)
    found = folder(tmp_path).find()
    assert found is not None
    snapshot, path = found
    assert (snapshot.revision, dict(snapshot.facts), path.read_bytes()) == (3, {"probes": 8}, b"vectors")


def test_a_newer_snapshot_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, b"more", revision=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index-9", "index.json"]


def test_a_write_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    write(tmp_path)

    def fail(target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        folder(tmp_path).write(fail, revision=4, facts={})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index-3", "index.json"]
    assert folder(tmp_path).find() is not None


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("index-3", lambda data: data[:-1]),
        ("index-3", lambda data: bytes([data[0] ^ 1]) + data[1:]),
        ("index-3", lambda data: None),
        ("index.json", lambda data: data[:-9]),
        ("index.json", lambda data: data.replace(b'"format": 1', b'"format": 2')),
        ("index.json", lambda data: data.replace(b'"index-3"', b'"../index-3"')),
        ("index.json", lambda data: b"[]"),
        ("index.json", lambda data: b"\xff\x00"),
    ],
)
def test_a_damaged_snapshot_is_put_aside(tmp_path: Path, name: str, damage: object) -> None:
    write(tmp_path)
    data = damage((tmp_path / name).read_bytes())  # type: ignore[operator]
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    assert folder(tmp_path).find() is None
    assert (tmp_path / "index.json.quarantined").exists()
    assert folder(tmp_path).find() is None  # it is not looked at again
    write(tmp_path, revision=5)
    assert folder(tmp_path).find() is not None


def test_a_snapshot_of_another_model_is_put_aside(tmp_path: Path) -> None:
    write(tmp_path)
    assert folder(tmp_path, "bb").find() is None
    assert orjson.loads((tmp_path / "index.json.quarantined").read_bytes())["fingerprint"] == "aa"
