"""`crosslet serve`. Heavy modules are imported when used."""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from service.api.startup import METRICS_PORT, bound_socket, check_mcp, import_server
from service.documents.milvus.address import EMBEDDED, milvus_address
from service.process.cpus import usable_cpus
from service.process.descriptors import raise_limit
from service.process.logs import configure_logging
from service.settings import Settings, unknown_settings

if TYPE_CHECKING:  # it needs an extra
    from service.traces import Traces

ENDPOINTS = ("TRACES_ENDPOINT", "ENDPOINT")  # OTEL_EXPORTER_OTLP_..
PROTOCOL = "http/protobuf"
MALLOC_ARENAS = 2  # each heap keeps its own peak memory
# Longest wait of a worker for the GIL after a forward pass. Python's default of 5 ms is as long as one or two passes.
SWITCH_INTERVAL_S = 0.0002

logger = logging.getLogger(__name__)


def serve(_: argparse.Namespace, settings: Settings) -> None:
    """Load everything, then serve over HTTP until a signal.

    Raises: StartError: the model, the documents or a setting is refused.
    """
    gc.disable()  # most objects made here are permanent; `settle` collects the others and turns it on again
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    from service.model.encoder import choose_encoder  # here: other commands do not need ONNX Runtime
    from service.process.memory import limit_arenas

    limit_arenas(MALLOC_ARENAS)
    configure_logging(settings.log_level)
    raise_limit()
    if settings.index != EMBEDDED:
        milvus_address(settings.index)  # refuses a URL with a password, before it is logged
    if settings.mcp:
        check_mcp("CROSSLET_MCP")
    logger.info("settings", extra=settings.model_dump(mode="json"))
    for name, meant in unknown_settings().items():
        logger.warning("unknown setting has no effect", extra={"variable": name, "meant": meant})
    if not settings.keys():
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
        from service.document_index import next_store

        if settings.index == EMBEDDED and next_store(settings.documents_path).is_file():
            from service.offline.reembed import take_over_ready

            take_over_ready(choice.encoder, settings)
        from service.api.server import serve as serve_runtime
        from service.runtime import load_runtime

        runtime = load_runtime(settings, choice, traces=open_traces(os.environ))
        tell = partial(tell_terminal, settings, choice.encoder.manifest.name)
        serve_runtime(runtime, listener, metrics_listener, on_start=tell)


def open_traces(variables: Mapping[str, str]) -> "Traces | None":
    """Return where spans go, if OpenTelemetry's variables ask for traces; else None.

    They may be meant for other programs, too: what they ask that cannot be done is a warning.
    """
    exporters = {name.strip() for name in variables.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    is_asked = "otlp" in exporters or any(variables.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ENDPOINTS)
    if not is_asked or exporters == {"none"} or variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name, protocol = next(((name, variables[name]) for name in names if variables.get(name)), ("", PROTOCOL))
    if exporters and "otlp" not in exporters:
        reason = f"OTEL_TRACES_EXPORTER is {', '.join(sorted(exporters))}; the service has otlp"
    elif protocol != PROTOCOL:
        reason = f"{name} is {protocol}; the service has {PROTOCOL}"
    else:
        try:
            from service.traces import Traces
        except ModuleNotFoundError:
            reason = (
                "the extra traces is not installed: pip install --require-hashes --no-deps -r requirements/traces.txt, "
                "or the image with LOCK=traces.txt"
            )
        else:
            return Traces()
    logger.warning("no traces are sent", extra={"reason": reason})
    return None


def tell_terminal(settings: Settings, model: str, url: str) -> None:
    """Say in one line what is served, if standard output or standard error is a terminal."""
    terminal = next((stream for stream in (sys.stdout, sys.stderr) if stream.isatty()), None)
    if terminal is None:
        return
    documents = settings.documents_path if settings.index == EMBEDDED else settings.index
    page = f"page {url}{settings.root_path}/" if settings.page else f"routes {url}{settings.root_path}/docs"
    line = f"\ncrosslet serves {model} at {url}: {page}, documents in {documents}; Ctrl-C ends it\n"
    with suppress(OSError):  # the terminal was closed meanwhile: the service goes on
        terminal.write(line.encode(errors="replace").decode())  # a folder's name may be no UTF-8
        terminal.flush()
