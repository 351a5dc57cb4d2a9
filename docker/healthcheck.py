"""Exits with 0 when the service in this container answers GET /health. Standard library only; uses no proxy."""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["CROSSLET_PORT"]), timeout=2)
try:
    connection.request("GET", "/health")
    sys.exit(0 if connection.getresponse().status == http.client.OK else 1)
except (OSError, http.client.HTTPException) as exc:
    sys.exit(f"no answer from the service: {exc}")
