from hypothesis import given
from hypothesis import strategies as st

from service.api.uploads import Line, LineSplitter


@given(
    parts=st.lists(st.binary(max_size=4) | st.sampled_from([b"\n", b"ab\ncd", b" \r\n"])), max_bytes=st.integers(1, 6)
)
def test_lines_are_those_of_the_whole_body_however_it_arrives(parts: list[bytes], max_bytes: int) -> None:
    splitter = LineSplitter(max_bytes=max_bytes)
    found = [line for part in parts for line in splitter.add(part)] + [*splitter.end()]
    whole = b"".join(parts).split(b"\n")
    whole = whole[: len(whole) - (not whole[-1])]  # no line begins behind the last line end
    expected = [None if len(content) > max_bytes else content if content.strip() else b"" for content in whole]
    assert found == [Line(number, content) for number, content in enumerate(expected, 1)]


def test_a_part_is_split_no_further_than_its_lines_are_taken() -> None:
    lines = LineSplitter(max_bytes=10).add(b"a\n" * 1_000_000)
    assert next(lines) == Line(1, b"a")
    assert next(lines) == Line(2, b"a")
