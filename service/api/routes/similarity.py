"""POST /similarity: cosines between texts; requests come in three shapes.

B pairs, M texts on the left, N texts on the right, D dims
"""

from functools import partial

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, policy
from service.api.request import EmbedderDependency, cost_headers
from service.api.responses import array_response
from service.api.routes.openapi import inference
from service.api.schemas.embed import (
    MatrixSimilarity,
    PairSimilarity,
    ReadingOptions,
    SimilarityRequest,
    SourceSimilarity,
)
from service.errors import InvalidInput
from service.model.prompts import Prompts

router = APIRouter(tags=["embeddings"], route_class=JsonRoute)

Floats = npt.NDArray[np.float32]


@router.post(
    "/similarity",
    response_model=list[float] | list[list[float]],
    responses=inference(example=[0.83]),
    summary="Compare texts",
)
@policy(Access.READ, fast=True)
async def similarity(body: SimilarityRequest, embedder: EmbedderDependency) -> Response:
    """Cosines in [-1, 1]: of one sentence and many, of pairs, or of each text on the left and each on the right."""
    inputs = body.inputs
    may_cut = body.parameters is None or body.parameters.may_cut
    prompt = _prompt(embedder.prompts, body.parameters)
    space = embedder.spaces.chosen(body.parameters.space if body.parameters else None, place="parameters: ")
    batch = await embedder.embed(
        _texts(inputs), name="inputs", prompt=prompt, place=partial(_place, inputs), truncate=may_cut, space=space
    )
    if isinstance(inputs, PairSimilarity):
        scores = _paired(batch.embeddings[0::2], batch.embeddings[1::2])
    elif isinstance(inputs, SourceSimilarity):
        scores = _all_with_all(batch.embeddings[:1], batch.embeddings[1:])[0]
    else:
        left = len(inputs.left)
        scores = _all_with_all(batch.embeddings[:left], batch.embeddings[left:])
    return array_response(np.clip(scores, -1, 1), cost_headers(batch))


def _prompt(prompts: Prompts, given: ReadingOptions | None) -> str:
    if given is None:
        return prompts.default
    return prompts.chosen(given.prompt_name, given.input_type, place="parameters: ")


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


def _paired(left_BD: Floats, right_BD: Floats) -> Floats:
    scores_B: Floats = np.einsum("bd,bd->b", left_BD, right_BD)
    return scores_B


def _all_with_all(left_MD: Floats, right_ND: Floats) -> Floats:
    # einsum, not BLAS: a score must not depend on the size of the matrix.
    scores_MN: Floats = np.einsum("md,nd->mn", left_MD, right_ND)
    return scores_MN
