"""`crosslet index ...`: commands on an existing local store. Heavy modules are imported when used."""

import argparse
import dataclasses
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from service.cli.arguments import (
    COLLECTION,
    DEFAULT,
    ENGINE,
    OUT,
    Subcommand,
    argument,
    json_option,
    local_store,
    positive,
    readable,
    running_service,
)
from service.cli.index_load import BUILD, IMPORT
from service.cli.start_trial import Use
from service.cli.table import print_json, wants_table
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME
from service.errors import InferenceFailed, InvalidInput, StartError, StoreError, StoreInUse
from service.keys import key_for
from service.settings import Settings

if TYPE_CHECKING:
    from service.documents.recalibration import Recalibration
    from service.offline.report import Report
    from service.offline.report_questions import QuestionReport


def export_store(options: argparse.Namespace, settings: Settings) -> None:
    """Write every document, or every truncated one, as a line of JSON. A service may use the store meanwhile."""
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
    """Print what the store and one of its collections hold. A passage is a vector."""
    from service.offline.store_file import check_there, open_store_file, size_on_disk

    path = local_store(settings)
    check_there(path)
    size_bytes = size_on_disk(path)  # reading adds files of its own
    with open_store_file(path) as store:
        file = store.named(options.collection)
        own = file.own_fields
        facts = {
            "documents": file.count(),
            "passages": file.passages(),
            "truncated": file.count(truncated=True),
            "collections": {row.name: row.documents for row in file.collections()},
            "size_bytes": size_bytes,
            "fingerprint": file.fingerprint,
            "dim": file.dim,
            "revision": file.revision,
            "schema_version": file.schema_version,
            "languages": file.languages(),
            "text": None if own is None else own.text,
            "fields": None if own is None else own.fields,
        }
    print_json(facts, option=orjson.OPT_INDENT_2)


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
    sys.stderr.writelines(f"{sentence}\n" for sentence in faults)
    if faults:
        raise StoreError(f"document store {path} has faults of {len(faults)} kinds")
    sys.stderr.write(f"{path}: {count} documents are intact\n")


def compact_store(_: argparse.Namespace, settings: Settings) -> None:
    """Free the disk space of deleted documents, and print the bytes before and after."""
    from service.offline.repair import compact

    before_bytes, after_bytes = compact(local_store(settings))
    print_json({"before_bytes": before_bytes, "after_bytes": after_bytes}, option=orjson.OPT_INDENT_2)


def repair_store(options: argparse.Namespace, settings: Settings) -> None:
    """Recompute damaged vectors from their texts; name documents whose text is damaged or cannot be embedded.

    Raises: StoreError: some documents stay damaged.
    """
    from service.documents.document import named
    from service.documents.names import where
    from service.offline.embedding import load_stored_model
    from service.offline.output import progress
    from service.offline.repair import Repair
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    encoder, stored, engine = load_stored_model(settings, options.engine)
    with open_store_file(path) as file:
        count = file.total()
    with progress("repair", total=count, unit="documents") as bar:
        repair = Repair(engine, encoder.splitter.split, bar.update)
        repair.run(path, fingerprint=stored.fingerprint, dim=stored.dim)
    sys.stderr.write(f"{path}: {repair.vectors} of {count} vectors recomputed\n")
    if repair.keywords:
        sys.stderr.write(f"{path}: keywords rebuilt\n")
    faults = [*((key, "its text or metadata are damaged") for key in repair.lost), *repair.failed.items()]
    for (name, id_), fault in faults:
        sys.stderr.write(f"{where(name)}{named(id_)}: {fault}\n")
    if faults:
        raise StoreError(f"document store {path} has {len(faults)} damaged documents: put them again, or delete them")


def reembed_store(options: argparse.Namespace, settings: Settings) -> None:
    """Re-embed the store with the current model. A running service keeps the old store until it restarts.

    Raises: InferenceFailed: the model failed on some documents, named on standard error; the old store stays.
    """
    if settings.index != EMBEDDED:
        _reembed_in_milvus(options, settings)
        return
    if options.from_model is not None:
        raise InvalidInput("--from names a model in Milvus; the local store has one alone")
    from service.offline.embedding import load_stored_model
    from service.offline.output import progress, tell
    from service.offline.reembed import Reembedding
    from service.offline.store_file import open_store_file

    path = local_store(settings)
    encoder, stored, engine = load_stored_model(settings, options.engine)
    split, model = encoder.splitter.split, encoder.manifest.name
    work = Reembedding(path, fingerprint=stored.fingerprint, dim=stored.dim, split=split, on_failed=tell)
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
            f"the vectors of {model} are ready. The service goes on with the old ones; start it anew "
            f"with CROSSLET_MODEL={settings.model}: it embeds what changed meanwhile, and takes them over\n"
        )
        return
    sys.stderr.write(f"{path} now has the vectors of {model}\n")


def _reembed_in_milvus(options: argparse.Namespace, settings: Settings) -> None:
    """Embed the documents of another model with the current one; those stay, in collections of their own."""
    from typing import cast

    from service.document_index import load_collections
    from service.documents.milvus.collections import MilvusCollections
    from service.offline.copying import reembed
    from service.offline.embedding import load_stored_model
    from service.offline.output import progress, tell

    encoder, stored, engine = load_stored_model(settings, options.engine)
    with closing(cast(MilvusCollections, load_collections(settings, stored))) as target:
        source = target.of_other_model(options.from_model)
        with progress("re-embed", total=int(source.count()), unit="documents") as bar:
            done = reembed(
                source,
                target,
                engine,
                split=encoder.splitter.split,
                on_failed=tell,
                advance=lambda read, _: bar.update(read - bar.n),
            )
    sys.stderr.write(f"{done}\n")
    if done.failed:
        raise InferenceFailed(
            f"{done.failed} documents are missing; put them with other texts, then repeat the command"
        )
    sys.stderr.write(
        f"start the services anew with CROSSLET_MODEL={settings.model}; repeat the command for what changed meanwhile\n"
    )


def copy_store(options: argparse.Namespace, settings: Settings) -> None:
    """Copy all collections to the other engine. No service may have the local store open.

    Raises: InvalidInput: both are one.  And what `copying.copy` does.
    """
    from service.document_index import load_collections
    from service.model.encoder import choose_encoder
    from service.offline.copying import copy
    from service.offline.output import progress

    if options.target == settings.index:
        raise InvalidInput("the documents are there already: CROSSLET_INDEX names where they are, TARGET another place")
    manifest = choose_encoder(settings.model, settings.fallback_model).encoder.manifest
    other = Settings.model_validate({**settings.model_dump(), "index": options.target})
    with (
        closing(load_collections(settings, manifest)) as source,
        closing(load_collections(other, manifest)) as target,
        progress("copy", total=int(source.count()), unit="documents") as bar,
    ):
        new = copy(source, target, advance=bar.update)
        count = int(target.count())
    sys.stderr.write(f"{options.target} has {count} documents, {new} of them new\n")


def back_up_store(options: argparse.Namespace, settings: Settings) -> None:
    """Copy the store to one file. A service may be writing the store meanwhile."""
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
    """Verify a backup and put it in the store's place. No service may have the store open."""
    from service.offline.backup import restore
    from service.offline.output import progress

    store = local_store(settings)
    with progress("verify", total=None, unit="documents") as bar:
        done = restore(options.file, store, force=options.force, advance=bar.update)
    model = done.fingerprint[:12]
    sys.stderr.write(f"{store} has {done.documents} documents of model {model} at revision {done.revision}\n")


def report(options: argparse.Namespace, settings: Settings) -> None:
    """Measure a collection and write a page. A service may use the store meanwhile.

    Of the default collection the summary is also kept beside the store, for GET /info.

    Raises: InvalidInput: the questions are malformed, `--keep` has none, or the documents are in Milvus and there are
            no questions.
    """
    from service.documents.report_file import write_summary
    from service.offline.output import writing
    from service.offline.report import headline
    from service.offline.report_page import html
    from service.offline.report_questions import question_facts

    if options.keep and options.queries is None:
        raise InvalidInput("--keep keeps what questions say; give them with --queries FILE")
    if options.queries is None or settings.index == EMBEDDED:
        from service.offline.store_file import check_there

        check_there(local_store(settings))
    with writing(options.out, is_private=True) as out:
        asked = None if options.queries is None else _asked(options, settings)
        measured = _measured(options, settings) if settings.index == EMBEDDED else None
        out.write(html(measured, asked, collection=options.collection).encode())
    summary = None if measured is None else measured.summary
    if wants_table(options):
        facts = {} if summary is None else headline(summary)
        facts |= {} if asked is None else question_facts(asked)
        width = max(map(len, facts))
        sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in facts.items())
        sys.stdout.flush()
    else:
        whole = {} if summary is None else dataclasses.asdict(summary)
        print_json(whole | ({} if asked is None else {"questions": dataclasses.asdict(asked)}))
    if summary is not None and options.collection == DEFAULT_NAME:
        try:
            write_summary(settings.data, summary)
        except OSError as exc:
            reason = f"{settings.data} cannot be written ({exc.strerror})"
            sys.stderr.write(f"crosslet: GET /info will not show it: {reason}\n")
    sys.stderr.write(f"crosslet: wrote {options.out}\n")
    if options.keep:
        _keep(asked.recalibration if asked else None, options.collection, settings)


def _measured(options: argparse.Namespace, settings: Settings) -> "Report":
    from service.document_index import read_collection
    from service.offline.embedding import load_stored_model
    from service.offline.output import progress
    from service.offline.report import measure

    encoder, stored, engine = load_stored_model(settings, for_queries=True)
    with (
        read_collection(settings, encoder.manifest, options.collection) as (snapshot, index),
        progress("report", total=snapshot.count(), unit="documents") as bar,
    ):
        return measure(
            snapshot,
            index,
            encoder,
            engine,
            fingerprint=stored.fingerprint,
            most=options.sample,
            field=options.language_field,
            advance=bar.update,
        )


def _asked(options: argparse.Namespace, settings: Settings) -> "QuestionReport":
    """Ask the questions of a file, in the service's mode. Raises: InvalidInput: its searches have no confidence."""
    from service.document_index import load_collection
    from service.offline.embedding import load_stored_model
    from service.offline.output import progress
    from service.offline.report_questions import measure_questions, read_questions

    if settings.space:
        raise InvalidInput(
            f"confidence was measured in the model's own space, not in {settings.space} (CROSSLET_SPACE)"
        )
    if settings.search_mode == "keywords":
        raise InvalidInput("searches by words alone have no confidence: set CROSSLET_SEARCH_MODE to hybrid or dense")
    questions = read_questions(options.queries, lambda text, where: readable(text, where, settings))
    encoder, _, engine = load_stored_model(settings, for_queries=True)
    with (
        closing(load_collection(settings, encoder.manifest, name=options.collection, read_only=True)) as index,
        progress("ask", total=len(questions), unit="questions") as bar,
    ):
        kept = index.recalibration
        share = kept.expected_answerable if kept else None
        share = settings.expected_answerable if share is None else share
        with_words = index.has_keywords and settings.search_mode != "dense"
        return measure_questions(
            index, questions, encoder.manifest, engine, with_words=with_words, answerable=share, advance=bar.update
        )


def _keep(recalibration: "Recalibration | None", collection: str, settings: Settings) -> None:
    """Keep a recalibration with the collection: by the service that has the store open, or in the store."""
    from service.document_index import load_collection
    from service.model.encoder import choose_encoder
    from service.offline.service_client import ServiceClient

    if recalibration is None:
        raise StartError("nothing is kept: the questions say neither how many have an answer nor which are right")
    url = running_service(settings)
    if url is not None:
        key = key_for(collection, settings.keys(), write=True)
        with ServiceClient(url, collection=collection, key=key) as client:
            client.recalibrate(recalibration)
    else:
        manifest = choose_encoder(settings.model, settings.fallback_model).encoder.manifest
        with closing(load_collection(settings, manifest, name=collection)) as index:
            index.recalibrate(recalibration)
    sys.stderr.write(f"crosslet: collection {collection} keeps the recalibration\n")


INDEX_SUBCOMMANDS = {
    "index build": BUILD,
    "index import": IMPORT,
    "index re-embed": Subcommand(
        reembed_store,
        "re-embed the documents with another model (--model)",
        [
            ENGINE,
            argument(
                "--from",
                dest="from_model",
                metavar="MODEL",
                help="with Milvus: the old model, 16 digits of fingerprint",
            ),
        ],
        Use.DOCUMENTS,
    ),
    "index export": Subcommand(
        export_store,
        "write every document as a line of JSON",
        [
            OUT,
            COLLECTION,
            argument("--truncated", action="store_true", help="only documents longer than the model reads"),
            argument("--vectors", choices=["base64"], help="include the vectors: base64 of little-endian float32"),
        ],
    ),
    "index copy": Subcommand(
        copy_store,
        "copy all collections between the local store and Milvus",
        [argument("target", metavar="TARGET", help="embedded, or milvus://host:19530/database: as CROSSLET_INDEX")],
        Use.DOCUMENTS,
    ),
    "index stats": Subcommand(print_stats, "print what the document store holds", [COLLECTION]),
    "index report": Subcommand(
        report,
        "measure how well these documents are found, and write a page",
        [
            argument("--out", type=Path, metavar="FILE", default="index-report.html", help=f"page to write {DEFAULT}"),
            argument(
                "--language-field",
                metavar="NAME",
                default="lang",
                help=f"metadata field with a document's language; without it, its script counts {DEFAULT}",
            ),
            argument("--queries", type=Path, metavar="FILE", help='JSON lines: {"query": "...", "ids": ["..."]}'),
            argument("--keep", action="store_true", help="let the collection keep the recalibration by --queries"),
            argument("--sample", type=positive, default=2000, help=f"documents to draw and to ask with {DEFAULT}"),
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
