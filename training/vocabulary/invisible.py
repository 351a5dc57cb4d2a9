"""Removes invisible characters before text is tokenised: a soft hyphen inside a word would split it.

Kept, because they carry meaning: joiners between letters of scripts that use them and between emoji, and tags after a
flag.
"""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, normalizers  # type: ignore[import-untyped]

_JOINERS = r"[\u200c\u200d]"
_TAGS = r"\x{e0020}-\x{e007f}"
# Scripts in which joiners change letters (RFC 5892, appendix A.1 and A.2), and combining marks.
_JOINED = (
    r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}"
    r"\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{M}]"
)
_EMOJI = r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]"

# Removed in this order.
INVISIBLE = (
    # Default-ignorable characters except those below; control characters except white space; U+FFFD, as in BERT.
    rf"(?!{_JOINERS}|[{_TAGS}])\p{{Default_Ignorable_Code_Point}}"
    r"|[\x00-\x08\x0e-\x1f\u007f-\u0084\u0086-\u009f\ufff9-\ufffd]",
    rf"(?<![\x{{1f3f4}}{_TAGS}])[{_TAGS}]+",  # tags, except after a flag (Scotland's)
    rf"{_JOINERS}(?={_JOINERS})",  # all but the last of several
    rf"(?!(?<={_JOINED}){_JOINERS}(?={_JOINED})|(?<={_EMOJI})\u200d(?={_EMOJI})){_JOINERS}",
)


def dropping_invisible() -> list[normalizers.Normalizer]:
    """The normaliser steps that remove invisible characters; they come first."""
    return [normalizers.Replace(Regex(found), "") for found in INVISIBLE]


def drop_invisible(tokenizer: Tokenizer) -> None:
    """Put these steps in front of a tokenizer's normaliser, and the removal of white space at the ends of a text."""
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*dropping_invisible(), normalizers.Strip(), *own])
