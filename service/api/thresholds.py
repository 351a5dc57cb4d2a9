"""Chooses the lowest score that a search shows. Knows what the model recommends; scores nothing."""

from service.api.schemas.search import SearchRequest
from service.errors import InvalidInput
from service.runtime import Runtime

ALL = "all"  # the threshold for queries of any language


def min_score_of(body: SearchRequest, runtime: Runtime) -> float | None:
    """The threshold of a request; of `auto` the one recommended for its language, else for all.

    Raises: InvalidInput: none is recommended for these scores.
    """
    if not isinstance(body.min_score, str):
        return body.min_score
    mode = "dense" if not body.has_words else body.mode or runtime.settings.default_mode
    if mode == "keywords":
        raise InvalidInput("min_score is auto, a threshold for cosines; a search by keywords has none: send a number")
    if runtime.settings.space:
        raise InvalidInput(
            f"min_score is auto, but the model's own space was measured, not {runtime.settings.space} "
            "(CROSSLET_SPACE): send a number"
        )
    recommended = runtime.manifest.min_scores
    language = (body.language or ALL).lower().partition("-")[0]
    chosen = recommended.get(language, recommended.get(ALL))
    if chosen is None:
        raise InvalidInput(
            f"min_score is auto, but model {runtime.manifest.name} recommends none (`min_scores` in GET /info): send a "
            "number"
        )
    return chosen
