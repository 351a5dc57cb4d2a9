"""`crosslet index build` and `import`: load documents from files. Heavy modules are imported when used."""

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.arguments import COLLECTION, ENGINE, Subcommand, argument, url_option
from service.cli.start_trial import Use
from service.errors import InferenceFailed, InvalidInput, StartError, StoreInUse
from service.keys import key_for
from service.settings import Settings

if TYPE_CHECKING:
    from service.documents.document import Document, Span
    from service.documents.ingest import Report
    from service.documents.interface import DocumentIndex
    from service.documents.own_fields import OwnFields
    from service.documents.readers.records import Record
    from service.documents.readers.sources import Source
    from service.offline.loading import Load


def build(options: argparse.Namespace, settings: Settings) -> None:
    """Load a file of documents into the store, or through a running service, skipping those already there.

    Raises: InvalidInput: a bad line, or no good one.
            InferenceFailed: some documents were not stored, named on standard error; the others are loaded.
    """
    if options.url is not None:
        _build_through_service(options, settings)
        return
    from service.document_index import load_collection
    from service.offline.embedding import load_stored_model
    from service.offline.output import tell

    opened, wanted = _open(options), _wanted_fields(options)
    encoder, _, engine = load_stored_model(settings, options.engine)
    with opened as source:
        try:
            collection = load_collection(settings, encoder.manifest, name=options.collection)
        except StoreInUse as exc:
            if exc.url is None:
                raise
            tell(f"the service at {exc.url} has the documents open: loading through it, as with --url {exc.url}")
            options.url = exc.url
            _build_through_service(options, settings)
            return
        with closing(collection), _configured(collection, wanted):
            own_fields = collection.own_fields
            chunk = settings.chunk if options.chunk is None else options.chunk
            split = encoder.splitter.split if collection.is_chunked(chunk) else None
            with _loading(source, options, settings, split, own_fields) as load:
                load.run(source.records(own_fields), collection, engine)
    _finish(load.report, source.name)


@contextmanager
def _configured(collection: "DocumentIndex", wanted: "OwnFields | None") -> Iterator[None]:
    """Set what a collection takes; if it gets no document, all is as before."""
    before = collection.own_fields
    if wanted is not None:
        collection.configure(wanted)
    try:
        yield
    finally:
        if wanted is not None and not len(collection):
            collection.configure(before)


def _build_through_service(options: argparse.Namespace, settings: Settings) -> None:
    """Send a file's documents to the service at `--url`.

    Raises: StartError: the service cannot be reached, or refuses.  InvalidInput, InferenceFailed: as `build`.
    """
    from service.offline.service_client import ServiceClient

    if options.engine != "threads":
        raise InvalidInput(f"--engine {options.engine} and --url exclude each other: the service embeds")
    if options.chunk is not None:
        raise InvalidInput("--chunk and --url exclude each other: the service splits as its CROSSLET_CHUNK says")
    key = key_for(options.collection, settings.keys(), write=True)
    wanted = _wanted_fields(options)
    with ServiceClient(options.url, collection=options.collection, key=key) as client, _open(options) as source:
        if wanted is not None:
            client.configure(wanted)
        own_fields = wanted or client.own_fields()
        with _loading(source, options, settings, own_fields=own_fields) as load:
            load.run_through(client, source.records(own_fields))
    _finish(load.report, source.name)


def import_documents(options: argparse.Namespace, settings: Settings) -> None:
    """Load documents with vectors computed elsewhere, skipping documents already in the store.

    Raises: InvalidInput: a document or vector is bad, or the vectors seem to be another model's; nothing was written.
    """
    from service.document_index import load_collection
    from service.offline.embedding import load_stored_model
    from service.offline.loading import to_document
    from service.offline.output import progress
    from service.offline.vector_import import VectorImport, check_model, open_vector_file

    def read(record: "Record") -> "Document":
        return to_document(record, max_text_chars=settings.max_text_chars, own_fields=collection.own_fields)

    vectors = open_vector_file(options.vectors)
    work = VectorImport(options.documents, vectors, read=read)
    encoder, stored, engine = load_stored_model(settings)
    collection = load_collection(settings, encoder.manifest, name=options.collection)
    with closing(collection), _interruptible(work.report):
        with progress("check", total=vectors.count, unit="documents") as bar:
            samples = work.check(dim=stored.dim, advance=bar.update)
        if options.model_check:
            check_model(samples, engine, name=encoder.manifest.name)
        with progress("import", total=vectors.count, unit="documents") as bar:
            work.load(collection, advance=bar.update)
    sys.stderr.write(f"{work.report}\n")


def _wanted_fields(options: argparse.Namespace) -> "OwnFields | None":
    """Return the settings of the collection that the options name. Raises: InvalidInput: they are malformed."""
    from service.documents.own_fields import OwnFields

    fields = None if options.fields is None else [name.strip() for name in options.fields.split(",") if name.strip()]
    return None if options.text is None and fields is None else OwnFields.parsed(options.text, fields)


def _open(options: argparse.Namespace) -> "AbstractContextManager[Source]":
    """Raises: InvalidInput: the format is unknown, or the types are malformed."""
    from service.documents.readers.csv_table import column_types
    from service.documents.readers.sources import format_of, open_source
    from service.offline.output import tell

    types = None if options.types is None else column_types(options.types, tell)
    return open_source(options.file, format_of(options.file, options.format), types)


@contextmanager
def _loading(
    source: "Source",
    options: argparse.Namespace,
    settings: Settings,
    split: "Callable[[str], tuple[Span, ...]] | None" = None,
    own_fields: "OwnFields | None" = None,
) -> Iterator["Load"]:
    """Show the progress of a load. Errors about a line begin with the file's name."""
    from service.offline.loading import Load, to_document
    from service.offline.output import progress, tell

    def on_bad_line(sentence: str) -> None:
        if options.on_bad_line == "stop":
            raise InvalidInput(f"{sentence} (skip bad lines with --on-bad-line skip)")
        tell(f"skipped {source.name}: {sentence}")

    with progress("build", total=source.size, unit=source.unit) as bar:

        def advance(read: int, report: "Report") -> None:
            bar.set_postfix_str(f"{report.total} documents", refresh=False)
            bar.update(read - bar.n)

        limit = settings.max_text_chars
        read = functools.partial(to_document, max_text_chars=limit, split=split, own_fields=own_fields)
        load = Load(read, on_bad_line, tell, advance)
        try:
            with _interruptible(load.report):
                yield load
        except InvalidInput as exc:
            raise exc.at(f"{source.name}:") from exc


@contextmanager
def _interruptible(report: "Report") -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as exc:
        raise StartError(f"stopped: {report}; run the same command again to continue") from exc


def _finish(report: "Report", name: str) -> None:
    """Write the counts. Raises: InvalidInput: every line was skipped.  InferenceFailed: some were not stored."""
    sys.stderr.write(f"{report}\n")
    if report.skipped and not (report.total or report.failed):
        raise InvalidInput(f"{name}: none of its {report.skipped} lines is a document; is it of another format?")
    if report.failed:
        raise InferenceFailed(
            f"{report.failed} documents were not stored; earlier versions of them stay: load them with other texts"
        )


BUILD = Subcommand(
    build,
    "load new and changed documents from a file",
    [
        argument("file", type=Path, metavar="FILE", help="documents in .jsonl, .csv or .parquet; -: stdin"),
        argument("--format", choices=["jsonl", "csv", "parquet"], help="if the file's name does not tell"),
        argument("--on-bad-line", choices=["stop", "skip"], default="stop", help="what to do with one (default: stop)"),
        argument(
            "--chunk",
            action=argparse.BooleanOptionalAction,
            help="split long documents into passages (default: as CROSSLET_CHUNK or the store says)",
        ),
        url_option("load through the running service there, like http://localhost:8080"),
        argument(
            "--types",
            metavar="TYPES",
            help="of a CSV: COLUMN=TYPE,.. with text, int, float, bool, json; auto: by the first rows (default: text)",
        ),
        argument("--text", metavar="TEMPLATE", help="a text of documents' own fields: '{title}. {maker}'"),
        argument("--fields", metavar="NAME,..", help="fields to keep beside those of --text (default: all)"),
        ENGINE,
        COLLECTION,
    ],
    Use.DOCUMENTS,
)
IMPORT = Subcommand(
    import_documents,
    "load documents with vectors computed elsewhere by the same model",
    [
        argument("documents", type=Path, metavar="DOCUMENTS", help="JSON lines, as for index build"),
        argument(
            "vectors",
            type=Path,
            metavar="VECTORS",
            help="this model's, one for each line in order: .npy of float32 or float16, or a flat FAISS index",
        ),
        argument(
            "--no-model-check",
            dest="model_check",
            action="store_false",
            help="do not embed some of the texts to see whether the vectors are this model's",
        ),
        COLLECTION,
    ],
    Use.DOCUMENTS,
)
