"""Writes the log as JSON lines. Knows field names; never sees user text."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

import orjson

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, and whatever was passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            # Where, not what: the message of an exception may quote the user's text.
            fields["error"] = record.exc_info[0].__name__
            fields["stack"] = [line.strip() for line in traceback.format_tb(record.exc_info[2])]
        try:
            return orjson.dumps(fields, default=str).decode()
        except orjson.JSONEncodeError:  # an integer beyond 64 bits, as a setting may be
            return json.dumps(fields, default=str)


def configure_logging(level: str) -> None:
    """Send every log record of the process to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    # What no line has need not be found out for each (logging's own how-to, "Optimization")
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
