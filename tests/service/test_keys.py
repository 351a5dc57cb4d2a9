"""Entries of keys, and what each key reaches."""

import pytest

from service.errors import StartError
from service.keys import FULL, READ_ONLY, Grant, Quota, key_for, parse_keys

SHOP, NOTES = frozenset({"shop"}), frozenset({"notes"})
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("words", "grant"),
    [
        ("", FULL),
        ("read=*", READ_ONLY),
        ("write=*", Grant(NONE, None)),
        ("read=shop", Grant(SHOP, NONE)),
        ("write=shop+notes", Grant(NONE, SHOP | NOTES)),
        ("  read=shop   write=notes ", Grant(SHOP, NOTES)),
        ("documents=5", Grant(None, None, Quota(5, None))),
        ("bytes=7 write=shop documents=5", Grant(NONE, SHOP, Quota(5, 7))),
    ],
)
def test_an_entry_says_what_its_key_reaches(words: str, grant: Grant) -> None:
    assert parse_keys([f" sesame {words}"], "KEYS") == {"sesame": grant}


@pytest.mark.parametrize(
    "entry",
    [
        *("sesame other", "sesame reads=shop", "sesame read", "sesame read=a read=b", "read=shop", "write=shop sesame"),
        *("sesame read=", "sesame read=a+", "sesame read=-a", "sesame read=a|b", "sesame read=ä", "sesame read=**"),
        *("sesame documents=0", "sesame documents=-1", "sesame documents=1e3", "sesame bytes=5MB", "sesame bytes="),
        *("sesame read=shop bytes=5", "sesame write=" + "a" * 65),
    ],
)
def test_a_malformed_entry_is_refused_without_its_text(entry: str) -> None:
    with pytest.raises(StartError, match=r"^KEYS: entry 3 ") as refused:
        parse_keys(["fine", "", entry], "KEYS")
    assert "sesame" not in str(refused.value)


def test_a_key_has_one_grant() -> None:
    assert parse_keys(["a", "b", "a"], "KEYS") == {"a": FULL, "b": FULL}
    with pytest.raises(StartError, match="entry 2 repeats a key with other rights"):
        parse_keys(["a", "a read=shop"], "KEYS")


def test_a_read_only_entry_is_a_key_alone() -> None:
    assert parse_keys(["a"], "KEYS", read_only=True) == {"a": READ_ONLY}
    with pytest.raises(StartError, match="such entries stand in CROSSLET_API_KEYS"):
        parse_keys(["a write=shop"], "KEYS", read_only=True)


def test_what_may_be_written_may_be_read() -> None:
    grant = Grant(SHOP, NOTES)
    assert [grant.may_read(name) for name in ("shop", "notes", "other")] == [True, True, False]
    assert [grant.may_write(name) for name in ("shop", "notes", "other")] == [False, True, False]
    assert (READ_ONLY.reads_all, READ_ONLY.writes_all, FULL.writes_all, grant.reads_all) == (True, False, True, False)


def test_a_command_takes_the_key_with_the_least_rights() -> None:
    keys = {"full": FULL, "read": READ_ONLY, "shop": Grant(NONE, SHOP), "notes": Grant(NOTES, NONE)}
    assert [key_for(name, keys, write=False) for name in ("shop", "notes", "x")] == ["shop", "notes", "read"]
    assert [key_for(name, keys, write=True) for name in ("shop", "notes")] == ["shop", "full"]
    assert key_for("x", {"shop": keys["shop"]}, write=True) is None
