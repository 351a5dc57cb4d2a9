from pathlib import Path

import pytest

from service.documents.store.locking import lock_for_this_process, write_url
from service.errors import StoreInUse

URL = b"http://10.0.0.7:80"


def url_of_holder(path: Path) -> str | None:
    with pytest.raises(StoreInUse) as caught:
        lock_for_this_process(path)
    return caught.value.url


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://[::1]:8080", URL.decode()])
def test_the_lock_tells_where_its_service_answers(tmp_path: Path, url: str) -> None:
    path = tmp_path / "documents.sqlite3"
    with lock_for_this_process(path) as lock:
        assert url_of_holder(path) is None
        write_url(lock, url)
        assert url_of_holder(path) == url
    with lock_for_this_process(path):  # another process, which is no service
        assert url_of_holder(path) is None


@pytest.mark.parametrize(
    ("part", "by"),
    [
        *((URL, url) for url in (b"http://example.org:80", URL + b"/x", b"file:///etc", b"\xff", b"x" * 999)),
        (b"net:[", b"net:[1"),  # another container's network
    ],
)
def test_a_lock_that_names_no_address_names_no_service(tmp_path: Path, part: bytes, by: bytes) -> None:
    path = tmp_path / "documents.sqlite3"
    with lock_for_this_process(path) as lock:
        write_url(lock, URL.decode())
        written = path.with_suffix(".lock").read_bytes()
        path.with_suffix(".lock").write_bytes(written.replace(part, by))
        assert url_of_holder(path) is None
