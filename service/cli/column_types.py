"""--types: the types of a CSV file's columns."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.documents.readers.csv_table import ColumnTypes


def types_argument(parser: argparse.ArgumentParser) -> None:
    """Add --types, for commands that read CSV."""
    parser.add_argument(
        "--types",
        metavar="COLUMN=TYPE,..",
        help="types of a CSV file's columns: text, int, float, bool or json; auto: by the first rows (default: text)",
    )


def types_of(options: argparse.Namespace) -> "ColumnTypes | None":
    """Return the types that were asked for; None: every cell stays text.

    Raises: InvalidInput: they are malformed.
    """
    from service.documents.readers.csv_table import column_types
    from service.offline.output import tell

    return None if options.types is None else column_types(options.types, tell)
