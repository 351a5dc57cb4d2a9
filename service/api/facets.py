"""Counts of documents, also by metadata value, as searches and counts answer them. Knows limits and shapes."""

from collections.abc import Mapping, Sequence

from service.errors import InvalidInput
from service.runtime import Runtime


def check_facets(fields: Sequence[str], runtime: Runtime) -> None:
    """Raises: InvalidInput: there are more fields than may be counted."""
    limit = runtime.settings.max_facets
    if len(fields) > limit:
        raise InvalidInput(f"facets has {len(fields)} fields; the limit is {limit} (CROSSLET_MAX_FACETS)")


def facets_of(runtime: Runtime, fields: Sequence[str], filter_: Mapping[str, object] | None) -> dict[str, object]:
    """What an answer says of its facets; empty where none are asked for. Blocks.

    Raises: InvalidInput: counting takes too long, or the documents are where they cannot be counted.
    """
    if not fields:
        return {}
    return {name: value for name, value in counted(runtime, fields, filter_).items() if name != "count"}


def counted(runtime: Runtime, fields: Sequence[str], filter_: Mapping[str, object] | None) -> dict[str, object]:
    """How many documents match a filter, and what an answer says of their facets. Blocks.

    Raises: as `facets_of`.
    """
    settings = runtime.settings
    count, found = runtime.collection.counts(
        fields, most_values=settings.max_facet_values, filter_=filter_, filter_s=settings.request_timeout_s
    )
    answer: dict[str, object] = {"count": count}
    if fields:
        answer["facets"] = {field: facet.counts for field, facet in found.items()}
    if cut := [field for field, facet in found.items() if facet.is_cut]:
        answer["facets_cut"] = cut
    return answer
