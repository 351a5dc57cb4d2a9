"""Characters that nobody sees, as ranges for a regular expression: the same that new vocabularies remove."""

# Default-ignorable characters but the non-joiner, control characters but white space, and U+FFFD.
INVISIBLE = (
    r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200d-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
