"""`crosslet index ...`: commands on an existing local store. Heavy modules are imported when used."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from service.cli.arguments import COLLECTION, ENGINE, OUT, Subcommand, argument, json_option, local_store, positive
from service.cli.index_load import BUILD, IMPORT
from service.cli.start_trial import Use
from service.cli.table import print_json, wants_table
from service.documents.names import DEFAULT_NAME
from service.errors import StartError, StoreError, StoreInUse
from service.settings import Settings

REPORT_PAGE = Path("index-report.html")
REPORT_SAMPLE = 2000
LANGUAGE_FIELD = "lang"

if TYPE_CHECKING:
    from service.documents.report_file import Summary


def export_store(options: argparse.Namespace, settings: Settings) -> None:
    """Write every document, or every truncated one, as a line of JSON. A service may use the store meanwhile.

    Raises: StartError: there is no store, or it cannot be read.  StorageFull: the output does not fit on the disk.
    """
    from service.offline.output import progress, writing
    from service.offline.store_file import export_lines, open_store_file

    with open_store_file(local_store(settings)) as store, writing(options.out, is_private=True) as out:
        file = store.named(options.collection)
        count = file.count(truncated=options.truncated)
        with progress("export", total=count, unit="documents") as bar:
            for line in export_lines(file, vectors=options.vectors == "base64", truncated=options.truncated):
                out.write(line)
                bar.update()


def print_stats(options: argparse.Namespace, settings: Settings) -> None:
    """Print what the store holds.

    Raises: StartError: there is no store, or it cannot be read.
    """
    from service.offline.store_file import stats

    print_json(dataclasses.asdict(stats(local_store(settings), options.collection)), option=orjson.OPT_INDENT_2)


def verify_store(_: argparse.Namespace, settings: Settings) -> None:
    """Check every document.

    Raises: StoreError: the store is damaged; standard error has one line for each kind of fault.
    """
    from service.offline.output import progress
    from service.offline.repair import verify
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    with open_store_file(path) as file:
        count = file.total()
        with progress("verify", total=count, unit="documents") as bar:
            faults = verify(file, advance=bar.update)
    for sentence in faults:
        sys.stderr.write(f"{sentence}\n")
    if faults:
        raise StoreError(f"document store {path} has faults of {len(faults)} kinds")
    sys.stderr.write(f"{path}: {count} documents are intact\n")


def compact_store(_: argparse.Namespace, settings: Settings) -> None:
    """Free the disk space of deleted documents, and print the bytes before and after.

    Raises: StartError: there is no store, or a service is using it.
    """
    from service.offline.repair import compact

    print_json(dataclasses.asdict(compact(local_store(settings))), option=orjson.OPT_INDENT_2)


def repair_store(options: argparse.Namespace, settings: Settings) -> None:
    """Recompute damaged vectors from their texts; name documents whose text is damaged or cannot be embedded.

    Raises: StartError: the model or the store is refused, or a service is using it.
        StoreError: some documents stay damaged.
    """
    from service.documents.document import named
    from service.documents.names import where
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.offline.embedding import stored_engine
    from service.offline.output import progress
    from service.offline.repair import repair
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    stored = stored_as(encoder.manifest, settings.space)
    with open_store_file(path) as file:
        count = file.total()
    with progress("repair", total=count, unit="documents") as bar:
        done = repair(
            path,
            stored_engine(options.engine, encoder, settings, prompt=encoder.prompts.document),
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


def reembed_store(options: argparse.Namespace, settings: Settings) -> None:
    """Re-embed the store with the current model. A running service keeps the old store until it restarts.

    Raises: StartError: the model or the store is refused, or the user interrupts.
        InferenceFailed: the model failed on some documents, named on standard error; the old store stays.
    """
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.offline.embedding import stored_engine
    from service.offline.output import progress, tell
    from service.offline.reembed import Reembedding
    from service.offline.store_file import open_store_file

    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    path = local_store(settings)
    stored = stored_as(encoder.manifest, settings.space)
    work = Reembedding(
        path, fingerprint=stored.fingerprint, dim=stored.dim, split=encoder.splitter.split, on_failed=tell
    )
    engine = stored_engine(options.engine, encoder, settings, prompt=encoder.prompts.document)
    with open_store_file(path) as file:
        count = file.total()
    with progress("re-embed", total=count, unit="documents") as bar:
        try:
            done = work.copy(engine, advance=lambda read, _: bar.update(read - bar.n))
        except KeyboardInterrupt as exc:
            raise StartError("stopped; run the same command again to continue") from exc
    sys.stderr.write(f"{done}\n")
    try:
        work.take_over(engine)
    except StoreInUse:
        sys.stderr.write(
            f"the vectors of {encoder.manifest.name} are ready. The service goes on with the old ones; start it anew "
            f"with CROSSLET_MODEL={settings.model}: it embeds what changed meanwhile, and takes them over\n"
        )
        return
    sys.stderr.write(f"{path} now has the vectors of {encoder.manifest.name}\n")


def back_up_store(options: argparse.Namespace, settings: Settings) -> None:
    """Copy the store to one file. A service may be writing the store meanwhile.

    Raises: StartError: there is no store, or the file cannot be written.  StorageFull: the file does not fit.
    """
    from service.offline.backup import write_backup
    from service.offline.output import progress

    store = local_store(settings)
    with progress("backup", total=None, unit="B") as bar:

        def advance(done_bytes: int, all_bytes: int) -> None:
            bar.total = all_bytes
            bar.update(done_bytes - bar.n)

        done = write_backup(store, options.file, advance=advance)
    sys.stderr.write(f"{options.file}: {done.documents} documents, revision {done.revision}, {done.size_bytes} bytes\n")


def restore_store(options: argparse.Namespace, settings: Settings) -> None:
    """Verify a backup and put it in the store's place. No service may have the store open.

    Raises: StartError: the backup is damaged or missing, a store is in its way, or a process has it open.
    """
    from service.offline.backup import restore
    from service.offline.output import progress

    store = local_store(settings)
    with progress("verify", total=None, unit="documents") as bar:
        done = restore(options.file, store, force=options.force, advance=bar.update)
    sys.stderr.write(
        f"{store} has {done.documents} documents of model {done.fingerprint[:12]} at revision {done.revision}\n"
    )


def report(options: argparse.Namespace, settings: Settings) -> None:
    """Measure a collection and write a page. A service may use the store meanwhile.

    Of the default collection the summary is also kept beside the store, for GET /info.

    Raises: StartError: the model or the store is refused, or there is no such collection, or it has too few documents.
        StorageFull: the disk is full.
    """
    from service.documents.live_index import IndexMaintenance
    from service.documents.store.catalog import unknown
    from service.documents.store.store import DocumentStore
    from service.documents.vectors.snapshots import SnapshotFolder
    from service.model.encoder import choose_encoder
    from service.model.spaces import stored_as
    from service.offline.embedding import stored_engine
    from service.offline.output import progress, writing
    from service.offline.report import measure
    from service.offline.report_page import html
    from service.offline.store_file import check_there

    path = local_store(settings)
    check_there(path)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    stored = stored_as(encoder.manifest, settings.space)
    engine = stored_engine("threads", encoder, settings, prompt=encoder.prompts.query)
    with writing(options.out, is_private=True) as out:
        store = DocumentStore(path, fingerprint=stored.fingerprint, dim=stored.dim, read_only=True)
        try:
            number = store.catalog.number_of(options.collection)
            if number is None:
                raise unknown(options.collection, [row.name for row in store.catalog.listed()], path)
            store.select(number)
            snapshots = SnapshotFolder(settings.data, fingerprint=stored.fingerprint, collection=number, read_only=True)
            index = IndexMaintenance(
                store, dim=stored.dim, snapshots=snapshots, exact_rows=settings.exact_documents
            ).load()
            with store.snapshot() as snapshot, progress("report", total=snapshot.count(), unit="documents") as bar:
                measured = measure(
                    snapshot,
                    index,
                    encoder,
                    engine,
                    fingerprint=stored.fingerprint,
                    most=options.sample,
                    field=options.language_field,
                    advance=bar.update,
                )
        finally:
            store.close()
        out.write(html(measured, collection=options.collection).encode())
    _print(measured.summary, options)
    if options.collection == DEFAULT_NAME:
        _keep(measured.summary, settings.data)
    sys.stderr.write(f"crosslet: wrote {options.out}\n")


def _keep(summary: "Summary", folder: Path) -> None:
    from service.documents.report_file import write_summary

    try:
        write_summary(folder, summary)
    except OSError as exc:
        sys.stderr.write(f"crosslet: GET /info will not show it: {folder} cannot be written ({exc.strerror})\n")


def _print(summary: "Summary", options: argparse.Namespace) -> None:
    if not wants_table(options):
        print_json(dataclasses.asdict(summary))
        return
    least = summary.min_scores.get("all")
    lines = [
        ("documents", f"{summary.documents:,}, of which {summary.sampled:,} drawn"),
        ("recall of the index", f"{summary.recall:.1%}"),
        ("own document in the first ten", f"{summary.found:.1%}"),
        ("suggested min_score", "too few documents" if least is None else f"{least:.2f}"),
        ("widest bias by language", f"{summary.language_bias:.3f}"),
        ("hubs", str(summary.hubs)),
        ("documents cut", f"{summary.cut:.1%}"),
    ]
    width = max(len(name) for name, _ in lines)
    sys.stdout.write("".join(f"{name:<{width}}  {value}\n" for name, value in lines))
    sys.stdout.flush()


INDEX_SUBCOMMANDS = {
    "index build": BUILD,
    "index import": IMPORT,
    "index re-embed": Subcommand(
        reembed_store, "re-embed the documents with another model (--model)", [ENGINE], Use.DOCUMENTS
    ),
    "index export": Subcommand(
        export_store,
        "write every document as a line of JSON",
        [
            OUT,
            COLLECTION,
            argument(
                "--truncated", action="store_true", help="only documents of which the model read only the beginning"
            ),
            argument("--vectors", choices=["base64"], help="include the vectors: base64 of little-endian float32"),
        ],
    ),
    "index stats": Subcommand(print_stats, "print what the document store holds", [COLLECTION]),
    "index report": Subcommand(
        report,
        "measure how well these documents are found, and write a page",
        [
            argument(
                "--out",
                type=Path,
                metavar="FILE",
                default=REPORT_PAGE,
                help=f"page to write (default: {REPORT_PAGE})",
            ),
            argument(
                "--language-field",
                metavar="NAME",
                default=LANGUAGE_FIELD,
                help="metadata field with a document's language; without it, its script counts "
                f"(default: {LANGUAGE_FIELD})",
            ),
            argument(
                "--sample",
                type=positive,
                default=REPORT_SAMPLE,
                help=f"documents to draw and to ask with (default: {REPORT_SAMPLE})",
            ),
            COLLECTION,
            json_option(otherwise="text"),
        ],
        Use.DOCUMENTS,
    ),
    "index verify": Subcommand(verify_store, "check the document store"),
    "index repair": Subcommand(repair_store, "recompute damaged vectors", [ENGINE], Use.DOCUMENTS),
    "index backup": Subcommand(
        back_up_store,
        "back up the documents to one file",
        [argument("file", type=Path, metavar="FILE", help="file to write; an existing one is replaced at the end")],
    ),
    "index restore": Subcommand(
        restore_store,
        "replace the documents by a backup",
        [
            argument("file", type=Path, metavar="FILE", help="backup from `index backup` or POST /backup"),
            argument("--force", action="store_true", help="replace existing documents"),
        ],
    ),
    "index compact": Subcommand(compact_store, "free the disk space of deleted documents"),
}
