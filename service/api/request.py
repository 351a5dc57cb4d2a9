"""What routes and middleware need of a request: headers, runtime, the client's presence, and its texts embedded."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import Depends, Request
from starlette.types import Message, Scope

from service.api.schemas.embed import VectorOptions
from service.engine.fair_queue import EncodedBatch, InputError
from service.engine.pairs import Input, Pair
from service.errors import ClientGone, InvalidInput, TextTooLong
from service.model.encoder import TextInput
from service.model.prompts import Prompts
from service.model.spaces import SpaceMap, Spaces
from service.model.tokenizer import MOST_CHARS, normalised_length
from service.runtime import Runtime, Steps

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
WATCH_AFTER_S = 0.1  # watch for a disconnect only after this time: for a shorter answer it costs as much as it saves
MOST_LISTED_POSITIONS = 20
MOST_GROWTH = 2  # times the longest text: what ligatures of the longest may be written out to

logger = logging.getLogger(__name__)

T = TypeVar("T")
Limit = Literal["max_texts", "max_openai_texts"]
Place = Callable[[int], str]  # the position of a text -> its name in an error message, like inputs[3]


@dataclass
class RequestFacts:
    """The fields of one request's log line; routes add to them."""

    request_id: str
    texts: int = 0
    tokens: int = 0
    status: int = 499  # until an answer starts: the client closed the connection
    started_at: float = field(default_factory=time.monotonic)


def header(scope: Scope | Message, name: bytes) -> str:
    """Return the first header of a lower-case name, or an empty string.

    Reads ASGI's raw list: building a `Headers` object takes longer than one look-up.
    """
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_ndjson(scope: Scope) -> bool:
    """Whether the body has one JSON document per line."""
    return header(scope, b"content-type").partition(";")[0].strip().lower() in NDJSON


def runtime_of(request: Request) -> Runtime:
    """Return the runtime of the request's application."""
    runtime: Runtime = request.app.state.runtime
    return runtime


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread on every request.
async def _runtime(request: Request) -> Runtime:
    name = request.path_params.get("collection")
    return runtime_of(request) if name is None else runtime_of(request).for_collection(name)


RuntimeDependency = Annotated[Runtime, Depends(_runtime)]


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it if the client disconnects.

    Raises: ClientGone: the client disconnected.
    """
    working = asyncio.current_task()
    assert working is not None  # noqa: S101 - a coroutine runs in a task
    has_left = False
    leaving: asyncio.Task[None] | None = None

    async def leave() -> None:
        nonlocal has_left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_left = True
        working.cancel()

    def watch() -> None:
        nonlocal leaving
        leaving = asyncio.ensure_future(leave())

    timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, watch)
    try:
        return await work
    except asyncio.CancelledError as exc:
        if has_left and not working.uncancel():  # otherwise the server is shutting down as well
            raise ClientGone("the client disconnected before its answer was ready") from exc
        raise
    finally:
        timer.cancel()
        if leaving is not None:
            leaving.cancel()


def one_or_listed(name: str, value: object) -> Place:
    """Name the places of a field that holds one text or a list: `name` or `name[position]`."""
    return lambda position: name if isinstance(value, str) else f"{name}[{position}]"


class Embedder:
    """Embeds the texts of one request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._runtime = runtime_of(request)
        self._facts: RequestFacts = request.state.facts

    @property
    def prompts(self) -> Prompts:
        """The model's prompts."""
        return self._runtime.encoder.prompts

    @property
    def spaces(self) -> Spaces:
        """The spaces into which vectors may be mapped."""
        return self._runtime.encoder.spaces

    @property
    def document_space(self) -> SpaceMap | None:
        """The space of documents and search queries; None: the model's own."""
        return self._runtime.encoder.spaces.chosen(self._runtime.settings.space or None)

    async def embed(
        self,
        texts: Sequence[TextInput],
        *,
        name: str,
        prompt: str,
        place: Place | None = None,
        truncate: bool = True,
        skip_failed: bool = False,
        dimensions: int | None = None,
        space: SpaceMap | None = None,
        limit: Limit = "max_texts",
    ) -> EncodedBatch:
        """Embed texts, in order.

        Args:   name: of the field, for error messages.  place: names one text; default: name[position].
                prompt: prepended to each text; its tokens count.
                skip_failed: report texts that fail in the batch's `failed`, unless all fail.
                dimensions: how many the caller will keep; checked before anything is computed.
                space: to map the vectors into; None: the model's own.
                limit: the setting that says how many texts there may be.
        Raises: InvalidInput: no text, too many, an empty one, too many dimensions, or token ids with a prompt.
                TextTooLong: a text is over the limit, or needs truncation and `truncate` is false.
                TooLarge, Overloaded, NotReady, InferenceFailed: from pool and memory budget.
                ClientGone: the client disconnected.
        """
        place = place or one_or_listed(name, texts)
        self.check(texts, name=name, place=place, limit=limit)
        dim = self._runtime.manifest.dim if space is None else space.dim
        if dimensions is not None and dimensions > dim:
            raise InvalidInput(f"dimensions is {dimensions}; the {'model' if space is None else 'space'} has {dim}")
        return await self.embed_checked(
            texts, prompt=prompt, place=place, truncate=truncate, skip_failed=skip_failed, space=space
        )

    async def embed_checked(
        self,
        texts: Sequence[TextInput],
        *,
        prompt: str,
        place: Place,
        truncate: bool = True,
        skip_failed: bool = False,
        space: SpaceMap | None = None,
    ) -> EncodedBatch:
        """Embed texts that were checked; as `embed`."""
        texts = _prefixed(prompt, texts, place) if prompt else texts
        batch = await self.compute(texts, place=place, truncate=truncate, skip_failed=skip_failed)
        if space is None:
            return batch
        # After the cache, which holds the model's own vectors. In a thread: 512 vectors take tens of milliseconds.
        mapped_BE = await asyncio.to_thread(space, batch.embeddings)
        return replace(batch, embeddings=mapped_BE)

    async def compute(
        self, texts: Sequence[Input], *, place: Place, truncate: bool = True, skip_failed: bool = False
    ) -> EncodedBatch:
        """Embed checked texts without a prompt; a pair gives its score.

        Raises: as `embed`, except for what `check` refuses.
        """
        try:
            with self.memory_for(texts):
                self._facts.texts += len(texts)
                encoding = self._runtime.pool.encode(texts, truncate=truncate, skip_failed=skip_failed)
                batch = await while_connected(self._request, encoding)
        except InputError as exc:
            raise exc.cause.at(place(exc.position)) from exc.cause.__cause__
        if batch.failed:
            first = next(iter(batch.failed.values()))
            facts = {"request_id": self._facts.request_id, "failed": len(batch.failed)}
            logger.error("texts failed", exc_info=first.__cause__, extra=facts)
        asyncio.get_running_loop().call_soon(self._account, batch)  # when the answer has left
        return batch

    def memory_for(self, texts: Sequence[Input]) -> AbstractContextManager[None]:
        """Reserve the memory to tokenise texts while the context lasts. Raises: TooLarge, Overloaded."""
        if not self._runtime.settings.memory_budget:  # skip measuring the texts
            return nullcontext()
        pool = self._runtime.pool
        return self._runtime.memory.texts(
            len(texts),
            waiting=pool.depth + pool.backlog,
            longest_chars=max(map(_length, texts)),
            retry_after_s=pool.retry_after_s,
        )

    async def prepare(self, steps: Steps[T], *, what: str, way_out: str) -> T:
        """Run steps of preparation until the client leaves.

        Raises: InvalidInput: they take longer than `request_timeout_s`.  ClientGone.  And what the steps raise.
        """
        limit_s = self._runtime.settings.request_timeout_s
        try:
            return await while_connected(self._request, self._runtime.preparation.run(steps, limit_s=limit_s))
        except TimeoutError as exc:
            raise InvalidInput(
                f"{what} takes longer than {limit_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): {way_out}"
            ) from exc

    def check(self, texts: Sequence[TextInput], *, name: str, place: Place, limit: Limit = "max_texts") -> None:
        """Refuse what `embed` would refuse, without embedding.

        Raises: InvalidInput, TextTooLong: as `embed`.
        """
        self.check_count(len(texts), name=name, limit=limit)
        longest = self._runtime.settings.max_text_chars
        empty = next((position for position, text in enumerate(texts) if not text), None)
        if empty is not None:
            raise InvalidInput(f"{place(empty)} is empty; every text needs at least one character")
        for position, text in enumerate(texts):
            if len(text) > longest:
                units = "characters" if isinstance(text, str) else "token ids"
                raise TextTooLong(
                    f"{place(position)} has {len(text)} {units}; the limit is {longest} (CROSSLET_MAX_TEXT_CHARS)"
                )
            if len(text) * MOST_CHARS > MOST_GROWTH * longest and _length(text) > MOST_GROWTH * longest:
                raise TextTooLong(
                    f"{place(position)} has {_length(text)} characters once ligatures are written out; the limit is "
                    f"{MOST_GROWTH * longest}, twice CROSSLET_MAX_TEXT_CHARS: send it in parts"
                )

    def check_count(self, count: int, *, name: str, limit: Limit = "max_texts") -> None:
        """Raises: InvalidInput: there are no texts, or too many."""
        most: int = getattr(self._runtime.settings, limit)
        if not count:
            raise InvalidInput(f"{name} is empty; send at least one text")
        if count > most:
            raise InvalidInput(f"{name} has {count} texts; the limit is {most} (CROSSLET_{limit.upper()})")

    def _account(self, batch: EncodedBatch) -> None:
        metrics = self._runtime.metrics
        self._facts.tokens += batch.tokens
        metrics.tokens.inc(batch.tokens)
        metrics.truncated_inputs.inc(len(batch.truncated))
        metrics.queue_duration.observe(batch.queue_s)
        metrics.inference_duration.observe(batch.inference_s)


def cost_headers(batch: EncodedBatch) -> dict[str, str]:
    """Return the headers of an inference answer."""
    count = len(batch.truncated)
    positions = f"; indices={','.join(map(str, batch.truncated))}" if 0 < count <= MOST_LISTED_POSITIONS else ""
    return {
        "x-tokens": str(batch.tokens),
        "x-truncated": f"{count}{positions}",
        "x-queue-ms": f"{batch.queue_s * 1000:.2f}",
        "x-inference-ms": f"{batch.inference_s * 1000:.2f}",
    }


def shown_vectors(embedding_BD: npt.NDArray[np.float32], wanted: VectorOptions) -> npt.NDArray[np.float32]:
    """Keep each vector's first `dimensions` dimensions (None: all), rescaled to norm 1 unless `normalize` is false."""
    if wanted.dimensions is None or wanted.dimensions == embedding_BD.shape[1]:
        return embedding_BD
    kept_BD = embedding_BD[:, : wanted.dimensions]
    if wanted.normalize is False:
        return kept_BD
    norm_B1 = np.linalg.norm(kept_BD, axis=1, keepdims=True)
    kept: npt.NDArray[np.float32] = kept_BD / np.maximum(norm_B1, np.finfo(np.float32).tiny)
    return kept


def _prefixed(prompt: str, texts: Sequence[TextInput], place: Place) -> list[str]:
    prefixed = [prompt + text for text in texts if isinstance(text, str)]
    if len(prefixed) < len(texts):
        position = next(position for position, text in enumerate(texts) if not isinstance(text, str))
        raise InvalidInput(
            f"{place(position)} is a list of token ids, but the model's prompt can only precede text; send text"
        )
    return prefixed


def _length(text: Input) -> int:
    """Return how many characters will be tokenised; 0 for token ids."""
    if isinstance(text, Pair):
        return normalised_length(text.query) + normalised_length(text.passage)
    return normalised_length(text) if isinstance(text, str) else 0


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread on every request.
async def _embedder(request: Request) -> Embedder:
    return Embedder(request)


EmbedderDependency = Annotated[Embedder, Depends(_embedder)]
