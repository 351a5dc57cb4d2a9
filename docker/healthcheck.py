"""Exits with 0 if the service in this container answers GET /health. Standard library only; ignores proxies."""

import http.client
import os
import sys

LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - wildcard address -> address to call

host = os.environ.get("CROSSLET_HOST", "")
port = int(os.environ.get("CROSSLET_PORT") or 8080)
connection = http.client.HTTPConnection(LOOPBACK.get(host, host), port, timeout=2)
try:
    connection.request("GET", "/health")
    sys.exit(0 if connection.getresponse().status == http.client.OK else 1)
except (OSError, http.client.HTTPException) as exc:
    sys.exit(f"no answer from the service: {exc}")
