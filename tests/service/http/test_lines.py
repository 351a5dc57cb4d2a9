import asyncio
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from service.http.lines import Line, lines_of


async def collected(parts: list[bytes], max_bytes: int) -> list[Line]:
    async def arriving() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return [line async for line in lines_of(arriving(), max_bytes=max_bytes)]


@given(
    parts=st.lists(st.binary(max_size=4) | st.sampled_from([b"\n", b"ab\ncd", b" \r\n"])), max_bytes=st.integers(1, 6)
)
def test_lines_are_those_of_the_whole_body_however_it_arrives(parts: list[bytes], max_bytes: int) -> None:
    whole = b"".join(parts).split(b"\n")
    expected = [
        Line(number, None if len(content) > max_bytes else content)
        for number, content in enumerate(whole, 1)
        if content.strip() or len(content) > max_bytes
    ]
    assert asyncio.run(collected(parts, max_bytes)) == expected
