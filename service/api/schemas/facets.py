"""The JSON of counts by metadata value, which searches and counts share."""

from typing import Annotated

from pydantic import Field

from service.api.schemas.embed import Listed

FacetFields = Annotated[
    Listed[str],
    Field(
        default_factory=list,
        description="Fields of the metadata: count the documents that match the filter by each one's values.",
        examples=[["lang"]],
    ),
]
Facets = Annotated[
    dict[str, dict[str, int]] | None,
    Field(
        description="For each field of `facets` how many documents have each value, the most frequent first; numbers "
        "and booleans are spelled as in JSON. Absent if there are none.",
        examples=[{"lang": {"de": 12, "en": 3}}],
    ),
]
FacetsCut = Annotated[
    list[str] | None,
    Field(
        description="The fields of `facets` with further values (`limits.max_facet_values` in /info). Absent if there "
        "are none.",
        examples=[None],
    ),
]
