"""What a search asks. Knows vectors and words; searches nothing."""

from dataclasses import dataclass

from service.documents.protocol import Vectors


@dataclass(frozen=True)
class Query:
    """One query: by its vector, by its words, or by both.

    vector_D: of norm 1; None: words alone.  words: the query's text; None: the vector alone.
    without: id of a document to leave out, which the vector is of.
    """

    vector_D: Vectors | None = None
    words: str | None = None
    without: str | None = None
