import logging

import orjson

from service.process.logs import JsonFormatter


def line(**extra: object) -> str:
    record = logging.makeLogRecord({"name": "n", "levelname": "INFO", "msg": "event", **extra})
    return JsonFormatter().format(record)


def test_a_line_is_one_json_object() -> None:
    fields = orjson.loads(line(texts=3, path="ü"))
    assert (fields["event"], fields["level"], fields["texts"], fields["path"]) == ("event", "INFO", 3, "ü")


def test_a_number_beyond_64_bits_does_not_cost_the_line() -> None:
    assert f'"cache_bytes": {10**30}' in line(cache_bytes=10**30)
