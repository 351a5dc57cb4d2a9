"""Counts the project's files that execute for one request, below its handler.

PYTHONPATH=. python scripts/hops.py      # from the root of the repository, in the development environment

The rule: a file counts if one of its Python functions is called between the call of the route's handler and its
return, in any thread. Routing and parsing before the handler do not count, nor what follows its return. Files with a
middleware never count: a handler that waits long asks them whether the client is still there. The handler's own file
counts; all of `service/engine` counts as one file, and so does all of `service/model`.

Each request is sent in several rounds with new texts, and only files of every round count: others belong to work beside
the requests. Requests sent before them are not traced, so lazy imports and first uses do not count.
"""

import dis
import inspect
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.routing import BaseRoute, Route

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from service.api.app import create_app  # noqa: E402 - the repository is on the path from here on
from service.runtime import load_runtime  # noqa: E402
from service.settings import Settings  # noqa: E402

ONE_FILE = ("service/engine", "service/model")
RESUME_REASON = 0b11  # bits of RESUME's argument: 0 a call, others after a yield or an await
ROUNDS = 3
PASSAGES = 6
SENTENCES = [
    "The ferry to the northern islands leaves twice a day and takes four hours in calm weather.",
    "Before the harvest the farmers repair the stone walls between their terraces.",
    "Its engine was rebuilt after the war from parts that nobody could identify any more.",
    "A museum in the old customs house shows how salt was made from the sea.",
]


@dataclass(frozen=True)
class Query:
    """A kind of request.  body: its JSON in a round."""

    name: str
    method: str
    path: str
    body: Callable[[int], dict[str, Any]]


def long_text(round_: int) -> str:
    """Return a text of several passages, another one each round."""
    return " ".join(f"Day {round_}.{part}: {sentence}" for part in range(PASSAGES) for sentence in SENTENCES)


REQUESTS = (
    Query("POST /search, dense", "POST", "/search", lambda round_: {"query": f"a ferry {round_}", "mode": "dense"}),
    Query(
        "POST /search, hybrid with filter, facets and passages",
        "POST",
        "/search",
        lambda round_: {
            "query": f"how salt was made {round_}",
            "mode": "hybrid",
            "filter": {"lang": "en"},
            "facets": ["lang"],
            "include": ["text", "metadata", "passage"],
        },
    ),
    Query(
        "PUT /documents, with chunks",
        "PUT",
        "/documents",
        lambda round_: {
            "documents": [{"id": "new", "text": long_text(round_), "metadata": {"lang": "en"}}],
            "chunk": True,
        },
    ),
    Query("POST /embed", "POST", "/embed", lambda round_: {"inputs": [f"One text of round {round_}."]}),
)


@dataclass
class Trace:
    """Records the files of called functions while a handler runs."""

    handlers: frozenset[CodeType] = frozenset()
    files: set[str] = field(default_factory=set)
    is_running: bool = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> "Callable[..., Any] | None":
        """Serve as the trace function of every thread."""
        if frame.f_code in self.handlers:
            self.is_running = True
        if self.is_running and _is_new(frame):
            self.files.add(frame.f_code.co_filename)
        return self._inside_handler if frame.f_code in self.handlers else None

    def _inside_handler(self, frame: FrameType, event: str, arg: object) -> "Callable[..., Any]":
        if event == "return" and _is_last(frame):
            self.is_running = False
        return self._inside_handler


def _is_new(frame: FrameType) -> bool:
    """Tell a call from the return to a waiting coroutine, such as a middleware's: RESUME's argument says which."""
    return frame.f_code.co_code[frame.f_lasti + 1] & RESUME_REASON == 0


def _is_last(frame: FrameType) -> bool:
    """Tell a handler's end from its waiting."""
    return "YIELD" not in dis.opname[frame.f_code.co_code[frame.f_lasti]]


def handlers_of(routes: Iterable[BaseRoute], query: Query) -> frozenset[CodeType]:
    """Return the code of the functions that handle a request's method and path."""
    codes: set[CodeType] = set()
    for route in routes:
        if isinstance(route, Route):
            if route.path == query.path and query.method in (route.methods or ()):
                codes.add(inspect.unwrap(route.endpoint).__code__)
        elif router := getattr(route, "original_router", None):  # FastAPI keeps included routers as they are
            codes |= handlers_of(router.routes, query)
    return frozenset(codes)


def counted(files: set[str]) -> set[str]:
    """Return the project's files by their paths in it, with those of engine and model as one each."""
    paths = {Path(file).relative_to(ROOT).as_posix() for file in files if Path(file).is_relative_to(ROOT / "service")}
    return {next((folder for folder in ONE_FILE if path.startswith(f"{folder}/")), path) for path in paths}


def middleware_of(app: FastAPI) -> set[str]:
    """Return the files of the application's middleware."""
    classes = [getattr(middleware.cls, "func", middleware.cls) for middleware in app.user_middleware]  # or a partial
    return {inspect.getfile(cls) for cls in classes}


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Trace this thread and those that start meanwhile; requests are handled by the latter."""
    before = threading.gettrace()
    threading.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(before)


def measure(data: Path) -> dict[str, list[str]]:
    """Return the files of each request, over the bundled model and a store in the folder `data`."""
    trace = Trace()
    with tracing(trace):
        app = create_app(load_runtime(Settings(data=data)))
        with TestClient(app, base_url="http://localhost") as client:
            fill(client)
            return {query.name: sorted(files_of(query, app, client, trace)) for query in REQUESTS}


def fill(client: TestClient) -> None:
    """Store documents, one of them of several passages."""
    documents = [
        {"id": f"{number}", "text": text, "metadata": {"lang": "en"}}
        for number, text in enumerate([*SENTENCES, long_text(0)])
    ]
    client.put("/documents", json={"documents": documents, "chunk": True}).raise_for_status()


def files_of(query: Query, app: FastAPI, client: TestClient, trace: Trace) -> set[str]:
    """Return the files that execute in each round of a request, but for the first, which is not traced."""
    rounds: list[set[str]] = []
    for round_ in range(1, ROUNDS + 2):
        trace.files, trace.handlers = set(), handlers_of(app.routes, query) if round_ > 1 else frozenset()
        client.request(query.method, query.path, json=query.body(round_)).raise_for_status()
        rounds.append(counted(trace.files - middleware_of(app)))
    if not all(rounds[1:]):
        raise SystemExit(f"no handler was called for {query.method} {query.path}")
    return set.intersection(*rounds[1:])


def main() -> int:
    """Print the files of each request."""
    with tempfile.TemporaryDirectory() as folder:
        hops = measure(Path(folder))
    for name, files in hops.items():
        print(f"{len(files)} {name}", *(f"  {file}" for file in files), sep="\n")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
