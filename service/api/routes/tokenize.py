"""POST /tokenize and /decode: the model's tokens, in the shapes of text-embeddings-inference."""

from collections.abc import Sequence

from fastapi import APIRouter, Response

from service.api.json_route import JsonRoute
from service.api.policy import Access, Policy, Reach
from service.api.request import EmbedderDependency, Place, one_or_listed
from service.api.responses import dump_json, dumped_response
from service.api.routes.openapi import INFERENCE_ERRORS, Responses, answers
from service.api.schemas.tokenize import DecodeRequest, TokenizeRequest, TokenOut
from service.errors import InvalidInput
from service.model.encoder import Encoder
from service.runtime import Steps

MOST_TOKENS = 100_000  # in an answer: about 7 MB
WAY_OUT = "send fewer texts, or shorter ones"
TOKEN = {"id": 1842, "text": "guitar", "special": False, "start": 2, "stop": 8}


def answered(example: object) -> Responses:
    """OpenAPI's entries of a route about tokens, which runs no model.  example: of its answer."""
    return answers(*INFERENCE_ERRORS, content={"application/json": {"example": example}})


router = APIRouter(tags=["embeddings"], route_class=JsonRoute)


@router.post(
    "/tokenize", response_model=list[list[TokenOut]], responses=answered([[TOKEN]]), summary="Split into tokens"
)
@Policy(Access.READ, Reach.NOTHING)
async def tokenize(body: TokenizeRequest, embedder: EmbedderDependency) -> Response:
    """The tokens of each text, none of them cut off. A text without a prompt has as many as the model reads."""
    texts, place = one_or_listed("inputs", body.inputs)
    embedder.check(texts, name="inputs", place=place)
    steps = _token_lists(embedder.runtime.encoder, texts, add_special_tokens=body.add_special_tokens is not False)
    with embedder.memory_for(texts):
        lists = await embedder.prepare(steps, what="splitting into tokens", way_out=WAY_OUT)
    return dumped_response(b"[" + b",".join(lists) + b"]")


def _token_lists(encoder: Encoder, texts: Sequence[str], *, add_special_tokens: bool) -> Steps[list[bytes]]:
    lists: list[bytes] = []
    count = 0
    for text in texts:
        tokens = encoder.tokens(text, add_special_tokens=add_special_tokens)
        count += len(tokens)
        if count > MOST_TOKENS:
            raise InvalidInput(f"inputs have over {MOST_TOKENS} tokens, the limit of an answer: {WAY_OUT}")
        entries = [
            {
                "id": token.id,
                "text": token.piece if token.start is None else text[token.start : token.stop],
                "special": token.start is None,
                "start": token.start,
                "stop": token.stop,
            }
            for token in tokens
        ]
        lists.append(dump_json(entries))
        yield
    return lists


@router.post("/decode", response_model=list[str], responses=answered(["A guitar."]), summary="Join tokens to texts")
@Policy(Access.READ, Reach.NOTHING)
async def decode(body: DecodeRequest, embedder: EmbedderDependency) -> Response:
    """The text of each list of this model's token ids."""
    lists, place = one_or_listed("ids", body.ids)
    embedder.check(lists, name="ids", place=place)
    steps = _texts(embedder.runtime.encoder, lists, place, skip_special_tokens=body.skip_special_tokens is not False)
    texts = await embedder.prepare(steps, what="joining tokens", way_out=WAY_OUT)
    return dumped_response(dump_json(texts))


def _texts(
    encoder: Encoder, lists: Sequence[tuple[int, ...]], place: Place, *, skip_special_tokens: bool
) -> Steps[list[str]]:
    texts: list[str] = []
    for position, ids in enumerate(lists):
        try:
            texts.append(encoder.text_of(ids, skip_special_tokens=skip_special_tokens))
        except InvalidInput as exc:
            raise exc.at(place(position)) from exc
        yield
    return texts
