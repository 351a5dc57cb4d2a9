"""Writes the log as JSON lines. User text is never logged."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

import orjson

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats one JSON object a line: time, level, logger, event, and the fields passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON, without a newline."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            # Only the stack: an exception's message may quote the user's text.
            fields["error"] = record.exc_info[0].__name__
            fields["stack"] = [line.strip() for line in traceback.format_tb(record.exc_info[2])]
        try:
            return orjson.dumps(fields, default=str).decode()
        except orjson.JSONEncodeError:  # an integer over 64 bits; settings may hold one
            return json.dumps(fields, default=str)


def configure_logging(level: str) -> None:
    """Send every log record of the process to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    # Skip record fields we never print (logging how-to, "Optimization").
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
