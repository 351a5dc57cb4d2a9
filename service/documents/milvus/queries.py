"""What Milvus is asked with, and what of its answer a query leaves out."""

from collections.abc import Sequence

import numpy as np

from service.documents.milvus.connection import ScoredRows
from service.documents.protocol import Vectors
from service.documents.query import Query
from service.errors import InvalidInput


def vectors_of(queries: Sequence[Query]) -> Vectors:
    """(B, D) float32.

    Raises: InvalidInput: a query has words.
    """
    vectors = [query.vector_D for query in queries if query.words is None and query.vector_D is not None]
    if len(vectors) < len(queries):
        raise InvalidInput(
            "keywords are kept beside embedded documents only; where Milvus keeps them (CROSSLET_INDEX), leave mode "
            'out, or send "dense"'
        )
    return np.asarray(vectors, np.float32)


def other_than(best: ScoredRows, query: Query) -> ScoredRows:
    """What a query found, but for the document that it leaves out."""
    return [hit for hit in best if hit[1]["id"] != query.without]
