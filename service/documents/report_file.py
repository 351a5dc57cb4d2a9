"""The short of `crosslet index report` of the default collection, kept beside the store for GET /info."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from service.process.files import create_beside

NAME = "index-report.json"


@dataclass(frozen=True)
class Summary:
    """What was measured. Shares are in [0, 1].

    revision, documents: of the collection at that time.  recall: of the ten nearest.
    found: share of made queries whose document is among the ten nearest.
    min_scores: what 1 in 1,000 unrelated documents exceeds, by language of the query; `all`: any.
    model_min_score: what the model recommends for any language; None: nothing.
    language_bias: the most that a document's language adds to a cosine.
    cut: share of documents longer than the model reads.  hubs: documents that are near to too many queries.
    """

    fingerprint: str
    revision: int
    made_at: str
    documents: int
    sampled: int
    recall: float
    found: float
    min_scores: Mapping[str, float]
    model_min_score: float | None
    language_bias: float
    cut: float
    hubs: int


def write_summary(folder: Path, summary: Summary) -> None:
    """Put it in the place of an older one.

    Raises: OSError: the folder cannot be written.
    """
    partial = create_beside(folder / NAME)
    try:
        partial.write_bytes(orjson.dumps(asdict(summary), option=orjson.OPT_INDENT_2))
        partial.replace(folder / NAME)
    finally:
        partial.unlink(missing_ok=True)


def read_summary(folder: Path, *, fingerprint: str) -> Summary | None:
    """The newest; None: there is none of this model that can be read."""
    try:
        summary = Summary(**orjson.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return summary if summary.fingerprint == fingerprint else None
