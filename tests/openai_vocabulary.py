"""OpenAI's vocabulary for clients that encode by tiktoken, which finds it without a network."""

import gzip
import hashlib
from importlib.util import find_spec
from pathlib import Path

URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


def ranks() -> bytes:
    """The file of ranks, from the package of the extra `openai-ids`."""
    spec = find_spec("bpe_openai")
    assert spec is not None
    assert spec.submodule_search_locations
    return gzip.decompress(Path(spec.submodule_search_locations[0], "data/cl100k_base.tiktoken.gz").read_bytes())


def tiktoken_folder(folder: Path) -> Path:
    """Fill a folder for TIKTOKEN_CACHE_DIR, where tiktoken looks for a hash of the file's address."""
    (folder / hashlib.sha1(URL.encode(), usedforsecurity=False).hexdigest()).write_bytes(ranks())
    return folder
