"""Which prompt of a model goes before a text. Knows the names of prompts; knows nothing about HTTP or vectors.

As sentence-transformers chooses it in `encode`, `encode_query` and `encode_document`.
Differs: it gives every model an empty prompt named document, which hides one named passage; here a text goes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from service.errors import InvalidInput
from service.model.artifact import Manifest

QUERY = ("query",)
DOCUMENT = ("document", "passage", "corpus")
ROLES = {  # by what clients call them: Cohere's names, and those of servers in OpenAI's shape
    **dict.fromkeys(("query", "search_query"), QUERY),
    **dict.fromkeys(("document", "passage", "search_document"), DOCUMENT),
}


@dataclass(frozen=True)
class Prompts:
    """texts: by name; an empty one means no prompt.  default_name: of the one for texts of which nothing is said."""

    texts: Mapping[str, str]
    default_name: str | None = None

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Those of an artifact."""
        return cls(manifest.prompts, manifest.default_prompt_name)

    @property
    def default(self) -> str:
        """For texts of which nothing is said."""
        return "" if self.default_name is None else self.texts[self.default_name]

    @property
    def query(self) -> str:
        """For what is looked for."""
        return self._first_of(QUERY)

    @property
    def document(self) -> str:
        """For what is found."""
        return self._first_of(DOCUMENT)

    def chosen(
        self,
        prompt_name: str | None,
        input_type: str | None = None,
        *,
        otherwise: str | None = None,
        place: str = "",
    ) -> str:
        """The prompt that a request asks for; `otherwise`, or the default, where it asks for none.

        Args:   place: of the two fields in the request, before their names in a message.
        Raises: InvalidInput: there is no such prompt, or both are set.
        """
        if prompt_name is not None and input_type is not None:
            raise InvalidInput(f"{place}prompt_name and input_type are both set; send one of them")
        if prompt_name is not None:
            return self._named(prompt_name, f"{place}prompt_name")
        if input_type is None:
            return self.default if otherwise is None else otherwise
        if input_type in ROLES:
            return self._first_of((input_type, *ROLES[input_type]))
        return self._named(input_type, f"{place}input_type")

    def _named(self, name: str, field: str) -> str:
        if not self.texts:
            raise InvalidInput(f"{field} is set; this model has no prompts, leave it out")
        if name not in self.texts:
            raise InvalidInput(f"{field} names none of this model's prompts; they are {', '.join(self.texts)}")
        return self.texts[name]

    def _first_of(self, names: tuple[str, ...]) -> str:
        found = [self.texts[name] for name in names if name in self.texts]
        return next((text for text in found if text), "") if found else self.default
