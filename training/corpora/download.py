"""Downloads a file over HTTP: resumes, retries, and checks length and checksum."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from tqdm import tqdm

from training.errors import FetchError
from training.system.files import complete, partial

logger = logging.getLogger(__name__)
HEADERS = {"User-Agent": "crosslet", "Accept-Encoding": "identity"}  # so that the stated length is the file's
TIMEOUT_S = httpx.Timeout(60.0, connect=30.0)
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How often a download is retried."""

    attempts: int = 5  # in a row without a new byte
    pause_s: float = 1.0  # before the second attempt; doubled for each further one
    max_pause_s: float = 60.0  # the limit, also for a server's Retry-After


class _InterruptedError(Exception):
    """The transfer broke off and may be retried."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class _Part:
    """The bytes received so far, and the validator (strong ETag or date) of the version they belong to."""

    def __init__(self, path: Path) -> None:
        self.path = partial(path)
        self._validator = self.path.with_name(f"{self.path.name}.mark")
        if self.path.is_symlink() or self._validator.is_symlink():  # not ours: what it leads to must not change
            self.discard()

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def validator(self) -> str:
        """Empty if the server gave none: the part cannot be resumed then."""
        return self._validator.read_text(encoding="utf-8") if self._validator.exists() else ""

    def restart(self, validator: str) -> None:
        self.path.write_bytes(b"")
        self._validator.write_text(validator, encoding="utf-8")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._validator.unlink(missing_ok=True)

    def finish(self, path: Path) -> None:
        complete(self.path, path)
        self._validator.unlink(missing_ok=True)


def download(url: str, path: Path, *, sha256: str | None = None, patience: Patience) -> None:
    """Download `url` to `path`, atomically.

    A transfer that breaks off resumes by Range, in this call or a later one, if the server confirms that the file is
    unchanged (If-Range). Otherwise it starts again.

    Raises: FetchError: the server refuses, the transfer keeps breaking off, or the checksum differs.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _Part(path)
    failures, furthest = 0, part.size
    with httpx.Client(follow_redirects=True, timeout=TIMEOUT_S, headers=HEADERS) as client:
        while True:
            try:
                _transfer(client, url, part, description=path.name)
                break
            except _InterruptedError as exc:
                failures = 1 if part.size > furthest else failures + 1
                furthest = max(furthest, part.size)
                if failures >= patience.attempts:
                    raise FetchError(f"{url} could not be downloaded: {exc}; run again to resume") from exc
                logger.warning("%s: %s; retrying", url, exc)
                wait_s = max(patience.pause_s * 2 ** (failures - 1), exc.retry_after_s)
                time.sleep(min(wait_s, patience.max_pause_s))
    if sha256 is not None:
        with part.path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        if checksum != sha256:
            part.discard()
            raise FetchError(f"{url} has the checksum {checksum}, the catalogue {sha256}: it was changed or damaged")
    part.finish(path)


def _transfer(client: httpx.Client, url: str, part: _Part, *, description: str) -> None:
    """Make one request and append its body to the part.

    Raises: _InterruptedError: a retry may help.  FetchError: it cannot.
    """
    headers = {"Range": f"bytes={part.size}-", "If-Range": part.validator} if part.size and part.validator else {}
    try:
        with client.stream("GET", url, headers=headers) as response:
            expected = _begin(response, url, part)
            with (
                part.path.open("ab") as file,
                tqdm(total=expected, initial=part.size, unit="B", unit_scale=True, desc=description) as progress,
            ):
                for chunk in response.iter_raw():  # unbuffered: a larger chunk would be lost when the transfer breaks
                    file.write(chunk)
                    progress.update(len(chunk))
    except httpx.TransportError as exc:
        raise _InterruptedError(str(exc) or type(exc).__name__) from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise FetchError(f"{url} cannot be downloaded: {exc}") from exc
    if expected is not None and part.size != expected:
        raise _InterruptedError(f"{part.size} of {expected} bytes arrived")


def _begin(response: httpx.Response, url: str, part: _Part) -> int | None:
    """Prepare the part for a response's bytes. Returns: the whole file's size, if the server states it."""
    status, headers = response.status_code, response.headers
    if status in TRANSIENT:
        seconds = headers.get("Retry-After", "")
        raise _InterruptedError(f"the server answered {status}", float(seconds) if seconds.isdigit() else 0.0)
    content_range = headers.get("Content-Range", "")
    if status == httpx.codes.PARTIAL_CONTENT and content_range.startswith(f"bytes {part.size}-"):
        total = content_range.rpartition("/")[2]
        return int(total) if total.isdigit() else None
    if status in (httpx.codes.PARTIAL_CONTENT, httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE):
        part.discard()
        raise _InterruptedError("the server sent another range than requested")
    if status != httpx.codes.OK:
        raise FetchError(f"{url} cannot be downloaded: the server answered {status} {response.reason_phrase}".rstrip())
    etag = headers.get("ETag", "")
    part.restart(etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", ""))
    length = headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None
