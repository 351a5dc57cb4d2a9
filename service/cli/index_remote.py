"""`crosslet index build --url`: loads a file through a running service."""

import argparse
import functools
import sys
from typing import TYPE_CHECKING

from service.cli.bad_lines import check_any_good, named, on_bad_line
from service.cli.column_types import types_of
from service.documents.store.collection_name import DEFAULT_NAME
from service.errors import InferenceFailed, InvalidInput, StartError
from service.settings import Settings

if TYPE_CHECKING:
    from service.offline.loading import Outcome


def build_through_service(options: argparse.Namespace, settings: Settings) -> None:
    """Send a file's documents to the service at `--url`.

    Raises: StartError: the service cannot be reached or refuses, or the file is refused.  InvalidInput: a bad line,
            or no good one.
            InferenceFailed: some documents were not stored, named on standard error.
    """
    from service.documents.readers.sources import format_of, open_source
    from service.offline.loading import to_document
    from service.offline.output import progress, tell
    from service.offline.remote import RemoteBuild, ServiceClient

    if options.engine != "threads":
        raise InvalidInput(f"--engine {options.engine} and --url exclude each other: the service embeds")
    if options.chunk is not None:
        raise InvalidInput("--chunk and --url exclude each other: the service splits as its CROSSLET_CHUNK says")
    full, _ = settings.keys()
    with (
        ServiceClient(_address(options.url, options.collection), key=min(full, default=None)) as client,
        open_source(options.file, format_of(options.file, options.format), types_of(options)) as source,
        progress("build", total=source.size, unit=source.unit) as bar,
        named(source.name),
    ):

        def advance(read: int, outcome: "Outcome") -> None:
            bar.set_postfix_str(f"{outcome.total} documents", refresh=False)
            bar.update(read - bar.n)

        work = RemoteBuild(
            client,
            read=functools.partial(to_document, max_text_chars=settings.max_text_chars),
            on_bad_line=on_bad_line(options.on_bad_line, source.name),
            on_failed=tell,
            advance=advance,
        )
        try:
            work.run(source.records)
        except KeyboardInterrupt as exc:
            raise StartError(f"stopped: {work.outcome}; run the same command again to continue") from exc
    sys.stderr.write(f"{work.outcome}\n")
    check_any_good(work.outcome, source.name)
    if work.outcome.failed:
        raise InferenceFailed(f"{work.outcome.failed} documents were not stored; earlier versions of them stay")


def _address(url: str, collection: str) -> str:
    """Where a collection's routes begin."""
    return url if collection == DEFAULT_NAME else f"{url.rstrip('/')}/collections/{collection}"
