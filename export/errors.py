"""The errors of the exporter; the command prints the message as one sentence and exits with 2.

ExportError
├── BadCheckpoint   the folder is not a sentence encoder that can be exported
├── BadRequest      the options contradict each other or a file, or --out exists
└── Refused         the graph is not accurate or small enough to be served; the message has the figures
"""


class ExportError(Exception):
    """Root of every error raised on purpose in this package."""


class BadCheckpoint(ExportError):  # noqa: N818 - named after what happened
    """The checkpoint folder cannot be read, or has modules that the graph does not support."""


class BadRequest(ExportError):  # noqa: N818
    """An option is missing or cannot be satisfied."""


class Refused(ExportError):  # noqa: N818
    """A gate failed: nothing is written."""
