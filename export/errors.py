"""The errors of the exporter; the command prints the message as one sentence and exits with 2.

ExportError
├── BadCheckpoint   the folder is no sentence encoder that can be exported
├── BadRequest      the options contradict each other, a file, or what already lies at --out
└── Refused         the graph was made but is not good enough to be served; the message holds the figures
"""


class ExportError(Exception):
    """Root of every error raised on purpose in this package."""


class BadCheckpoint(ExportError):  # noqa: N818 - named after what happened
    """The checkpoint folder cannot be read, or holds modules that the graph cannot express."""


class BadRequest(ExportError):  # noqa: N818
    """An option is missing or cannot be satisfied."""


class Refused(ExportError):  # noqa: N818
    """A gate failed: nothing is written."""
