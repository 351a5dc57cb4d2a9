"""Reads and checks the prompts and dimensions in a sentence-transformers folder's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import tokenizers  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from export.errors import BadCheckpoint

Asked = tuple[str | None, str]  # prompt name (None: the default), text
CONFIG_FILE = "config_sentence_transformers.json"


@dataclass(frozen=True)
class Prompts:
    """A model's prompts. texts: by name; empty if all prompts are.  default_name: the prompt that `encode` applies."""

    texts: Mapping[str, str]
    default_name: str | None

    @property
    def default(self) -> str:
        """The prompt that `encode` puts before a text."""
        return "" if self.default_name is None else self.texts[self.default_name]

    def over(self, texts: Sequence[str]) -> list[Asked]:
        """Every text with the default prompt (None); every other distinct prompt with one of the texts."""
        name_of = {prompt: name for name, prompt in self.texts.items() if prompt != self.default}
        return [(None, text) for text in texts] + list(zip(name_of.values(), cycle(texts), strict=False))

    def before(self, name: str | None, text: str) -> str:
        """A text with its prompt, as the tokenizer gets it; None: the default prompt."""
        return (self.default if name is None else self.texts[name]) + text

    def in_turn(self, texts: Sequence[str]) -> list[str]:
        """Texts with the prompts in turn, to resemble the texts that will be served."""
        prompts = cycle(dict.fromkeys([self.default, *self.texts.values()]))
        return [prompt + text for prompt, text in zip(prompts, texts, strict=False)]


def prompts_of(model: SentenceTransformer) -> Prompts:
    """A model's prompts; none if all are empty, since sentence-transformers adds two empty ones to every model."""
    if not any(model.prompts.values()):
        return Prompts({}, None)
    return Prompts(dict(model.prompts), model.default_prompt_name)


def check_configuration(
    folder: Path, model: SentenceTransformer, tokenizer: tokenizers.Tokenizer, max_length: int
) -> None:
    """Check that the prompts and `truncate_dim` of a folder can be served.

    Raises: BadCheckpoint: a prompt is not a string, leaves no room for text, or is not pooled; or `truncate_dim` is
        invalid.
    """
    for name, prompt in model.prompts.items():
        if not isinstance(prompt, str) or not _is_unicode(prompt):
            raise BadCheckpoint(f"{folder}: {CONFIG_FILE}: prompt {name!r} is not valid text")
        tokens = len(tokenizer.encode(prompt).ids)
        if prompt and tokens >= max_length:
            raise BadCheckpoint(
                f"{folder}: prompt {name!r} has {tokens} tokens and the model reads {max_length}: no room for text"
            )
    leaves_out = any(not module.include_prompt for module in model if isinstance(module, Pooling))
    if leaves_out and any(model.prompts.values()):
        raise BadCheckpoint(
            f"{folder} pools without its prompts (include_prompt is false), but the graph pools every token: set it to "
            f"true, or remove the prompts from {CONFIG_FILE}"
        )
    dims = model.truncate_dim
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise BadCheckpoint(f"{folder}: {CONFIG_FILE}: truncate_dim is {dims!r}; it must be an integer of at least 1")


def truncated_dim(model: SentenceTransformer) -> int | None:
    """The number of dims kept by `truncate_dim`; None: all."""
    with model.truncate_embeddings(None):
        whole = model.get_embedding_dimension()
    dims = model.truncate_dim
    return dims if dims is not None and (whole is None or dims < whole) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can contain lone surrogates
        return False
    return True
