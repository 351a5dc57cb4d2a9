"""`crosslet index report`. Heavy modules are imported when used."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.arguments import collection_argument, local_store, positive
from service.cli.table import json_argument, print_json, wants_table
from service.documents.names import DEFAULT_NAME
from service.settings import Settings

if TYPE_CHECKING:
    from service.documents.report_file import Summary

PAGE = Path("index-report.html")
SAMPLE = 2000
FIELD = "lang"


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
                raise unknown(options.collection, [one.name for one in store.catalog.listed()], path)
            store.select(number)
            snapshots = SnapshotFolder(settings.data, fingerprint=stored.fingerprint, collection=number, read_only=True)
            index = IndexMaintenance(
                store, dim=stored.dim, snapshots=snapshots, exact_rows=settings.exact_documents
            ).load()
            with store.snapshot() as snapshot, progress("report", total=snapshot.count(), unit="documents") as bar:
                found = measure(
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
        out.write(html(found, collection=options.collection).encode())
    _print(found.summary, options)
    if options.collection == DEFAULT_NAME:
        _keep(found.summary, settings.data)
    sys.stderr.write(f"crosslet: wrote {options.out}\n")


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `index report`."""
    parser.add_argument("--out", type=Path, metavar="FILE", default=PAGE, help=f"page to write (default: {PAGE})")
    parser.add_argument(
        "--language-field",
        metavar="NAME",
        default=FIELD,
        help=f"metadata field with a document's language; without it, its script counts (default: {FIELD})",
    )
    parser.add_argument(
        "--sample", type=positive, default=SAMPLE, help=f"documents to draw and to ask with (default: {SAMPLE})"
    )
    collection_argument(parser)
    json_argument(parser, otherwise="text")


def _keep(summary: "Summary", folder: Path) -> None:
    from service.documents.report_file import write_summary

    try:
        write_summary(folder, summary)
    except OSError as exc:
        sys.stderr.write(f"crosslet: GET /info will not show it: {folder} cannot be written ({exc.strerror})\n")


def _print(summary: "Summary", options: argparse.Namespace) -> None:
    if not wants_table(options):
        print_json(asdict(summary))
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
