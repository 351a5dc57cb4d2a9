"""The JSON of POST /tokenize and /decode, in the shapes of text-embeddings-inference."""

from pydantic import BaseModel

from service.api.schemas.embed import Flag, Listed, described, optional, whole_example
from service.api.schemas.foreign_options import TOKENS, ForeignRequest
from service.api.schemas.openai import TokenIds

TEXT = "A guitar."


class TokenizeRequest(ForeignRequest):
    """Texts to split into the model's tokens."""

    model_config = whole_example({"inputs": [TEXT]})
    refused = TOKENS

    inputs: str | Listed[str] = described("One text or a list of texts.", [TEXT])
    add_special_tokens: Flag | None = described("Whether the tokens that frame a text are listed.", default=True)


class TokenOut(BaseModel):
    """A token of a text."""

    id: int = described("Its id.", 1842)
    text: str = described("Its part of the text; of a special token, its name.", "guitar")
    special: bool = described("Whether it frames the text.", False)
    start: int | None = optional("Where it starts in the text, in characters; null: it frames the text.", 2)
    stop: int | None = optional("Where it ends.", 8)


class DecodeRequest(ForeignRequest):
    """Token ids to turn into texts."""

    model_config = whole_example({"ids": [[0, 1842, 2]]})
    refused = TOKENS

    ids: TokenIds | Listed[TokenIds] = described("The ids of one text, or a list for each text.", [[0, 1842, 2]])
    skip_special_tokens: Flag | None = described("Whether the tokens that frame a text are left out.", default=True)
