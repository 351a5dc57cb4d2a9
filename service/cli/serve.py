"""`crosslet serve`, `embed`, `search` and `info`. Heavy modules are imported when used."""

import argparse
import dataclasses
import gc
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import orjson

from service.documents.milvus.address import EMBEDDED, milvus_address
from service.errors import InvalidInput
from service.http.lazy_import import import_server
from service.http.listener import METRICS_PORT, bound_socket
from service.model.artifact import load_manifest
from service.process.cpus import usable_cpus
from service.process.descriptors import raise_limit
from service.process.logs import configure_logging
from service.settings import Settings, unknown_settings

if TYPE_CHECKING:
    from service.documents.protocol import Vectors
    from service.model.encoder import Encoder

MALLOC_ARENAS = 2  # each heap keeps its own peak memory: `python -m benchmarks.allocator`
# Longest wait of a worker for the GIL after a forward pass. Python's default of 5 ms is as long as one or two passes.
SWITCH_INTERVAL_S = 0.0002
OF_ENCODERS = ("dim", "prompts", "default_prompt_name", "truncate_dim", "spaces")  # facts that a re-ranker lacks
UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")  # as bytes that are not UTF-8 are read

logger = logging.getLogger(__name__)


def serve(_: argparse.Namespace, settings: Settings) -> None:
    """Load everything, then serve over HTTP until a signal.

    Raises: StartError: the model, the documents or a setting is refused.
    """
    gc.disable()  # most objects made here are permanent; `settle` collects the others and turns it on again
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    from service.model.encoder import choose_encoder  # here: `info` does not need ONNX Runtime
    from service.process.memory import limit_arenas

    limit_arenas(MALLOC_ARENAS)
    configure_logging(settings.log_level)
    raise_limit()
    if settings.index != EMBEDDED:
        milvus_address(settings.index)  # refuses a URL with a password, before it is logged
    logger.info("settings", extra=settings.model_dump(mode="json"))
    for name, meant in unknown_settings().items():
        logger.warning("unknown setting has no effect", extra={"variable": name, "meant": meant})
    if not any(settings.keys()):
        logger.warning("no API key is set: anyone who reaches the port may read and write (CROSSLET_API_KEYS)")
    with ExitStack() as sockets:
        listener = sockets.enter_context(bound_socket(settings.host, settings.port))
        metrics_listener = (
            sockets.enter_context(bound_socket(settings.host, settings.metrics_port, setting=METRICS_PORT))
            if settings.metrics_port
            else None
        )
        with ThreadPoolExecutor(1) as importer:
            if usable_cpus() > 1:  # loading the model leaves the GIL free half of the time; useless on one core
                importer.submit(import_server)
            choice = choose_encoder(settings.model, settings.fallback_model)
        import_server()
        from service.http.server import serve as serve_runtime
        from service.runtime import load_runtime

        serve_runtime(load_runtime(settings, choice), listener, metrics_listener)


def embed(options: argparse.Namespace, settings: Settings) -> None:
    """Print each text's vector as a JSON list.

    Raises: InvalidInput: a text is empty, too long or not valid UTF-8, or the model has no such prompt or space.
    """
    from service.model.encoder import choose_encoder

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    prompt, space = encoder.prompts.chosen(options.prompt_name), encoder.spaces.chosen(options.space)
    for name, text in _texts_of(options.texts):
        vector_D = encoder.encode(prompt + _readable(text, name, settings)).vector
        _print_json(vector_D if space is None else space(vector_D[None])[0])


def search(options: argparse.Namespace, settings: Settings) -> None:
    """Print the documents that answer a query, one JSON line each.

    Raises: StartError: the store is missing, unreadable, or another model's.
        InvalidInput: the query is empty, too long or not UTF-8.
    """
    from service.bulk.store_file import check_there
    from service.documents.query import Query
    from service.model.encoder import choose_encoder
    from service.runtime import load_collection

    query = _readable(options.query, "the query", settings)
    if settings.index == EMBEDDED:
        check_there(settings.documents_path)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    mode = options.mode or settings.default_mode
    collection = load_collection(settings, encoder.manifest, read_only=True)
    try:
        asked = Query(None if mode == "keywords" else _vector_of(query, encoder, options, settings))
        asked = dataclasses.replace(asked, words=None if mode == "dense" else query)
        for match in collection.search_all([asked], top_k=options.top_k, filter_=options.filter)[0]:
            document = match.document
            _print_json({"id": document.id, "score": match.score, "text": document.text, "metadata": document.metadata})
    finally:
        collection.close()


def rerank(options: argparse.Namespace, settings: Settings) -> None:
    """Print the lines of a file that answer a query best, one JSON line each.

    Raises: StartError: a model or the file is refused.  InvalidInput: the query or a line is empty, too long, or not
        UTF-8.
    """
    from service.bulk.lines import Lines
    from service.bulk.rerank import score_all

    query = _readable(options.query, "the query", settings)
    with Lines(options.file) as lines:
        passages = (
            _readable(lines.text(row), f"{options.file} line {lines.number(row)}", settings)
            for row in range(len(lines))
        )
        scores = score_all(query, passages, settings, windows=options.windows)
        for row in sorted(range(len(scores)), key=lambda row: -scores[row])[: options.top_k]:
            _print_json({"line": lines.number(row), "score": scores[row], "text": lines.text(row)})


def _vector_of(query: str, encoder: "Encoder", options: argparse.Namespace, settings: Settings) -> "Vectors":
    """(D,) in the space of the documents.

    Raises: InvalidInput: the model has no such prompt.
    """
    prompt = encoder.prompts.chosen(options.prompt_name, otherwise=encoder.prompts.query)
    vector_D = encoder.encode(prompt + query).vector
    return encoder.spaces.maps[settings.space](vector_D[None])[0] if settings.space else vector_D


def info(options: argparse.Namespace, settings: Settings) -> None:
    """Print the manifest without its file hashes; `kind` says whether it is an encoder or a re-ranker.

    Raises: ArtifactError: the folder is no artifact.
    """
    facts = dataclasses.asdict(load_manifest(options.folder or settings.model))
    of_encoders = OF_ENCODERS if facts["kind"] == "cross-encoder" else ()
    for name in ("files", *of_encoders):
        del facts[name]
    _print_json(facts, option=orjson.OPT_INDENT_2)


def _texts_of(given: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (name for errors, text) of each given text, or of each non-blank line of standard input.

    Raises: InvalidInput: standard input is UTF-16.
    """
    if given:
        yield from ((f"text {number}", text) for number, text in enumerate(given, start=1))
        return
    for number, line in enumerate(sys.stdin, start=1):
        if number == 1 and line.startswith(UTF16_MARKS):
            raise InvalidInput("standard input is UTF-16 by its byte-order mark; crosslet reads UTF-8")
        if line.strip():
            yield f"standard input line {number}", line.rstrip("\r\n")


def _readable(text: str, name: str, settings: Settings) -> str:
    """Return the text if it is within HTTP's limits and was UTF-8: Python decodes other bytes to lone surrogates."""
    if not text:
        raise InvalidInput(f"{name} is empty; every text needs at least one character")
    if len(text) > settings.max_text_chars:
        raise InvalidInput(
            f"{name} has {len(text)} characters; the limit is {settings.max_text_chars} (CROSSLET_MAX_TEXT_CHARS)"
        )
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{name} is not valid UTF-8") from exc
    return text


def _print_json(value: object, option: int = 0) -> None:
    sys.stdout.write(orjson.dumps(value, option=option | orjson.OPT_SERIALIZE_NUMPY).decode() + "\n")
