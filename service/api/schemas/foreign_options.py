"""Options of other APIs that would change an answer and that we do not give: refused by name, not ignored.

A value without effect here is taken, and so is every field that is not listed. Knows shapes; knows no model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, model_validator


@dataclass(frozen=True)
class ForeignOption:
    """An option that we do not have.  advice: the way out.  without_effect: values that change nothing, beside null."""

    advice: str
    without_effect: tuple[object, ...] = ()


class ForeignRequest(BaseModel):
    """A request of the clients of other APIs, which send more fields than we use."""

    model_config = ConfigDict(extra="ignore")
    refused: ClassVar[Mapping[str, ForeignOption]] = {}

    @model_validator(mode="before")
    @classmethod
    def _ignores_nothing_that_counts(cls, given: object) -> object:
        if isinstance(given, dict) and (names := given.keys() & cls.refused.keys()):
            for name in sorted(names):
                option = cls.refused[name]
                if given[name] is not None and given[name] not in option.without_effect:
                    raise ValueError(f"{name} has no effect here: {option.advice}")
        return given


READING = {
    "truncation": ForeignOption("send truncate", (True,)),  # Voyage
    "truncate_prompt_tokens": ForeignOption("leave it out, or forbid the cut by truncate: false", (-1,)),  # vLLM
    "truncation_side": ForeignOption("a text keeps its beginning, leave it out", ("right",)),  # vLLM
    "add_special_tokens": ForeignOption("the model always reads them, leave it out", (True,)),  # vLLM
    "task": ForeignOption("send input_type or prompt_name"),  # Jina
    "instruction": ForeignOption("the model has only the prompts in /info, send prompt_name", ("",)),
}
_FLOATS = ForeignOption("vectors are float32, leave it out", ("float", ["float"]))
VECTORS = READING | {
    "output_dimension": ForeignOption("send dimensions"),  # Cohere, Voyage, Mistral
    "output_dtype": _FLOATS,
    "embedding_type": _FLOATS,
    "embedding_types": _FLOATS,
    "late_chunking": ForeignOption("a vector never depends on other texts, leave it out", (False,)),  # Jina
    "return_multivector": ForeignOption("a text has one vector, leave it out", (False,)),  # Jina
}
COHERE_VECTORS = READING | {
    **{name: VECTORS[name] for name in ("late_chunking", "return_multivector")},
    "dimensions": ForeignOption("send output_dimension"),
    "embedding_type": ForeignOption("send embedding_types"),
    "images": ForeignOption("the model reads text alone, send texts", ([],)),
    "inputs": ForeignOption("send texts", ([],)),
    "max_tokens": ForeignOption("a text is cut where the model stops reading, leave it out"),
    "output_dtype": ForeignOption("send embedding_types"),
}
TEI_VECTORS = VECTORS | {
    "encoding_format": ForeignOption("vectors are lists of numbers; POST /v1/embeddings has base64", ("float",)),
    "parameters": ForeignOption("send its fields beside inputs", ({},)),
}
_WHOLE_VECTORS = ForeignOption("whole vectors are compared, leave it out")
COSINES = READING | {"dimensions": _WHOLE_VECTORS, "output_dimension": _WHOLE_VECTORS}
_INSIDE = "send it in parameters"
SIMILARITY = COSINES | {
    "truncate": ForeignOption(_INSIDE, (True, "END")),
    "truncation_direction": ForeignOption(_INSIDE, ("right", "Right")),
    "prompt_name": ForeignOption(_INSIDE),
    "input_type": ForeignOption(_INSIDE),
    "space": ForeignOption(_INSIDE),
}
TOKENS = {"prompt_name": ForeignOption("tokens are those of the text alone, put the prompt before it")}
_NO_PROMPT = ForeignOption("a query and its passages have the model's own prompts, leave it out")
_RANKING = READING | {
    "task": _NO_PROMPT,
    "prompt_name": _NO_PROMPT,
    "input_type": _NO_PROMPT,
    "instruction": ForeignOption(_NO_PROMPT.advice, ("",)),
    "space": ForeignOption("passages are compared in the model's own space, leave it out"),
    "dimensions": _WHOLE_VECTORS,
    "max_chunks_per_doc": ForeignOption("send windows: true to score all of a long passage", (1,)),  # Cohere, v1
    "return_embeddings": ForeignOption("POST /embed has vectors, leave it out", (False,)),  # Jina
}
TEI_RANKING = _RANKING | {
    "top_k": ForeignOption("send top_n"),
    "return_documents": ForeignOption("send return_text", (False,)),
    "max_tokens_per_doc": ForeignOption("a text is cut where the model stops reading, leave it out"),
}
RANKING = _RANKING | {
    "top_k": ForeignOption("send top_n"),  # Voyage
    "return_text": ForeignOption("send return_documents", (False,)),
    "raw_scores": ForeignOption("send texts to POST /rerank for raw scores", (False,)),
}
