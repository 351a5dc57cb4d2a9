"""The JSON of requests and answers, described field by field. Limits that are settings are checked by the routes."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict

from service.api.schemas.foreign_options import COSINES, SIMILARITY, TEI_VECTORS, ForeignRequest
from service.invisible import INVISIBLE
from service.spelling import did_you_mean

LONGEST_NAME = 40  # characters of an unknown field that are named, and compared with known ones
NOTHING_VISIBLE = re.compile(rf"[\s\u200c\u2800{INVISIBLE}]+")  # with the non-joiner and the blank of Braille
GUITAR = ["A man is playing a guitar.", "Ein Mann spielt Gitarre."]

T = TypeVar("T")

# Stop at the first wrong element: errors for a hundred thousand elements take a second and 300 MB.
Listed = Annotated[list[T], Field(fail_fast=True)]


def described(description: str, *examples: object, default: Any = ..., **constraints: Any) -> Any:
    """Return a field with what /docs says of it. Without examples its default is one."""
    return Field(default, description=description, examples=[*examples] or [default], **constraints)


def optional(description: str, *examples: object, **constraints: Any) -> Any:
    """Return a field that may be left out or null."""
    return Field(None, description=description, examples=[*examples], **constraints)


def _no_flag_or_text(kind: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, bool | str):
            raise ValueError(f"Input should be a valid {kind}")
        return value

    return BeforeValidator(check)


# JSON's own types, by one rule: 10.0 and 1e1 are the number 10; "10" and true are no numbers, "yes" and 1 no booleans.
Whole = Annotated[int, _no_flag_or_text("integer")]
Number = Annotated[float, _no_flag_or_text("number")]
Flag = Annotated[bool, Field(strict=True)]


def _cut(given: object) -> object:
    if isinstance(given, bool):
        return given
    if not isinstance(given, str):
        raise ValueError("Input should be a valid boolean")
    if given not in {"NONE", "START", "END"}:
        raise ValueError(
            'send true or "END" to keep the beginning of texts that are too long, "START" to keep their end, false or '
            '"NONE" to refuse them'
        )
    return given if given == "START" else given == "END"


Cut = Annotated[
    bool | Literal["START"], PlainValidator(_cut, json_schema_input_type=bool | Literal["NONE", "START", "END"])
]


def visible(text: str) -> str:
    """Return a query that has a visible character, or none at all. Raises: ValueError: it has invisible ones alone."""
    if NOTHING_VISIBLE.fullmatch(text):
        raise ValueError("has nothing but white space and invisible characters; send one that can be read")
    return text


QueryText = Annotated[str, AfterValidator(visible)]  # an empty one is refused with the texts of other routes

PromptName = Annotated[
    str | None,
    described(
        "Name of the model's prompt (`prompts` in /info) to prepend to each text; null: the model's "
        "`default_prompt_name`, if any.",
        None,
    ),
]
InputType = Annotated[
    str | None,
    described(
        "What the texts are, instead of `prompt_name`: query or search_query; document, passage or "
        "search_document; or the name of another prompt of the model, such as classification.",
        None,
    ),
]

SpaceName = Annotated[
    str | None,
    described("Name of another model's vector space (`spaces` in /info) to answer in; null: the model's own.", None),
]


def whole_example(body: JsonDict) -> ConfigDict:
    """Set the example that /docs fills in: the fields' examples together would not be a valid request."""
    return ConfigDict(json_schema_extra={"example": body})


def first_fault(exc: ValidationError) -> str:
    """Return the first field that is refused and its rule, never the value."""
    error = exc.errors(include_input=False, include_url=False, include_context=False)[0]
    place, message = ".".join(map(str, error["loc"])), error["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


class Strict(BaseModel):
    """A request that refuses unknown fields.

    synonyms: names that others give to our fields, with ours, for the refusal.
    """

    model_config = ConfigDict(extra="forbid")
    synonyms: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _knows_every_field(cls, given: object) -> object:
        """Raise a single error before validating fields: a body may hold hundreds of thousands of unknown ones."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            name = str(next(key for key in given if key not in cls.model_fields))[:LONGEST_NAME]
            near = did_you_mean(cls.synonyms.get(name.lower(), name), cls.model_fields)
            raise ValueError(f"the field {name!r} is unknown; known are {', '.join(cls.model_fields)}{near}")
        return given


class Truncation(ForeignRequest):
    """What becomes of texts that are too long, in the fields of text-embeddings-inference.

    Options that the model does not support are refused: ignoring them would give other vectors than requested.
    """

    truncate: Cut | None = described(
        "Truncate texts longer than the model reads (see x-truncated); false refuses them with 422. As "
        "Cohere says it: END truncates, START keeps a text's end (not in /rerank), NONE refuses.",
        default=True,
    )
    truncation_direction: Literal["right", "Right", "left", "Left"] | None = optional(
        "right (or null): a truncated text keeps its beginning; left: its end (not in /rerank).", "right"
    )

    @property
    def may_cut(self) -> bool:
        """Whether long texts are truncated; null means the default, true."""
        return self.truncate is not False

    @property
    def keeps_end(self) -> bool:
        """Whether truncated texts keep their end."""
        return self.truncate == "START" or (self.may_cut and self.truncation_direction in {"left", "Left"})


class ReadingOptions(Truncation):
    """How a text is read (EmbedRequest in router/src/http/types.rs of text-embeddings-inference)."""

    prompt_name: PromptName = None
    input_type: InputType = None
    space: SpaceName = None


class VectorOptions(ReadingOptions):
    """How a text is read, and what is returned of its vector.  dimensions_name: what a request calls `dimensions`."""

    dimensions_name: ClassVar[str] = "dimensions"

    normalize: Flag | None = described(
        "Whether `dimensions` rescales to norm 1. The model's own vectors have norm 1, with false as well.",
        default=True,
    )
    dimensions: Whole | None = optional(
        "Number of first dimensions to keep, rescaled to norm 1; null keeps all.", 128, ge=1
    )


class EmbedRequest(VectorOptions):
    """Texts to turn into unit vectors (text-embeddings-inference's request)."""

    model_config = whole_example({"inputs": [*GUITAR]})
    refused = TEI_VECTORS

    inputs: str | Listed[str] = described("One text or a list of texts.", GUITAR)


class SourceSimilarity(Strict):
    """One sentence, compared with many."""

    source_sentence: str = described("The sentence to compare.", GUITAR[0])
    sentences: Listed[str] = described("What to compare it with.", GUITAR[1:])


class PairSimilarity(Strict):
    """Pairs of texts, compared with each other."""

    pairs: Listed[tuple[str, str]] = described("Pairs of texts.", [GUITAR])


class MatrixSimilarity(Strict):
    """Every text on the left, compared with every text on the right."""

    left: Listed[str] = described("The rows of the answer.", GUITAR[:1])
    right: Listed[str] = described("The columns of the answer.", GUITAR[1:])


# The tags are not identifiers, so that error messages leave them out of a field's path.
def _similarity_shape(inputs: object) -> str | None:
    tags = {"source_sentence": "of-source", "pairs": "of-pairs", "left": "of-left"}
    return next((tag for key, tag in tags.items() if isinstance(inputs, dict) and key in inputs), None)


class ComparisonOptions(ReadingOptions):
    """How the texts of a comparison are read."""

    refused = COSINES


class SimilarityRequest(ForeignRequest):
    """Texts to compare, in one of three shapes."""

    refused = SIMILARITY

    inputs: Annotated[
        Annotated[SourceSimilarity, Tag("of-source")]
        | Annotated[PairSimilarity, Tag("of-pairs")]
        | Annotated[MatrixSimilarity, Tag("of-left")],
        Discriminator(
            _similarity_shape,
            custom_error_type="similarity_shape",
            custom_error_message="an object with source_sentence and sentences, with pairs, or with left and right",
        ),
    ] = described(
        "{source_sentence, sentences} or {pairs} for a list of cosines, {left, right} for their matrix.",
        {"source_sentence": GUITAR[0], "sentences": GUITAR[1:]},
        {"pairs": [GUITAR]},
    )
    parameters: ComparisonOptions | None = optional("How the texts are read; null is the default.", {"truncate": True})


def _task(body: object) -> str:
    inputs = body.get("inputs") if isinstance(body, dict) else getattr(body, "inputs", None)
    return "to-compare" if isinstance(inputs, dict | BaseModel) else "to-embed"


# The body of POST /. These tags are not identifiers either.
RootRequest = Annotated[
    Annotated[EmbedRequest, Tag("to-embed")] | Annotated[SimilarityRequest, Tag("to-compare")], Discriminator(_task)
]


class ErrorResponse(BaseModel):
    """The body of every error."""

    error: str = described(
        "One sentence; for a limit it gives both numbers and the setting.",
        "inputs has 600 texts; the limit is 512 (CROSSLET_MAX_TEXTS)",
    )
    error_type: Literal[
        "Validation", "Tokenizer", "Overloaded", "Backend", "Unauthorized", "NotFound", "TooLarge", "NotReady"
    ] = described("The kind of error.", "Validation")
