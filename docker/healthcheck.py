"""Exits with 0 when the service in this container answers GET /health. Standard library only; uses no proxy."""

import http.client
import os
import sys

LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - of addresses that are none to ask

host = os.environ.get("CROSSLET_HOST", "")
port = int(os.environ.get("CROSSLET_PORT") or 8080)
connection = http.client.HTTPConnection(LOOPBACK.get(host, host), port, timeout=2)
try:
    connection.request("GET", "/health")
    sys.exit(0 if connection.getresponse().status == http.client.OK else 1)
except (OSError, http.client.HTTPException) as exc:
    sys.exit(f"no answer from the service: {exc}")
