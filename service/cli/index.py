"""`crosslet index ...`: commands on the local documents. Heavy modules are imported when used."""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from service.cli.arguments import Subcommand, collection_argument, local_store, out_argument
from service.cli.bad_lines import check_any_good, named, on_bad_line
from service.cli.column_types import types_argument, types_of
from service.cli.index_backup import backup, backup_arguments, restore, restore_arguments
from service.cli.index_import import import_arguments, import_documents
from service.cli.index_remote import build_through_service
from service.cli.index_report import report, report_arguments
from service.cli.start_trial import Use
from service.errors import InferenceFailed, StartError, StoreError, StoreInUse
from service.settings import Settings

if TYPE_CHECKING:
    from service.offline.loading import Build, Outcome


def build(options: argparse.Namespace, settings: Settings) -> None:
    """Load a file of documents into the store, or through a running service, skipping those already there.

    Raises: StartError: the model, the store or the file is refused, or the user interrupts.  InvalidInput: a bad line,
        or no good one.
        InferenceFailed: the model failed on some documents, named on standard error; the others are loaded.
    """
    if options.url is not None:
        build_through_service(options, settings)
        return
    from service.document_index import load_collection
    from service.documents.readers.sources import format_of, open_source
    from service.model.encoder import choose_encoder
    from service.offline.embedding import documents_engine
    from service.offline.loading import Build, to_document
    from service.offline.output import progress, tell

    format_ = format_of(options.file, options.format)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    with open_source(options.file, format_, types_of(options)) as source:
        try:
            collection = load_collection(settings, encoder.manifest, name=options.collection)
        except StoreInUse as exc:
            if exc.url is None:
                raise
            tell(f"the service at {exc.url} has the documents open: loading through it, as with --url {exc.url}")
            options.url = exc.url
            build_through_service(options, settings)
            return
        try:
            with progress("build", total=source.size, unit=source.unit) as bar, named(source.name):

                def advance(read: int, outcome: "Outcome") -> None:
                    bar.set_postfix_str(f"{outcome.total} documents", refresh=False)
                    bar.update(read - bar.n)

                chunk = settings.chunk if options.chunk is None else options.chunk
                split = encoder.splitter.split if collection.is_chunked(chunk) else None
                work = Build(
                    collection,
                    read=functools.partial(to_document, max_text_chars=settings.max_text_chars, split=split),
                    on_bad_line=on_bad_line(options.on_bad_line, source.name),
                    on_failed=tell,
                    advance=advance,
                )
                with _interruptible(work):
                    outcome = work.run(source.records, documents_engine(options.engine, encoder, settings))
        finally:
            collection.close()
    sys.stderr.write(f"{outcome}\n")
    check_any_good(outcome, source.name)
    if outcome.failed:
        raise InferenceFailed(
            f"{outcome.failed} documents could not be embedded; earlier versions of them stay in the store: "
            "load them again with other texts"
        )


def export(options: argparse.Namespace, settings: Settings) -> None:
    """Write every document, or every truncated one, as a line of JSON. A service may use the store meanwhile.

    Raises: StartError: there is no store, or it cannot be read.  StorageFull: the output does not fit on the disk.
    """
    from service.offline.output import progress, writing
    from service.offline.repair import export_lines
    from service.offline.store_file import open_store_file

    with (
        open_store_file(local_store(settings)) as whole,
        writing(options.out, is_private=True) as out,
        progress(
            "export", total=whole.named(options.collection).count(truncated=options.truncated), unit="documents"
        ) as bar,
    ):
        file = whole.named(options.collection)
        for line in export_lines(file, vectors=options.vectors == "base64", truncated=options.truncated):
            out.write(line)
            bar.update()


def stats(options: argparse.Namespace, settings: Settings) -> None:
    """Print what the store holds.

    Raises: StartError: there is no store, or it cannot be read.
    """
    from service.offline.repair import stats as count

    _print_json(dataclasses.asdict(count(local_store(settings), options.collection)))


def verify(_: argparse.Namespace, settings: Settings) -> None:
    """Check every document.

    Raises: StoreError: the store is damaged; standard error has one line for each kind of fault.
    """
    from service.offline.output import progress
    from service.offline.repair import verify as check
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    with open_store_file(path) as file:
        count = file.total()
        with progress("verify", total=count, unit="documents") as bar:
            faults = check(file, advance=bar.update)
    for sentence in faults:
        sys.stderr.write(f"{sentence}\n")
    if faults:
        raise StoreError(f"document store {path} has faults of {len(faults)} kinds")
    sys.stderr.write(f"{path}: {count} documents are intact\n")


def compact(_: argparse.Namespace, settings: Settings) -> None:
    """Free the disk space of deleted documents, and print the bytes before and after.

    Raises: StartError: there is no store, or a service is using it.
    """
    from service.offline.repair import compact as give_back

    _print_json(dataclasses.asdict(give_back(local_store(settings))))


def repair(options: argparse.Namespace, settings: Settings) -> None:
    """Recompute damaged vectors from their texts; name documents whose text is damaged or cannot be embedded.

    Raises: StartError: the model or the store is refused, or a service is using it.
        StoreError: some documents stay damaged.
    """
    from service.documents.store.collection_name import where
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.offline.embedding import documents_engine
    from service.offline.loading import named
    from service.offline.output import progress
    from service.offline.repair import repair as make_anew
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    stored = stored_as(encoder.manifest, settings.space)
    with open_store_file(path) as file:
        count = file.total()
    with progress("repair", total=count, unit="documents") as bar:
        done = make_anew(
            path,
            documents_engine(options.engine, encoder, settings),
            fingerprint=stored.fingerprint,
            dim=stored.dim,
            split=encoder.splitter.split,
            advance=bar.update,
        )
    sys.stderr.write(f"{path}: {done.vectors} of {count} vectors recomputed\n")
    if done.keywords:
        sys.stderr.write(f"{path}: keywords rebuilt\n")
    for name, id_ in done.lost:
        sys.stderr.write(f"{where(name)}{named(id_)}: its text or metadata are damaged\n")
    for (name, id_), error in done.failed.items():
        sys.stderr.write(f"{where(name)}{named(id_)}: {error}\n")
    damaged = len(done.lost) + len(done.failed)
    if damaged:
        raise StoreError(f"document store {path} has {damaged} damaged documents: put them again, or delete them")


def re_embed(options: argparse.Namespace, settings: Settings) -> None:
    """Re-embed the store with the current model. A service that uses the old store goes on, until it is started anew.

    Raises: StartError: the model or the store is refused, or the user interrupts.
        InferenceFailed: the model failed on some documents, named on standard error; the old store stays.
    """
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.offline.embedding import documents_engine
    from service.offline.output import progress, tell
    from service.offline.reembed import Reembedding
    from service.offline.store_file import open_store_file

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    path = local_store(settings)
    stored = stored_as(encoder.manifest, settings.space)
    work = Reembedding(
        path, fingerprint=stored.fingerprint, dim=stored.dim, split=encoder.splitter.split, on_failed=tell
    )
    engine = documents_engine(options.engine, encoder, settings)
    with open_store_file(path) as file:
        count = file.total()
    with progress("re-embed", total=count, unit="documents") as bar:

        def advance(read: int, _: "Outcome") -> None:
            bar.update(read - bar.n)

        try:
            outcome = work.copy(engine, advance=advance)
        except KeyboardInterrupt as exc:
            raise StartError("stopped; run the same command again to continue") from exc
    sys.stderr.write(f"{outcome}\n")
    try:
        work.take_over(engine)
    except StoreInUse:
        sys.stderr.write(
            f"the vectors of {encoder.manifest.name} are ready. The service goes on with the old ones; start it anew "
            f"with CROSSLET_MODEL={settings.model}: it embeds what changed meanwhile, and takes them over\n"
        )
        return
    sys.stderr.write(f"{path} now has the vectors of {encoder.manifest.name}\n")


def _engine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=["threads", "ray"],
        default="threads",
        help="how to embed: on this machine or on a Ray cluster (default: threads)",
    )


def _build_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="documents in .jsonl, .csv or .parquet; -: stdin")
    parser.add_argument("--format", choices=["jsonl", "csv", "parquet"], help="if the file's name does not tell")
    parser.add_argument(
        "--on-bad-line", choices=["stop", "skip"], default="stop", help="what to do with one (default: stop)"
    )
    parser.add_argument(
        "--chunk",
        action=argparse.BooleanOptionalAction,
        help="split long documents into passages (default: as CROSSLET_CHUNK or the store says)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="load through the running service there, like http://localhost:8080, with a key of CROSSLET_API_KEYS",
    )
    types_argument(parser)
    _engine_argument(parser)
    collection_argument(parser)


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    out_argument(parser)
    collection_argument(parser)
    parser.add_argument(
        "--truncated", action="store_true", help="only documents of which the model read only the beginning"
    )
    parser.add_argument("--vectors", choices=["base64"], help="include the vectors: base64 of little-endian float32")


INDEX_SUBCOMMANDS = {
    "index build": Subcommand(build, "load new and changed documents from a file", _build_arguments, Use.DOCUMENTS),
    "index import": Subcommand(
        import_documents,
        "load documents with vectors computed elsewhere by the same model",
        import_arguments,
        Use.DOCUMENTS,
    ),
    "index re-embed": Subcommand(
        re_embed, "re-embed the documents with another model (--model)", _engine_argument, Use.DOCUMENTS
    ),
    "index export": Subcommand(export, "write every document as a line of JSON", _export_arguments),
    "index stats": Subcommand(stats, "print what the document store holds", collection_argument),
    "index report": Subcommand(
        report, "measure how well these documents are found, and write a page", report_arguments, Use.DOCUMENTS
    ),
    "index verify": Subcommand(verify, "check the document store"),
    "index repair": Subcommand(repair, "recompute damaged vectors", _engine_argument, Use.DOCUMENTS),
    "index backup": Subcommand(backup, "back up the documents to one file", backup_arguments),
    "index restore": Subcommand(restore, "replace the documents by a backup", restore_arguments),
    "index compact": Subcommand(compact, "free the disk space of deleted documents"),
}


@contextmanager
def _interruptible(work: "Build") -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as exc:
        raise StartError(f"stopped: {work.outcome}; run the same command again to continue") from exc


def _print_json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")
