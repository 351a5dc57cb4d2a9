"""A model hub on the loopback interface: the routes by which huggingface_hub finds and downloads a folder's files."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0" * 39 + "1"


class Handler(BaseHTTPRequestHandler):
    """Answers for one repository, `repo`, whose files are in `folder`."""

    repo: str
    folder: Path

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        resolve = (f"/{self.repo}/resolve/main/", f"/{self.repo}/resolve/{COMMIT}/")
        if path.startswith(f"/api/models/{self.repo}"):
            names = [file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()]
            if "/tree/" in path:
                listing = [{"type": "file", "path": name, "size": 1, "oid": COMMIT} for name in names]
                return self.answer(json.dumps(listing).encode(), "application/json")
            info = {"id": self.repo, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            return self.answer(json.dumps(info).encode(), "application/json")
        for prefix in resolve:
            file = self.folder / path.removeprefix(prefix)
            if path.startswith(prefix) and file.is_file():
                return self.answer(file.read_bytes(), "application/octet-stream")
        return self.answer(b"", "text/plain", status=404)

    do_HEAD = do_GET

    def answer(self, body: bytes, kind: str, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if status == 404:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serve_model(repo: str, folder: Path) -> Iterator[str]:
    """The hub's address while it runs."""
    handler = type("OneModel", (Handler,), {"repo": repo, "folder": folder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
