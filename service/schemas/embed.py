"""The JSON of requests and answers, described field by field. Knows shapes; limits that are settings come later."""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.config import JsonDict

GUITAR = ["A man is playing a guitar.", "Ein Mann spielt Gitarre."]

# TEI's clients send fields that mean nothing here; they are ignored there, and refused on our own routes (`Strict`).
IGNORE = ConfigDict(extra="ignore")


T = TypeVar("T")

# One wrong element is enough to know: an error for each of a hundred thousand takes a second and 300 MB.
Listed = Annotated[list[T], Field(fail_fast=True)]


def _no_flag_or_text(kind: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, bool | str):
            raise ValueError(f"Input should be a valid {kind}")
        return value

    return BeforeValidator(check)


Whole = Annotated[int, _no_flag_or_text("integer")]  # true is not 1; 10.0 is 10
Number = Annotated[float, _no_flag_or_text("number")]


PromptName = Annotated[
    str | None,
    Field(
        description="Name of the model's prompt (`prompts` in /info) to put before each text; null: the one that "
        "`default_prompt_name` names, if there is one.",
        examples=[None],
    ),
]
InputType = Annotated[
    str | None,
    Field(
        description="What the texts are, in place of `prompt_name`: query or search_query, document, passage or "
        "search_document; or the name of any other of the model's prompts, as classification.",
        examples=[None],
    ),
]

SpaceName = Annotated[
    str | None,
    Field(
        description="Name of another model's vector space (`spaces` in /info) to answer in; null: the model's own.",
        examples=[None],
    ),
]


def whole_example(body: JsonDict) -> ConfigDict:
    """What /docs fills in: the examples of all fields together would be no request."""
    return ConfigDict(json_schema_extra={"example": body})


class Strict(BaseModel):
    """A request that may hold no field but its own."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _knows_every_field(cls, given: object) -> object:
        """One error for all unknown fields, and before any is looked at: a body holds hundreds of thousands."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            raise ValueError(f"a field is unknown; known are {', '.join(cls.model_fields)}")
        return given


class Truncation(BaseModel):
    """What becomes of texts that are too long, in the fields of text-embeddings-inference.

    What this model cannot do is refused: ignored, it would give other vectors than the client asked for.
    """

    model_config = IGNORE

    truncate: bool | None = Field(
        True,
        description="Cut texts that are longer than the model reads (see x-truncated); false refuses them with 422.",
        examples=[True],
    )
    truncation_direction: Literal["right", "Right", "left", "Left"] | None = Field(
        None, description="Only right (or null): a text that is cut keeps its beginning.", examples=["right"]
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.truncation_direction in {"left", "Left"}:
            raise ValueError("truncation_direction is left; this model reads the beginning of a text, leave it out")
        return self

    @property
    def may_cut(self) -> bool:
        """Whether a text that is too long is cut; null means the default."""
        return self.truncate is not False


class ReadingOptions(Truncation):
    """How a text is read (EmbedRequest in router/src/http/types.rs of text-embeddings-inference)."""

    prompt_name: PromptName = None
    input_type: InputType = None
    space: SpaceName = None


class EmbedRequest(ReadingOptions):
    """Texts to turn into unit vectors (text-embeddings-inference's request)."""

    model_config = whole_example({"inputs": [*GUITAR]})

    inputs: str | Listed[str] = Field(description="One text or a list of texts.", examples=[GUITAR])
    normalize: bool | None = Field(
        True, description="Only true (or null): the model gives vectors of norm 1 and no others.", examples=[True]
    )
    dimensions: Whole | None = Field(
        None,
        ge=1,
        description="Keep the first dimensions only, scaled to norm 1 again; null keeps all.",
        examples=[128],
    )

    @model_validator(mode="after")
    def _is_normalized(self) -> Self:
        if self.normalize is False:
            raise ValueError("normalize is false; this model only has vectors of norm 1, leave it out")
        return self


class SourceSimilarity(Strict):
    """One sentence against many."""

    source_sentence: str = Field(description="The sentence to compare.", examples=[GUITAR[0]])
    sentences: Listed[str] = Field(description="What to compare it with.", examples=[GUITAR[1:]])


class PairSimilarity(Strict):
    """Pairs, each compared within itself."""

    pairs: Listed[tuple[str, str]] = Field(description="Pairs of texts.", examples=[[GUITAR]])


class MatrixSimilarity(Strict):
    """Every text on the left against every text on the right."""

    left: Listed[str] = Field(description="The rows of the answer.", examples=[GUITAR[:1]])
    right: Listed[str] = Field(description="The columns of the answer.", examples=[GUITAR[1:]])


# Tags are no identifiers: messages leave them out of a field's place.
def _similarity_shape(inputs: object) -> str | None:
    tags = {"source_sentence": "of-source", "pairs": "of-pairs", "left": "of-left"}
    return next((tag for key, tag in tags.items() if isinstance(inputs, dict) and key in inputs), None)


class SimilarityRequest(BaseModel):
    """Texts to compare, in one of three shapes."""

    model_config = IGNORE

    inputs: Annotated[
        Annotated[SourceSimilarity, Tag("of-source")]
        | Annotated[PairSimilarity, Tag("of-pairs")]
        | Annotated[MatrixSimilarity, Tag("of-left")],
        Discriminator(
            _similarity_shape,
            custom_error_type="similarity_shape",
            custom_error_message="an object with source_sentence and sentences, with pairs, or with left and right",
        ),
    ] = Field(
        description="{source_sentence, sentences} or {pairs} for a list of cosines, {left, right} for their matrix.",
        examples=[{"source_sentence": GUITAR[0], "sentences": GUITAR[1:]}, {"pairs": [GUITAR]}],
    )
    parameters: ReadingOptions | None = Field(
        None, description="How the texts are read; null is the default.", examples=[{"truncate": True}]
    )


def _task(body: object) -> str:
    inputs = body.get("inputs") if isinstance(body, dict) else getattr(body, "inputs", None)
    return "to-compare" if isinstance(inputs, dict | BaseModel) else "to-embed"


# Of POST /. Here, too, the tags are no identifiers.
RootRequest = Annotated[
    Annotated[EmbedRequest, Tag("to-embed")] | Annotated[SimilarityRequest, Tag("to-compare")], Discriminator(_task)
]


class ErrorResponse(BaseModel):
    """The one body of all errors."""

    error: str = Field(
        description="One sentence; for a limit it gives both numbers and the setting.",
        examples=["inputs has 600 texts; the limit is 512 (CROSSLET_MAX_TEXTS)"],
    )
    error_type: Literal[
        "Validation", "Tokenizer", "Overloaded", "Backend", "Unauthorized", "NotFound", "TooLarge", "NotReady"
    ] = Field(description="What kind of refusal it is.", examples=["Validation"])
