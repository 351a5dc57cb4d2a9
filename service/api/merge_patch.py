"""Changes metadata by a JSON merge patch (RFC 7396)."""

from collections.abc import Mapping
from typing import Any

import orjson

from service.api.schemas.documents import checked_metadata
from service.documents.store.fields import comparable
from service.errors import InvalidInput


def merged(before: object, patch: object) -> Any:
    """Return `before` with what the patch sets; null removes a key, an object changes the keys in it.

    A key is found in another spelling, as filters find it: é as one character, or as e with an accent.
    """
    if not isinstance(patch, Mapping):
        return patch
    after = dict(before) if isinstance(before, Mapping) else {}
    spellings = {comparable(key): key for key in after}
    for given, value in patch.items():
        key = given if given in after else spellings.setdefault(comparable(given), given)
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


def patched(before: dict[str, Any], patch: Mapping[str, Any], *, max_bytes: int) -> dict[str, Any]:
    """Return the patched metadata of a document.

    Raises: InvalidInput: they are over a limit, which many small patches could pass.
    """
    after: dict[str, Any] = checked_metadata(merged(before, patch))
    size_bytes = len(orjson.dumps(after))
    if size_bytes > max_bytes:
        raise InvalidInput(
            f"the metadata would have {size_bytes} bytes; the limit is {max_bytes} (CROSSLET_MAX_BODY_BYTES)"
        )
    return after
