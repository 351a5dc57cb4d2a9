"""Chooses the model's prompt for a text, like `encode`, `encode_query` and `encode_document` of sentence-transformers.

Differs: there every model has an empty prompt named document, which hides one named passage. Here the first prompt that
is not empty wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.errors import InvalidInput
from service.model.tokenizer import stripped

QUERY = ("query",)
DOCUMENT = ("document", "passage", "corpus")
ROLES = {  # `input_type` -> names: Cohere's types, and those of OpenAI-compatible servers
    **dict.fromkeys(("query", "search_query"), QUERY),
    **dict.fromkeys(("document", "passage", "search_document"), DOCUMENT),
}


@dataclass(frozen=True)
class Prompts:
    """The prompts of a model. texts: by name; empty = no prompt.  default_name: used for texts without a named one."""

    texts: Mapping[str, str]
    default_name: str | None = None

    @property
    def default(self) -> str:
        """The prompt of texts for which none is named."""
        return "" if self.default_name is None else self.texts[self.default_name]

    def stripped(self, text: str) -> str:
        """Strip white space at the ends of a text that may follow one of the prompts, which keeps its own."""
        prompt = max((prompt for prompt in self.texts.values() if text.startswith(prompt)), key=len, default="")
        return prompt + stripped(text[len(prompt) :])

    @property
    def query(self) -> str:
        """The prompt of search queries."""
        return self._first_of(QUERY)

    @property
    def document(self) -> str:
        """The prompt of documents."""
        return self._first_of(DOCUMENT)

    def chosen(
        self,
        prompt_name: str | None,
        input_type: str | None = None,
        *,
        otherwise: str | None = None,
        place: str = "",
    ) -> str:
        """Return the prompt that a request names; if it names none, `otherwise` or the default.

        Args:   place: prefix of the two fields' names in error messages.
        Raises: InvalidInput: there is no such prompt, or both fields are set.
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
            raise InvalidInput(f"{field} is set, but this model has no prompts: leave it out")
        if name not in self.texts:
            raise InvalidInput(f"{field} is not one of this model's prompts: {', '.join(self.texts)}")
        return self.texts[name]

    def _first_of(self, names: tuple[str, ...]) -> str:
        prompts = [self.texts[name] for name in names if name in self.texts]
        return next((prompt for prompt in prompts if prompt), "") if prompts else self.default
