"""What routes and middleware need of a request: headers, runtime, the client's presence, and its texts embedded."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, islice
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
from fastapi import Depends, Request
from starlette.types import Message, Receive, Scope

from service.api.schemas.embed import ReadingOptions, VectorOptions
from service.documents.document import unit_rows
from service.documents.names import DEFAULT_NAME
from service.engine.fair_queue import EncodedBatch, InputError
from service.engine.pairs import Input, Pair
from service.errors import ClientGone, InvalidInput, TextTooLong
from service.model.encoder import TextInput
from service.model.spaces import SpaceMap
from service.model.tokenizer import MOST_CHARS, normalised_length
from service.runtime import Runtime, Steps

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
WATCH_AFTER_S = 0.1  # watch for a disconnect only after this time: for a shorter answer it costs as much as it saves
MOST_LISTED_POSITIONS = 20
MOST_GROWTH = 2  # times the longest text: what ligatures of the longest may be written out to

logger = logging.getLogger(__name__)

T = TypeVar("T")
Text = TypeVar("Text", str, tuple[int, ...], TextInput)  # token ids are a text, too
Limit = Literal["max_texts", "max_openai_texts"]
Place = Callable[[int], str]  # the position of a text -> its name in an error message, like inputs[3]


@dataclass(frozen=True)
class SearchFacts:
    """What the metrics count of an answered search."""

    collection: str
    is_empty: bool
    is_slow: bool


@dataclass
class RequestFacts:
    """The fields of one request's log line; routes add to them."""

    request_id: str
    texts: int = 0
    tokens: int = 0
    search: SearchFacts | None = None
    status: int = 499  # until an answer starts: the client closed the connection
    started_at: float = field(default_factory=time.monotonic)


def header(scope: Scope | Message, name: bytes) -> str:
    """Return the first header of a lower-case name, or an empty string.

    Reads ASGI's raw list: building a `Headers` object takes longer than one look-up.
    """
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def replayed(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives a message again, then what follows it."""
    messages = [message]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def receive_nothing() -> Message:
    """Receive nothing: the client neither sends more nor leaves."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")


def is_ndjson(scope: Scope) -> bool:
    """Whether the body has one JSON document per line."""
    return header(scope, b"content-type").partition(";")[0].strip().lower() in NDJSON


def runtime_of(request: Request) -> Runtime:
    """Return the runtime of the request's application."""
    runtime: Runtime = request.app.state.runtime
    return runtime


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread on every request.
async def _runtime(request: Request) -> Runtime:
    name = request.path_params.get("collection", DEFAULT_NAME)
    return runtime_of(request).for_request(name, request.state.grant)


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


def one_or_listed(name: str, given: Text | Sequence[Text]) -> tuple[Sequence[Text], Place]:
    """Return a field's one text (or token ids, a tuple) as a list, and how places are named: `name`, or `name[0]`."""
    if isinstance(given, list):
        return given, lambda position: f"{name}[{position}]"
    return [cast("Text", given)], lambda _: name


class Embedder:
    """Embeds the texts of one request, in order."""

    def __init__(self, request: Request) -> None:
        self.runtime = runtime_of(request)
        self._request = request
        self._facts: RequestFacts = request.state.facts

    @property
    def document_space(self) -> SpaceMap | None:
        """The space of documents and search queries; None: the model's own."""
        return self.runtime.encoder.spaces.chosen(self.runtime.settings.space or None)

    async def embed(
        self,
        given: TextInput | Sequence[TextInput],
        options: ReadingOptions,
        *,
        name: str,
        place: Place | None = None,
        limit: Limit = "max_texts",
        prefix: str = "",
    ) -> EncodedBatch:
        """Embed a text or a list of texts as a request's options say.

        Args:   name: of the field, for error messages.  place: names one text; None: `one_or_listed` does.
                limit: the setting that says how many texts there may be.  prefix: of the options' names.
        Raises: InvalidInput: no text, too many, an empty one, an option that the model does not have.
                TextTooLong: a text is over the limit, or needs truncation and that is not allowed.
                What `compute` does.
        """
        texts, named = one_or_listed(name, given)
        place = place or named
        prompt = self.runtime.encoder.prompts.chosen(options.prompt_name, options.input_type, place=prefix)
        space = self.runtime.encoder.spaces.chosen(options.space, place=prefix)
        self.check(texts, name=name, place=place, limit=limit)
        dim = self.runtime.manifest.dim if space is None else space.dim
        dimensions = options.dimensions if isinstance(options, VectorOptions) else None
        if isinstance(options, VectorOptions) and dimensions is not None and dimensions > dim:
            source = "model" if space is None else "space"
            raise InvalidInput(
                f"{options.dimensions_name} is {dimensions}; the {source} has {dim}: send at most that, or leave it out"
            )
        setting = self.runtime.settings.long_texts
        truncate, keeps_end = options.may_cut and setting != "refuse", options.keeps_end
        fits = self.runtime.encoder.surely_fits
        if truncate and (keeps_end or setting == "mean") and not all(fits(text, prompt=prompt) for text in texts):
            batch = await self._embed_parts(texts, place=place, prompt=prompt, space=space, keeps_end=keeps_end)
        else:
            batch = await self.compute(texts, place=place, prompt=prompt, truncate=truncate, space=space)
        self.runtime.cut_warning.note(len(batch.truncated))
        if isinstance(options, VectorOptions) and dimensions is not None and dimensions < dim:
            return replace(batch, embeddings=_shortened(batch.embeddings, options))
        return batch

    async def _embed_parts(
        self, texts: Sequence[TextInput], *, place: Place, prompt: str, space: SpaceMap | None, keeps_end: bool
    ) -> EncodedBatch:
        """Embed checked texts: of a long one its end, or the mean of its passages, weighted by their characters.

        Raises: as `embed`.  InvalidInput: also over CROSSLET_MAX_PASSAGES; a long row of token ids, which has no end.
        """
        most = self.runtime.settings.max_passages
        parts: list[TextInput] = []
        owners: list[int] = []  # a part's text
        cut: set[int] = set()

        def split() -> Steps[None]:
            passages = 0
            for position, text in enumerate(texts):
                new = self._parts_of(
                    text, place(position), prompt=prompt, most=most + 1 - passages, keeps_end=keeps_end
                )
                if len(new) > 1 and keeps_end:
                    cut.add(position)
                    new = new[-1:]
                passages += len(new) if len(new) > 1 else 0
                if passages > most:
                    raise InvalidInput(
                        f"{place(position)} and those before it have over {most} passages (CROSSLET_MAX_PASSAGES): "
                        "send fewer texts, or shorter ones"
                    )
                parts.extend(new)
                owners.extend([position] * len(new))
                yield

        with self.memory_for(texts):
            await self.prepare(split(), what="splitting texts", way_out="send fewer texts, or shorter ones")
        batch = await self.compute(parts, place=lambda part: place(owners[part]), space=space)
        cut |= {owners[part] for part in batch.truncated}
        if len(parts) > len(texts):
            batch = replace(batch, embeddings=means_of(batch.embeddings, parts, owners))
        return replace(batch, truncated=tuple(sorted(cut)))

    def _parts_of(self, text: TextInput, name: str, *, prompt: str, most: int, keeps_end: bool) -> list[TextInput]:
        """Return a text's passages, up to a number, or the windows on it; one part where it fits."""
        encoder = self.runtime.encoder
        if isinstance(text, str):
            if keeps_end:
                return [*encoder.windows(text, prompt=prompt)]
            return [prompt + passage for passage in islice(encoder.passages(text, prompt=prompt), most)]
        if prompt:
            raise _without_prompt(name)
        if keeps_end and len(text) > encoder.manifest.max_length:
            raise InvalidInput(f"{name} is a list of token ids, which keeps its beginning: send text")
        return [text]

    async def compute(
        self,
        texts: Sequence[Input],
        *,
        place: Place,
        prompt: str = "",
        truncate: bool = True,
        skip_failed: bool = False,
        space: SpaceMap | None = None,
    ) -> EncodedBatch:
        """Embed checked texts, and score pairs.

        Args:   prompt: prepended to each text; its tokens count.
                skip_failed: report texts that fail in the batch's `failed`, unless all fail.
                space: to map the vectors into; None: the model's own.
        Raises: InvalidInput: token ids with a prompt.  TextTooLong: a text must be cut and `truncate` is false.
                TooLarge, Overloaded, NotReady, InferenceFailed: from pool and memory budget.
                ClientGone: the client disconnected.
        """
        texts = _prefixed(prompt, texts, place) if prompt else texts
        try:
            with self.memory_for(texts):
                self._facts.texts += len(texts)
                encoding = self.runtime.pool.encode(texts, truncate=truncate, skip_failed=skip_failed)
                batch = await while_connected(self._request, encoding)
        except InputError as exc:
            raise exc.cause.at(place(exc.position)) from exc.cause.__cause__
        if batch.failed:
            first = next(iter(batch.failed.values()))
            facts = {"request_id": self._facts.request_id, "failed": len(batch.failed)}
            logger.error("texts failed", exc_info=first.__cause__, extra=facts)
        if self.runtime.traces is not None:
            self.runtime.traces.add(batch.stages)
        asyncio.get_running_loop().call_soon(self._account, batch)  # when the answer has left
        if space is None:
            return batch
        # After the cache, which holds the model's own vectors. In a thread: 512 vectors take tens of milliseconds.
        return replace(batch, embeddings=await asyncio.to_thread(space, batch.embeddings))

    def memory_for(self, texts: Sequence[Input]) -> AbstractContextManager[None]:
        """Reserve the memory to tokenise texts while the context lasts. Raises: TooLarge, Overloaded."""
        if not self.runtime.settings.memory_budget:  # skip measuring the texts
            return nullcontext()
        pool = self.runtime.pool
        return self.runtime.memory.texts(
            len(texts),
            waiting=pool.depth + pool.backlog,
            longest_chars=_longest(texts),
            retry_after_s=pool.retry_after_s,
        )

    async def prepare(self, steps: Steps[T], *, what: str, way_out: str) -> T:
        """Run steps of preparation until the client leaves.

        Raises: InvalidInput: they take longer than `request_timeout_s`.  ClientGone.  And what the steps raise.
        """
        limit_s = self.runtime.settings.request_timeout_s
        try:
            return await while_connected(self._request, self.runtime.preparation.run(steps, limit_s=limit_s))
        except TimeoutError as exc:
            raise InvalidInput(
                f"{what} takes longer than {limit_s:g} s (CROSSLET_REQUEST_TIMEOUT_S): {way_out}"
            ) from exc

    def check(
        self,
        texts: Sequence[TextInput],
        *,
        name: str,
        place: Place,
        limit: Limit = "max_texts",
        may_be_empty: bool = False,
    ) -> None:
        """Raises: InvalidInput: no text, too many, or an empty one.  TextTooLong: one is over the limit."""
        self.check_count(len(texts), name=name, limit=limit)
        longest = self.runtime.settings.max_text_chars
        empty = next((position for position, text in enumerate(texts) if not text), None)
        if empty is not None and not may_be_empty:
            raise InvalidInput(f"{place(empty)} is empty; every text needs at least one character")
        for position, text in enumerate(texts):
            if len(text) > longest:
                units = "characters" if isinstance(text, str) else "token ids"
                raise TextTooLong(
                    f"{place(position)} has {len(text)} {units}; the limit is {longest} (CROSSLET_MAX_TEXT_CHARS)"
                )
            if len(text) * MOST_CHARS > MOST_GROWTH * longest and _longest([text]) > MOST_GROWTH * longest:
                raise TextTooLong(
                    f"{place(position)} has {_longest([text])} characters once ligatures are written out; the limit is "
                    f"{MOST_GROWTH * longest}, twice CROSSLET_MAX_TEXT_CHARS: send it in parts"
                )

    def check_count(self, count: int, *, name: str, limit: Limit = "max_texts") -> None:
        """Raises: InvalidInput: there are no texts, or too many."""
        most: int = getattr(self.runtime.settings, limit)
        if not count:
            raise InvalidInput(f"{name} is empty; send at least one text")
        if count > most:
            raise InvalidInput(f"{name} has {count} texts; the limit is {most} (CROSSLET_{limit.upper()})")

    def _account(self, batch: EncodedBatch) -> None:
        metrics = self.runtime.metrics
        self._facts.tokens += batch.tokens
        metrics.tokens.inc(batch.tokens)
        metrics.truncated_inputs.inc(len(batch.truncated))
        metrics.queue_duration.observe(batch.queue_s)
        metrics.inference_duration.observe(batch.inference_s)


def cost_headers(texts: EncodedBatch | None, *others: EncodedBatch | None) -> dict[str, str]:
    """Return the headers of what an answer took together; of the truncated, only the request's own texts count.

    A few of them are named.
    """
    batches = [batch for batch in (texts, *others) if batch is not None]
    if not batches:
        return {}
    cut = () if texts is None else texts.truncated
    indices = f"; indices={','.join(map(str, cut))}" if 0 < len(cut) <= MOST_LISTED_POSITIONS else ""
    return cost_of(
        sum(batch.tokens for batch in batches),
        f"{len(cut)}{indices}",
        queue_s=sum(batch.queue_s for batch in batches),
        inference_s=sum(batch.inference_s for batch in batches),
    )


def cost_of(tokens: int, truncated: str, *, queue_s: float, inference_s: float) -> dict[str, str]:
    """Return the headers of a cost."""
    return {
        "x-tokens": str(tokens),
        "x-truncated": truncated,
        "x-queue-ms": f"{queue_s * 1000:.2f}",
        "x-inference-ms": f"{inference_s * 1000:.2f}",
    }


def means_of(
    vectors_PD: npt.NDArray[np.float32], parts: Sequence[TextInput], owners: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Return the mean vector of each text's parts at norm 1, weighted by their lengths. One part keeps every bit."""
    means: list[npt.NDArray[np.float32]] = []
    for _, rows in groupby(range(len(parts)), key=owners.__getitem__):
        first, *others = rows
        mean_D = vectors_PD[first]
        if others:
            weights_N1 = np.array([[len(parts[row])] for row in (first, *others)], np.float32)
            sum_D = (weights_N1 * vectors_PD[first : first + len(weights_N1)]).sum(axis=0)
            mean_D = sum_D / max(float(np.linalg.norm(sum_D)), float(np.finfo(np.float32).tiny))
        means.append(mean_D)
    return np.stack(means)


def _shortened(embedding_BD: npt.NDArray[np.float32], wanted: VectorOptions) -> npt.NDArray[np.float32]:
    """Keep each vector's first `dimensions` dimensions, rescaled to norm 1 unless `normalize` is false."""
    kept_BD = np.ascontiguousarray(embedding_BD[:, : wanted.dimensions])  # else orjson refuses it
    return kept_BD if wanted.normalize is False else unit_rows(kept_BD)


def _prefixed(prompt: str, texts: Sequence[Input], place: Place) -> list[str]:
    prefixed: list[str] = []
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise _without_prompt(place(position))
        prefixed.append(prompt + text)
    return prefixed


def _without_prompt(name: str) -> InvalidInput:
    return InvalidInput(f"{name} is a list of token ids, but the model's prompt can only precede text; send text")


def _longest(texts: Sequence[Input]) -> int:
    """Return the most characters of one text, or pair, that will be tokenised; token ids have none."""
    length = cache(normalised_length)  # a query is in many pairs

    def length_of(text: Input) -> int:
        if isinstance(text, Pair):
            return length(text.query) + length(text.passage)
        return length(text) if isinstance(text, str) else 0

    return max(map(length_of, texts))


# A coroutine although it awaits nothing: FastAPI would run a plain function in a thread on every request.
async def _embedder(request: Request) -> Embedder:
    return Embedder(request)


EmbedderDependency = Annotated[Embedder, Depends(_embedder)]
