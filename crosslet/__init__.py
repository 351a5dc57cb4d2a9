"""Cross-lingual embeddings and search in this process, without HTTP. This package is what other programs import.

    from crosslet import Encoder, Index

    encoder = Encoder()
    encoder.similarity("Where is the station?", "Wo ist der Bahnhof?")
    with Index("notes.crosslet", encoder) as index:
        index.put_files("notes")
        index.search("how do I reset my password?")

Importing it loads nothing; `Encoder()` loads a model. What fails raises a `CrossletError`: one sentence with the way
out.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslet.encoder import Encoder
    from crosslet.index import Hit, Index
    from service.documents.ingest import Report
    from service.errors import CrossletError

    __version__: str

__all__ = ["CrossletError", "Encoder", "Hit", "Index", "Report", "__version__"]


def __getattr__(name: str) -> Any:
    """Import all names when the first is used: the command `crosslet` imports this package, too, and needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crosslet.encoder import Encoder
    from crosslet.index import Hit, Index
    from service.documents.ingest import Report
    from service.errors import CrossletError
    from service.version import VERSION

    globals().update(
        CrossletError=CrossletError, Encoder=Encoder, Hit=Hit, Index=Index, Report=Report, __version__=VERSION
    )
    return globals()[name]
