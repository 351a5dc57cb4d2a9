"""A pool over a function in place of a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from service.engine.pool import Encode, EncoderPool
from service.model.encoder import Encoded, Encoder, TextInput
from service.model.tokenizer import TokenisedText


@dataclass(frozen=True)
class Untokenised(TokenisedText):
    """A text for the function."""

    text: TextInput
    truncate: bool


class OneByOne(Encoder):
    """Encodes each text by itself, with the function."""

    def __init__(self, encode: Encode) -> None:
        self.function = encode
        self.shares_passes = self.mixes_lengths = False

    def tokenise(self, texts: Sequence[TextInput], truncate: Iterable[bool] = repeat(True)) -> list[TokenisedText]:
        return [Untokenised([0], 1, text, may_cut) for text, may_cut in zip(texts, truncate, strict=False)]

    def run(self, texts: Sequence[TokenisedText]) -> list[Encoded]:
        return [self.function(one.text, one.truncate) for one in texts if isinstance(one, Untokenised)]


def pool_over(encode: Encode, **options: Any) -> EncoderPool:
    return EncoderPool(encode, OneByOne(encode), **options)
