"""Characters that nobody sees, taken out before text is cut into pieces. Regular expressions; no vocabulary.

A soft hyphen or a zero-width space inside a word would make it two unknown halves. What carries meaning stays: joiners
between letters of scripts that join them, and between emoji; the tags behind a flag.
"""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, normalizers  # type: ignore[import-untyped]

_JOINERS = r"[\u200c\u200d]"
_TAGS = r"\x{e0020}-\x{e007f}"
# Scripts whose letters a joiner binds or parts (RFC 5892, appendix A.1 and A.2), with their marks.
_JOINED = (
    r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}\p{Tamil}"
    r"\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{M}]"
)
_EMOJI = r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]"

# Taken out in this order.
INVISIBLE = (
    # Unicode's default-ignorable characters but those below; control characters but white space; U+FFFD, as BERT does.
    rf"(?!{_JOINERS}|[{_TAGS}])\p{{Default_Ignorable_Code_Point}}"
    r"|[\x00-\x08\x0e-\x1f\u007f-\u0084\u0086-\u009f\ufff9-\ufffd]",
    rf"(?<![\x{{1f3f4}}{_TAGS}])[{_TAGS}]+",  # tags, but those of a flag, as Scotland's
    rf"{_JOINERS}(?={_JOINERS})",  # all but the last of a row
    rf"(?!(?<={_JOINED}){_JOINERS}(?={_JOINED})|(?<={_EMOJI})\u200d(?={_EMOJI})){_JOINERS}",
)


def dropping_invisible() -> list[normalizers.Normalizer]:
    """The steps of a normaliser that take invisible characters out; they go before all others."""
    return [normalizers.Replace(Regex(found), "") for found in INVISIBLE]


def drop_invisible(tokenizer: Tokenizer) -> None:
    """Put these steps before a tokenizer's own normaliser."""
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*dropping_invisible(), *own])
