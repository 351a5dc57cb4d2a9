"""POST /similarity: cosines between texts; requests come in three shapes.

B pairs, M texts on the left, N texts on the right, D dims
"""

from functools import partial

import numpy as np
from fastapi import APIRouter, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import EmbedderDependency, cost_headers
from service.api.responses import json_response
from service.api.routes.openapi import inference
from service.api.schemas.embed import (
    ComparisonOptions,
    MatrixSimilarity,
    PairSimilarity,
    SimilarityRequest,
    SourceSimilarity,
)
from service.errors import InvalidInput

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/similarity",
    response_model=list[float] | list[list[float]],
    responses=inference(example=[0.83]),
    summary="Compare texts",
)
@Policy(Access.READ, Reach.NOTHING)
async def similarity(body: SimilarityRequest, embedder: EmbedderDependency) -> Response:
    """Cosines in [-1, 1]: of one sentence and many, of pairs, or of each text on the left and each on the right."""
    inputs, options = body.inputs, body.parameters or ComparisonOptions()
    place = partial(_place, inputs)
    batch = await embedder.embed(_texts(inputs), options, name="inputs", place=place, prefix="parameters: ")
    # einsum, not BLAS: a score must not depend on the size of the matrix.
    if isinstance(inputs, PairSimilarity):
        scores = np.einsum("bd,bd->b", batch.embeddings[0::2], batch.embeddings[1::2])
    else:
        left = 1 if isinstance(inputs, SourceSimilarity) else len(inputs.left)
        scores = np.einsum("md,nd->mn", batch.embeddings[:left], batch.embeddings[left:])
    answer = scores[0] if isinstance(inputs, SourceSimilarity) else scores
    return json_response(np.clip(answer, -1, 1), headers=cost_headers(batch))


def _texts(inputs: SourceSimilarity | PairSimilarity | MatrixSimilarity) -> list[str]:
    if isinstance(inputs, PairSimilarity):
        return [text for pair in inputs.pairs for text in pair]
    left, right, name = (
        ([inputs.source_sentence], inputs.sentences, "sentences")
        if isinstance(inputs, SourceSimilarity)
        else (inputs.left, inputs.right, "left or right")
    )
    if not left or not right:
        raise InvalidInput(f"inputs: {name} is empty; send at least one text")
    return [*left, *right]


def _place(inputs: SourceSimilarity | PairSimilarity | MatrixSimilarity, position: int) -> str:
    if isinstance(inputs, PairSimilarity):
        return f"inputs.pairs[{position // 2}][{position % 2}]"
    if isinstance(inputs, SourceSimilarity):
        return f"inputs.sentences[{position - 1}]" if position else "inputs.source_sentence"
    left = len(inputs.left)
    return f"inputs.left[{position}]" if position < left else f"inputs.right[{position - left}]"
