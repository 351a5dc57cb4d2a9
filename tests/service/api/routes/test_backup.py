"""POST /backup: the copy that arrives, who gets it, and what is left of it in the data folder."""

import asyncio
import json
import resource
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from service.api.app import create_app
from service.api.routes import backup
from service.api.routes.backup import COPY, Backups, CopyResponse
from service.documents.document import Document
from service.documents.store.backup import back_up
from service.errors import Overloaded
from service.offline.backup import restore
from service.offline.repair import verify
from service.offline.store_file import open_store_file
from service.runtime import Runtime, load_runtime
from service.settings import Settings
from tests.artifacts import DIM, TEXTS
from tests.service.api.answers import assert_refused, put
from tests.service.api.connections import serving
from tests.service.conftest import Serve

pytestmark = pytest.mark.anyio

MANY = 300  # documents of 100,000 characters: more than the system takes from the service


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_copy_is_a_sound_store_and_a_service_starts_from_it(serve: Serve, tmp_path: Path) -> None:
    client = serve(data=tmp_path / "data")
    put(client, {"id": "a", "text": TEXTS[0]}, {"id": "b", "text": TEXTS[1]})
    before = names(tmp_path / "data")
    response = client.post("/backup")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/vnd.sqlite3"
    assert int(response.headers["content-length"]) == len(response.content)
    assert names(tmp_path / "data") == before
    (tmp_path / "a.backup").write_bytes(response.content)
    with open_store_file(tmp_path / "a.backup") as file:
        assert verify(file) == []
    restore(tmp_path / "a.backup", tmp_path / "other" / "documents.sqlite3")
    other = serve(data=tmp_path / "other")
    for path in ("/documents", "/documents/a", "/documents/b"):
        assert other.get(path).json() == client.get(path).json()
    put(client, {"id": "c", "text": TEXTS[2]})
    again = client.post("/backup/").content
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(again)
        assert [id_ for (id_,) in connection.execute("SELECT id FROM documents ORDER BY row")] == ["a", "b", "c"]


def test_backup_without_room_is_507_and_removed(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(data=tmp_path / "data")
    put(client, {"id": "a", "text": TEXTS[0]})
    before = names(tmp_path / "data")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))
        assert_refused(client.post("/backup"), 507, "Backend", "a copy takes ", " has 10 free", "index backup")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # what a disk that fills up does to a write
    try:
        response = client.post("/backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_refused(response, 507, "Backend", "is full; the copy was removed")
    assert names(tmp_path / "data") == before
    assert client.post("/backup").status_code == 200


def test_the_copy_of_a_killed_service_is_removed_by_the_next(serve: Serve, tmp_path: Path) -> None:
    serve(data=tmp_path / "data").__exit__(None, None, None)
    (tmp_path / "data" / COPY).write_bytes(b"half")
    serve(data=tmp_path / "data2")
    assert (tmp_path / "data" / COPY).exists()
    serve(data=tmp_path / "data")
    assert not (tmp_path / "data" / COPY).exists()


@pytest.fixture(scope="module")
def large_folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some 30 MB."""
    folder = tmp_path_factory.mktemp("large")
    runtime = load_runtime(Settings(model=tiny_model, data=folder, workers=1))
    vectors_ND = np.eye(DIM, dtype=np.float32)[np.zeros(MANY, int)]
    runtime.collection.put([Document(str(n), "x" * 100_000, {}) for n in range(MANY)], vectors_ND)
    runtime.close()
    return folder


@pytest.fixture
def large(tiny_model: Path, large_folder: Path) -> Iterator[Runtime]:
    """A runtime with that store."""
    runtime = load_runtime(Settings(model=tiny_model, data=large_folder, workers=1))
    yield runtime
    runtime.close()


@asynccontextmanager
async def asking(address: tuple[str, int]) -> AsyncIterator[asyncio.StreamReader]:
    """A connection that has asked for a backup, and is cut on leaving."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"POST /backup HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
    try:
        yield reader
    finally:
        writer.transport.abort()


async def head(reader: asyncio.StreamReader) -> tuple[int, bytes, int]:
    """Status, all headers, and the length of what follows."""
    lines = (await reader.readuntil(b"\r\n\r\n")).lower()
    return int(lines.split()[1]), lines, int(lines.partition(b"content-length: ")[2].partition(b"\r\n")[0])


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - of files, which say nothing
        await asyncio.sleep(0.001)


async def whole(address: tuple[str, int]) -> bytes:
    """The backup, once the service makes it."""
    while True:
        async with asking(address) as reader:
            status, _, size = await head(reader)
            body = await reader.readexactly(size)
            if status == 200:
                return body
        await asyncio.sleep(0.05)


async def test_one_backup_at_a_time(large: Runtime) -> None:
    folder = large.settings.data
    before = names(folder)
    async with serving(create_app(large)) as address:
        async with asking(address) as slow:
            status, _, size = await head(slow)
            assert (status, size > MANY * 100_000) == (200, True)
            assert names(folder) == before  # it has no name any more
            async with asking(address) as second:
                status, lines, length = await head(second)
                assert status == 429
                assert b"retry-after: 30\r\n" in lines
                assert json.loads(await second.readexactly(length))["error_type"] == "Overloaded"
            assert len(await slow.readexactly(size)) == size
        body = await whole(address)
        async with asking(address) as leaver:
            assert (await head(leaver))[0] == 200
            await leaver.readexactly(1)
        assert await whole(address) == body  # the one that left holds nobody up
    assert names(folder) == before


async def test_a_client_that_leaves_while_the_copy_is_made_ends_it(
    large: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[tuple[int, int]] = []

    def slowly(store: Path, target: Path, *, advance: Callable[[int, int], object]) -> None:
        def step(done_bytes: int, all_bytes: int) -> None:
            copied.append((done_bytes, all_bytes))
            time.sleep(0.2)
            advance(done_bytes, all_bytes)

        back_up(store, target, advance=step)

    path = large.settings.data / COPY
    async with serving(create_app(large)) as address:
        with monkeypatch.context() as slow:
            slow.setattr(backup, "copy_store", slowly)
            async with asking(address):
                await until(path.exists)
            await until(lambda: not path.exists())
        done_bytes, all_bytes = copied[-1]
        assert done_bytes < all_bytes
        assert len(await whole(address)) == all_bytes


async def test_cancelled_backup_copy_is_removed(large: Runtime) -> None:
    async def copied(backups: Backups) -> CopyResponse:
        while True:
            try:
                return await backups.copy()
            except Overloaded:
                await asyncio.sleep(0.001)

    makes = Backups(large.settings.documents_path)
    before = names(large.settings.data)
    for wait_s in (0.0, 0.005, 0.02, 0.05, 0.1, 0.2):
        making = asyncio.ensure_future(makes.copy())
        await asyncio.sleep(wait_s)
        making.cancel()
        with suppress(asyncio.CancelledError):
            (await making).close()
        (await copied(makes)).close()
        assert names(large.settings.data) == before
