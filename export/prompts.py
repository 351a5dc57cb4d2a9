"""The prompts and dims that a sentence-transformers folder asks for. Knows its configuration; embeds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import tokenizers  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from export.errors import BadCheckpoint

Asked = tuple[str | None, str]  # the name of a prompt, None: the default; a text
CONFIG_FILE = "config_sentence_transformers.json"


@dataclass(frozen=True)
class Prompts:
    """texts: by name, none if all are empty.  default_name: of the one that `encode` puts before a text."""

    texts: Mapping[str, str]
    default_name: str | None

    @property
    def default(self) -> str:
        """What `encode` puts before a text."""
        return "" if self.default_name is None else self.texts[self.default_name]

    def over(self, texts: Sequence[str]) -> list[Asked]:
        """Every text with the default prompt (None), and each prompt unlike it with one of them."""
        name_of = {prompt: name for name, prompt in self.texts.items() if prompt != self.default}
        return [(None, text) for text in texts] + list(zip(name_of.values(), cycle(texts), strict=False))

    def before(self, name: str | None, text: str) -> str:
        """A text as the tokenizer gets it; None: behind the default prompt."""
        return (self.default if name is None else self.texts[name]) + text

    def in_turn(self, texts: Sequence[str]) -> list[str]:
        """Each text behind one of the prompts, or the default, as those that come will be."""
        prompts = cycle(dict.fromkeys([self.default, *self.texts.values()]))
        return [prompt + text for prompt, text in zip(prompts, texts, strict=False)]


def prompts_of(model: SentenceTransformer) -> Prompts:
    """Those of a model; where all are empty there are none: sentence-transformers gives every model two such."""
    if not any(model.prompts.values()):
        return Prompts({}, None)
    return Prompts(dict(model.prompts), model.default_prompt_name)


def check_configuration(
    folder: Path, model: SentenceTransformer, tokenizer: tokenizers.Tokenizer, max_length: int
) -> None:
    """Whether the prompts and `truncate_dim` of a folder can be served.

    Raises: BadCheckpoint: a prompt is no text, leaves no room for one, or is not pooled; or the dims are no number.
    """
    for name, prompt in model.prompts.items():
        if not isinstance(prompt, str) or not _is_unicode(prompt):
            raise BadCheckpoint(f"{folder}: {CONFIG_FILE}: prompt {name!r} is no text")
        tokens = len(tokenizer.encode(prompt).ids)
        if prompt and tokens >= max_length:
            raise BadCheckpoint(
                f"{folder}: prompt {name!r} has {tokens} tokens and the model reads {max_length}: no text would be read"
            )
    leaves_out = any(not module.include_prompt for module in model if isinstance(module, Pooling))
    if leaves_out and any(model.prompts.values()):
        raise BadCheckpoint(
            f"{folder} pools without its prompts (include_prompt is false), and the graph pools every token: set it to "
            f"true, or take the prompts out of {CONFIG_FILE}"
        )
    dims = model.truncate_dim
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise BadCheckpoint(f"{folder}: {CONFIG_FILE}: truncate_dim is {dims!r}; it is a whole number of at least 1")


def truncated_dim(model: SentenceTransformer) -> int | None:
    """How many dims are kept of a model that has more; None: all."""
    with model.truncate_embeddings(None):
        whole = model.get_embedding_dimension()
    dims = model.truncate_dim
    return dims if dims is not None and (whole is None or dims < whole) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can hold half of a pair
        return False
    return True
