"""API keys and what each may reach: `KEY`, or `KEY read=manuals write=shop+notes documents=1000 bytes=5000000`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from service.documents.names import NAME
from service.errors import StartError

ANY = "*"  # every collection
WORDS = ("read", "write", "documents", "bytes")
FORM = "write it like: KEY read=manuals write=shop+notes documents=1000 bytes=5000000"
COUNT = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Quota:
    """What all collections that a key may write hold together, at most; None: no limit."""

    max_documents: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True)
class Grant:
    """What a request may reach.

    read, write: names of collections; None: all. What may be written may be read.
    """

    read: frozenset[str] | None = None
    write: frozenset[str] | None = None
    quota: Quota | None = None

    def may_read(self, name: str) -> bool:
        """Whether it reads a collection, which need not exist."""
        return self.read is None or name in self.read or self.may_write(name)

    def may_write(self, name: str) -> bool:
        """Whether it changes, makes and drops a collection."""
        return self.write is None or name in self.write

    @property
    def reads_all(self) -> bool:
        """Whether it reads every collection."""
        return self.read is None or self.write is None

    @property
    def writes_all(self) -> bool:
        """Whether it writes every collection."""
        return self.write is None


FULL = Grant()
READ_ONLY = Grant(write=frozenset())
NO_DOCUMENTS = Grant(read=frozenset(), write=frozenset())


def parse_keys(entries: Iterable[str], setting: str, *, read_only: bool = False) -> dict[str, Grant]:
    """Return the grant of each key; empty entries are left out. No message quotes an entry: it holds a key.

    read_only: entries are keys alone, which read everything.

    Raises: StartError: an entry is malformed, or there is none.
    """
    grants: dict[str, Grant] = {}
    for number, entry in enumerate(entries, start=1):
        if not entry.strip():
            continue
        key, *words = entry.split()
        refuse = partial(_refused, f"{setting}: entry {number}")
        if key.startswith(tuple(f"{word}=" for word in WORDS)):
            raise refuse("begins with what a key may reach; the key comes first")
        if read_only and words:
            raise refuse("is more than a key; such entries stand in CROSSLET_API_KEYS")
        grant = READ_ONLY if read_only else _grant(words, refuse)
        if grants.setdefault(key, grant) != grant:
            raise refuse("repeats a key with other rights; give each key one entry")
    if not grants:
        raise StartError(f"{setting} is set but holds no key; unset it, or give one")
    return grants


def key_for(name: str, keys: Mapping[str, Grant], *, write: bool) -> str | None:
    """Return the key with the least rights that may read, or write, a collection; None: there is none."""
    able = [key for key, grant in keys.items() if (grant.may_write if write else grant.may_read)(name)]
    return min(able, key=lambda key: (keys[key].writes_all, keys[key].reads_all, key), default=None)


def _grant(words: list[str], refuse: "partial[StartError]") -> Grant:
    given = dict(word.partition("=")[::2] for word in words)
    if given.keys() - set(WORDS) or len(given) < len(words):
        raise refuse("has a word that is not read=, write=, documents= or bytes=, once each")
    counts = [given.get(name) for name in ("documents", "bytes")]
    if not all(count is None or COUNT.fullmatch(count) for count in counts):
        raise refuse("has a limit that is not a whole number of at least 1")
    read, write = (_names(given.get(name), refuse) for name in ("read", "write"))
    if not {"read", "write"} & given.keys():
        read = write = None  # limits alone
    quota = Quota(*(None if count is None else int(count) for count in counts)) if any(counts) else None
    if quota is not None and write == frozenset():
        raise refuse("limits what a key may store, but the key may only read")
    return Grant(read, write, quota)


def _names(given: str | None, refuse: "partial[StartError]") -> frozenset[str] | None:
    if given is None or given == ANY:
        return frozenset() if given is None else None
    names = given.split("+")
    if not all(NAME.fullmatch(name) for name in names):
        raise refuse("names a collection that cannot be; names have letters, digits and . _ -, and + between them")
    return frozenset(names)


def _refused(place: str, reason: str) -> StartError:
    return StartError(f"{place} {reason}; {FORM}")
