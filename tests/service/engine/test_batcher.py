from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from service.engine.batcher import LOOK_AHEAD, LOOK_AHEAD_CHARS, Batcher, Prepared
from service.engine.fair_queue import FairQueue, Job, Work
from service.model.tokenizer import TokenisedText


def wanted(*lengths: int) -> tuple[Job, list[Prepared]]:
    """Make a request of texts with these numbers of tokens, all ready for a pass."""
    job, works = Job([], True), [Work(f"text {number}", True) for number in range(len(lengths))]
    for work in works:
        join(job, work)
    return job, [
        Prepared(work, TokenisedText([1] * length, length), 0.0) for work, length in zip(works, lengths, strict=True)
    ]


def join(job: Job, work: Work) -> None:
    """Add a text to a request."""
    work.positions[job] = [0]
    work.wanted += 1
    job.works[work] = None


def take(window: Batcher, room: Callable[[int], int], *, mixed: bool = False, most: int = 100) -> list[Prepared]:
    return window.take(room, mixed=mixed, most=most)


def fill(window: Batcher, *prepared: Prepared) -> None:
    for one in prepared:
        window.expect(one.work)
        window.add(one)


def filled(*lengths: int) -> tuple[Batcher, list[Prepared]]:
    window, (_, prepared) = Batcher(), wanted(*lengths)
    fill(window, *prepared)
    return window, prepared


def lead(window: Batcher) -> int:
    """Take a pass of one text, and return its length."""
    return take(window, lambda length: 1)[0].length


def test_the_oldest_goes_with_the_oldest_of_its_length() -> None:
    window, texts = filled(5, 7, 5, 9, 5, 7)
    assert take(window, lambda length: 10) == [texts[0], texts[2], texts[4]]
    assert take(window, lambda length: 10) == [texts[1], texts[5]]
    assert take(window, lambda length: 10) == [texts[3]]
    assert take(window, lambda length: 10) == []
    assert len(window) == 0


def test_requests_lead_passes_in_turn() -> None:
    window, (_, large), (_, small) = Batcher(), wanted(5, 6, 7, 8), wanted(9, 9)
    fill(window, *large, *small)
    led = [lead(window) for _ in range(6)]
    assert led == [5, 9, 6, 9, 7, 8]


def test_those_that_come_do_not_overtake_a_request_for_ever() -> None:
    window, (_, large) = Batcher(), wanted(5, 6, 7)
    fill(window, *large)
    led = []
    for _ in range(6):
        (_, (lone,)) = wanted(9)
        fill(window, lone)
        led.append(lead(window))
    assert led.count(9) == 3


def test_a_request_that_joins_a_text_waits_for_its_turn() -> None:
    window, (_, popular), (_, lone) = Batcher(), wanted(5, 5, 5, 5), wanted(9)
    fill(window, *popular, *lone)
    led = []
    for one in popular:  # each pass finds another of them joined by a new request
        joined, _ = wanted()
        join(joined, one.work)
        window.join(joined)
        led.append(lead(window))
    assert 9 in led[:3]


def test_a_pass_has_no_more_texts_than_there_is_room_for() -> None:
    window, texts = filled(5, 5, 5, 8, 8)
    assert take(window, lambda length: 16 // length) == texts[:3]
    assert take(window, lambda length: 8 // length) == texts[3:4]
    assert len(window) == 1


def test_nearest_lengths_join_a_pass_and_the_longest_limits_it() -> None:
    window, texts = filled(5, 30, 6, 9, 5, 4)
    assert take(window, lambda length: 24 // length, mixed=True) == [texts[0], texts[4], texts[2], texts[5]]
    assert take(window, lambda length: 24 // length, mixed=True) == [texts[1]]
    assert take(window, lambda length: 24 // length, mixed=True) == [texts[3]]


def test_text_that_would_fill_the_pass_yields_to_shorter_ones() -> None:
    window, texts = filled(8, 11, 4)
    assert take(window, lambda length: 20 // length, mixed=True) == [texts[0], texts[2]]


def test_a_pass_has_no_more_texts_than_a_worker_may_take() -> None:
    window, texts = filled(5, 6, 5, 5)
    assert take(window, lambda length: 10, mixed=True, most=2) == [texts[0], texts[2]]
    assert take(window, lambda length: 10, most=1) == [texts[1]]


def test_a_text_that_two_requests_want_leads_for_both() -> None:
    window, (_, first), (second, others), (_, third) = Batcher(), wanted(5, 6), wanted(7), wanted(8)
    fill(window, *first, *others, *third)
    join(second, first[0].work)
    window.join(second)
    led = [lead(window) for _ in range(4)]
    assert led == [5, 8, 6, 7]


def test_batcher_has_limited_room_and_always_takes_one_text() -> None:
    window = Batcher()
    assert window.has_room(Work("x" * (LOOK_AHEAD_CHARS + 1), True))
    works = [Work(f"short {number}", True) for number in range(LOOK_AHEAD)]
    for work in works:
        assert window.has_room(work)
        window.expect(work)
    assert not window.has_room(Work("x", True))
    window.remove(works[0])
    assert window.has_room(Work("x", True))
    assert not window.has_room(Work("x" * LOOK_AHEAD_CHARS, True))
    assert not window.has_room(Work((7,) * (LOOK_AHEAD_CHARS // 4), True))


TEXTS = ["a", "b", "cc", "dd", "eee", "fff", "gggg", "hhhh"]  # a token a character


@given(st.data())
def test_it_agrees_with_the_queue_whoever_comes_joins_and_leaves(data: st.DataObject) -> None:
    queue, window, asked = FairQueue(portion=3), Batcher(), list[Job]()
    tokenised, in_pass = list[Work](), list[Work]()

    def leave(job: Job) -> None:
        queue.drop(job)
        for work in window.leave(job):
            queue.finish(work)

    def add(work: Work) -> None:
        if work.wanted:
            window.add(Prepared(work, TokenisedText([1] * work.size, work.size), 0.0))
        else:
            window.remove(work)
            queue.finish(work)

    def step(kind: str) -> None:
        if kind == "come":
            job = Job(data.draw(st.lists(st.sampled_from(TEXTS), min_size=1)), True)
            queue.push(job)
            window.join(job)
            asked.append(job)
        elif kind == "leave" and asked:
            leave(asked.pop(data.draw(st.integers(0, len(asked) - 1))))
        elif kind == "start" and queue.unstarted:
            tokenised.append(queue.pop())
            window.expect(tokenised[-1])
        elif kind == "add" and tokenised:
            add(tokenised.pop(0))
        elif kind == "take":
            mixed = data.draw(st.booleans())
            in_pass.extend(one.work for one in take(window, lambda length: 3, mixed=mixed, most=2 + mixed))
        elif kind == "finish" and in_pass:
            for job in queue.finish(in_pass.pop(0)):
                queue.top_up(job)
                window.join(job)

    kinds = ["come", "leave", "start", "add", "take", "finish"]
    for kind in data.draw(st.lists(st.sampled_from(kinds), max_size=60)):
        step(kind)
        works = {work for job in asked for work in job.works if work.is_started} - {*tokenised, *in_pass}
        assert len(window) == len(works)
        assert window._turns.keys() == {job for work in works for job in work.positions}
    while queue.unstarted or tokenised or window or in_pass:
        for kind in ("start", "add", "take", "finish"):
            step(kind)
    assert not any(job.is_waiting for job in asked)
    assert queue.depth == queue.backlog == len(window) == 0
    assert window.has_room(Work("x" * LOOK_AHEAD_CHARS, True))
