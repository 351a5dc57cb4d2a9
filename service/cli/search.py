"""`crosslet search` and `crosslet rerank`. Heavy modules are imported when used."""

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, get_args

from service.cli.arguments import (
    COLLECTION,
    DEFAULT,
    PATIENCE_S,
    URL,
    Subcommand,
    argument,
    finite,
    json_object,
    json_option,
    positive,
    prompt_option,
    readable,
    readable_query,
    running_service,
    utf8,
)
from service.cli.start_trial import Use
from service.cli.table import described, one_line, print_json, table, terminal_columns, wants_table
from service.documents.milvus.address import EMBEDDED
from service.documents.names import DEFAULT_NAME, Mode
from service.errors import InvalidInput, StartError
from service.keys import key_for
from service.settings import Settings
from service.spelling import did_you_mean


def search(options: argparse.Namespace, settings: Settings) -> None:
    """Print the documents that answer a query: a table, or one JSON line each. Says so if there is none.

    A running service that has the documents is asked, otherwise the same route in this process.

    Raises: InvalidInput: the query is empty, too long or not UTF-8, or an option is refused.
            StartError: the service at `--url` cannot be asked, or there are no documents here.
    """
    from service.api.schemas.search import SearchRequest
    from service.offline.service_client import ServiceClient

    body = {name: value for name, value in vars(options).items() if name in SearchRequest.model_fields}
    body = {name: value for name, value in body.items() if value is not None and value is not False}
    if options.query is not None:
        body["query"] = readable_query(options.query, settings)
    answer, url = None, running_service(settings) if options.url is None else options.url
    if url is not None:
        key = key_for(options.collection, settings.keys(), write=False)
        try:
            with ServiceClient(url, collection=options.collection, key=key, patience_s=PATIENCE_S) as client:
                answer = client.search(body)
        except StartError as exc:
            if options.url is not None:
                raise
            sys.stderr.write(f"crosslet: {exc}; searching {settings.data} without it\n")
    if answer is None:
        answer = _answered_here(body, options.collection, settings)
    _print_results(answer, as_table=wants_table(options))
    if not answer["results"]:
        sys.stderr.write(f"crosslet: {one_line(_no_match(answer, options, settings))}\n")


def _answered_here(body: Mapping[str, object], collection: str, settings: Settings) -> dict[str, Any]:
    """Return the answer of the service's own route, over documents that another process may be writing.

    Raises: InvalidInput: as the route says it.  StartError: there are no documents here.
    """
    import asyncio
    from types import SimpleNamespace

    from fastapi import Request
    from pydantic import ValidationError

    from service.api.request import Embedder, RequestFacts, receive_nothing
    from service.api.routes.search import search as route
    from service.api.schemas.search import SearchRequest
    from service.document_index import load_collection
    from service.documents.collections import Collections
    from service.json_parsing import loads
    from service.model.encoder import choose_encoder
    from service.offline.store_file import check_there
    from service.runtime import load_runtime

    try:
        parsed = SearchRequest.model_validate(body)
    except ValidationError as exc:
        error = max(exc.errors(include_input=False, include_url=False), key=lambda one: len(one["loc"]))
        place = f"{error['loc'][0]}: " if error["loc"] else ""
        raise InvalidInput(place + error["msg"].removeprefix("Value error, ")) from exc
    if settings.index == EMBEDDED:
        check_there(settings.documents_path)
    choice = choose_encoder(settings.model, settings.fallback_model)
    index = load_collection(settings, choice.encoder.manifest, name=collection, read_only=True)
    with ExitStack() as opened:
        opened.enter_context(closing(index))
        runtime = load_runtime(settings, choice, Collections(index))
        opened.pop_all()  # closed with the runtime
    app = SimpleNamespace(state=SimpleNamespace(runtime=runtime))
    scope = {"type": "http", "app": app, "state": {"facts": RequestFacts("")}, "headers": []}
    request = Request(scope, receive_nothing)
    with closing(runtime):
        runtime.start()
        response = asyncio.run(route(request, parsed, Embedder(request), runtime))
    answer: dict[str, Any] = loads(bytes(response.body))
    return answer


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


def _print_results(answer: Mapping[str, Any], *, as_table: bool) -> None:
    results = answer["results"]
    if not as_table:
        for result in results:
            print_json(result)
        if "facets" in answer:
            print_json({"facets": answer["facets"]})
        return
    if results:
        rows = [
            (
                "" if result["score"] is None else f"{result['score']:.3f}",
                result["id"],
                f"{result['group_size']}" if "group_size" in result else "",
                described(result.get("metadata", {})),
                result.get("passage", {}).get("text") or result.get("text", ""),
            )
            for result in results
        ]
        sys.stdout.write(table(("score", "id", "group size", "metadata", "text"), rows, columns=terminal_columns()))
    for field, counts in answer.get("facets", {}).items():
        sys.stdout.write(one_line(f"{field}: {described(counts)}") + "\n")
    if answer.get("confidence") is not None:
        sys.stdout.write(f"confidence: {answer['confidence']:.0%}\n")


def _no_match(answer: Mapping[str, Any], options: argparse.Namespace, settings: Settings) -> str:
    """Say why nothing was found, and what to change."""
    if answer.get("confidence"):
        return f"no document answers for sure: the first would with {answer['confidence']:.0%} (--include withheld)"
    from service.documents.filters import fields_in
    from service.offline.store_file import open_store_file

    if settings.index == EMBEDDED and options.url is None:
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
    if (options.mode or settings.search_mode) == "keywords" and options.query is not None:
        return "no document matches: none has a word of the query; --mode hybrid also finds by meaning"
    return "no document matches the filter" if options.filter else "no document matches"


def _sort_fields(text: str) -> list[dict[str, str]]:
    """Parse the fields to sort by: FIELD or FIELD:desc, separated by commas."""
    parts = [part.rpartition(":") for part in utf8(text).split(",")]
    return [
        {name: direction} if direction in {"asc", "desc"} and name else {f"{name}{colon}{direction}": "asc"}
        for name, colon, direction in parts
    ]


def _auto_or(parse: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: text if text == "auto" else parse(text)


def _names(text: str) -> list[str]:
    return utf8(text).split(",")


SEARCH = Subcommand(
    search,
    "search the documents, through a running service or without one",
    [  # those of the request's fields are named like them
        argument("query", nargs="?", metavar="QUERY", help="text to search for, in any language of the model"),
        argument("--like", type=utf8, metavar="ID", help="in place of a query: find documents like this one"),
        argument("--top-k", type=positive, default=10, metavar="N", help=f"number of documents or groups {DEFAULT}"),
        argument("--offset", type=positive, metavar="N", help="number of best documents to skip"),
        argument("--filter", type=json_object, metavar="JSON", help="""on the metadata, such as '{"lang": "de"}'"""),
        argument(
            "--mode",
            choices=get_args(Mode),
            help="by meaning, by words or by both (default: CROSSLET_SEARCH_MODE, else hybrid; with Milvus dense)",
        ),
        argument("--min-score", type=_auto_or(finite), metavar="SCORE", help="least score; auto: as the model advises"),
        argument("--min-confidence", type=finite, metavar="P", help="no results if less likely answers, such as 0.8"),
        argument("--language", type=utf8, metavar="CODE", help="of the query, for auto of --min-score and --prefer"),
        argument("--group-by", type=utf8, metavar="FIELD", help="only the best document with each value of a field"),
        argument(
            "--prefer",
            type=_auto_or(json_object),
            metavar="JSON",
            help="""raise some documents: auto, or as '{"field": "lang", "value": "de", "weight": 0.1}'""",
        ),
        argument("--sort", type=_sort_fields, metavar="FIELD[:desc],..", help="order by metadata; needs no query"),
        argument("--sort-k", type=positive, metavar="N", help="how many of the best are sorted (default: --top-k)"),
        argument("--facets", type=_names, metavar="FIELD,..", help="count the documents by these fields' values"),
        argument("--rerank", action="store_true", help="order the best by the re-ranker, too (CROSSLET_RERANKER)"),
        argument(
            "--rerank-k", type=positive, metavar="N", help="how many documents it reads (default: 20, or the page)"
        ),
        argument(
            "--include",
            type=_names,
            metavar="NAME,..",
            help="of text, metadata, passage, ranks, reranker_score, vector, withheld",
        ),
        URL,
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
