"""`crosslet search` and `crosslet rerank`. Heavy modules are imported when used."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from service.cli.arguments import (
    COLLECTION,
    DEFAULT,
    Subcommand,
    argument,
    json_object,
    json_option,
    positive,
    prompt_option,
    readable,
    readable_query,
)
from service.cli.start_trial import Use
from service.cli.table import described, print_json, table, terminal_columns, wants_table
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME, Mode
from service.settings import Settings
from service.spelling import did_you_mean

if TYPE_CHECKING:
    from service.documents.interface import Match


def search(options: argparse.Namespace, settings: Settings) -> None:
    """Print the documents that answer a query: a table, or one JSON line each. Says so if there is none.

    Raises: InvalidInput: the query is empty, too long or not UTF-8, or the model has no such prompt.
    """
    from service.document_index import load_collection
    from service.documents.interface import Query
    from service.model.encoder import choose_encoder
    from service.offline.store_file import check_there

    query = readable_query(options.query, settings)
    if settings.index == EMBEDDED:
        check_there(settings.documents_path)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    mode = options.mode or settings.default_mode
    with closing(load_collection(settings, encoder.manifest, name=options.collection, read_only=True)) as collection:
        vector_D = None
        if mode != "keywords":
            prompt = encoder.prompts.chosen(options.prompt_name, otherwise=encoder.prompts.query)
            vector_D = encoder.encode(prompt + query).vector
            if settings.space:
                vector_D = encoder.spaces.maps[settings.space](vector_D[None])[0]
        asked = Query(vector_D, None if mode == "dense" else query)
        (matches,) = collection.search_all([asked], top_k=options.top_k, filter_=options.filter)
    _print_matches(matches, as_table=wants_table(options))
    if not matches:
        sys.stderr.write(f"crosslet: {_no_match(options, mode, settings)}\n")


def rerank(options: argparse.Namespace, settings: Settings) -> None:
    """Print the lines of a file that answer a query best: a table, or one JSON line each.

    Raises: InvalidInput: the query or a line is empty, too long, or not UTF-8.
    """
    from service.documents.readers.jsonl import Lines
    from service.offline.rerank import score_all

    query = readable_query(options.query, settings)
    with Lines(options.file) as lines:
        passages = (
            readable(lines.text(row), f"{options.file} line {lines.number(row)}", settings) for row in range(len(lines))
        )
        scores = score_all(query, passages, settings, windows=options.windows)
        best = sorted(range(len(scores)), key=lambda row: -scores[row])[: options.top_k]
        if wants_table(options):
            rows = [(f"{scores[row]:.3f}", str(lines.number(row)), lines.text(row)) for row in best]
            sys.stdout.write(table(("score", "line", "text"), rows, columns=terminal_columns()))
            return
        for row in best:
            print_json({"line": lines.number(row), "score": scores[row], "text": lines.text(row)})


def _print_matches(matches: Sequence["Match"], *, as_table: bool) -> None:
    if not as_table:
        for match in matches:
            document = match.document
            line = {"id": document.id, "score": match.score, "text": document.text, "metadata": document.metadata}
            if (part := match.passage) is not None:
                line["passage"] = {"text": part.text, "start": part.start, "end": part.stop}
            print_json(line)
    elif matches:
        rows = [
            (
                f"{match.score:.3f}",
                match.document.id,
                described(match.document.metadata),
                match.document.text if match.passage is None else match.passage.text,
            )
            for match in matches
        ]
        sys.stdout.write(table(("score", "id", "metadata", "text"), rows, columns=terminal_columns()))


def _no_match(options: argparse.Namespace, mode: Mode, settings: Settings) -> str:
    """Say why nothing was found, and what to change."""
    from service.documents.filters import fields_in
    from service.offline.store_file import open_store_file

    if settings.index == EMBEDDED:
        with open_store_file(settings.documents_path) as store:
            file = store.named(options.collection)
            if not file.count():
                which = "" if options.collection == DEFAULT_NAME else f"collection {options.collection} of "
                empty = f"{which}document store {settings.documents_path} is empty"
                return f"{empty}: load documents with `crosslet index build`"
            wanted, there = fields_in(options.filter), file.field_names() if options.filter else []
        unknown = next((name for name in wanted if name not in there), None)
        if unknown is not None:
            return f"no document matches: none has the field {unknown}{did_you_mean(unknown, there)}"
    if mode == "keywords":
        return "no document matches: none has a word of the query; --mode hybrid also finds by meaning"
    return "no document matches the filter" if options.filter else "no document matches"


SEARCH = Subcommand(
    search,
    "search the documents, without a server",
    [
        argument("query", metavar="QUERY", help="text to search for, in any language of the model"),
        argument("--top-k", type=positive, default=10, metavar="N", help=f"number of documents {DEFAULT}"),
        argument("--filter", type=json_object, metavar="JSON", help="""on the metadata, such as '{"lang": "de"}'"""),
        argument(
            "--mode",
            choices=get_args(Mode),
            help="by meaning, by words or by both (default: CROSSLET_SEARCH_MODE, else hybrid; with Milvus dense)",
        ),
        COLLECTION,
        json_option(),
        prompt_option("the one named query, if any"),
    ],
    Use.DOCUMENTS,
)
RERANK = Subcommand(
    rerank,
    "put the lines of a file in order by how well they answer a query",
    [
        argument("query", metavar="QUERY", help="query, in any language of the model"),
        argument("file", type=Path, metavar="FILE", help="one passage a line, or .jsonl with a text in each"),
        argument("--top-k", type=positive, default=10, metavar="N", help=f"number of passages {DEFAULT}"),
        argument("--windows", action="store_true", help="score a long passage by the best of its windows"),
        json_option(),
    ],
    Use.RERANK,
)
