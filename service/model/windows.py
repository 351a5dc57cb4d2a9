"""Cuts a long text into overlapping windows of tokens. Knows a tokenizer; knows no model."""

from itertools import takewhile

from service.model.tokenizer import Tokenizer


def windows_of(tokenizer: Tokenizer, text: str, *, prompt: str) -> list[tuple[int, ...]]:
    """Token ids of parts of a text that the model reads whole, each with the prompt and the special tokens.

    Parts overlap by half, and the last is full. One where the text fits, or where the prompt leaves no room.
    """
    whole, alone = tokenizer.whole(prompt + text), tokenizer.whole(prompt)
    if len(whole) <= tokenizer.max_length:
        return [tuple(whole)]
    # What both begin with: the prompt's last letter may merge with the text's first.
    before = [id_ for id_, other in takewhile(lambda pair: pair[0] == pair[1], zip(whole, alone, strict=False))]
    after = tokenizer.closing(whole)
    room = tokenizer.max_length - len(before) - len(after)
    if room < 1:
        return [tuple(tokenizer.cut(whole).input_ids)]
    ids = whole[len(before) : len(whole) - len(after)]
    last = len(ids) - room
    starts = [*range(0, last, max(1, room // 2)), last]
    return [(*before, *ids[start : start + room], *after) for start in starts]
