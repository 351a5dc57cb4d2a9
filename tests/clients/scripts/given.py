"""What a client is asked to do, from the test's environment, and how it answers: a line of JSON."""

import json
import os
import sys
from collections.abc import Sequence

URL, KEY = os.environ["SERVICE_URL"], os.environ["SERVICE_KEY"]
TEXTS, QUERY = json.loads(os.environ["TEXTS"]), os.environ["QUERY"]


def show(
    vectors: dict[str, Sequence[Sequence[float]]], rankings: dict[str, Sequence[tuple[int, float]]] | None = None
) -> None:
    """Print vectors of TEXTS, and the order of TEXTS for QUERY with scores, each by how the client was asked."""
    shown = {name: [[*map(float, vector)] for vector in matrix] for name, matrix in vectors.items()}
    json.dump({"vectors": shown, "rankings": rankings or {}}, sys.stdout)
