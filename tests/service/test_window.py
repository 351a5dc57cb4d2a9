from service.fair_queue import Job, Work
from service.tokenizer import TokenisedText
from service.window import Prepared, Window


def wanted(*lengths: int) -> tuple[Job, list[Prepared]]:
    """A request of texts with so many tokens, all ready for a pass."""
    job = Job([f"text {number}" for number in range(len(lengths))], True, lambda: None)
    prepared = []
    for text, length in zip(job.texts, lengths, strict=True):
        work = Work(text, True)
        work.positions[job] = [0]
        work.wanted = 1
        prepared.append(Prepared(work, TokenisedText([1] * length, length), 0.0))
    return job, prepared


def filled(*lengths: int) -> tuple[Window, list[Prepared]]:
    window, (_, prepared) = Window(), wanted(*lengths)
    for one in prepared:
        window.add(one)
    return window, prepared


def test_the_oldest_goes_with_the_oldest_of_its_length() -> None:
    window, texts = filled(5, 7, 5, 9, 5, 7)
    assert window.take(lambda length: 10) == [texts[0], texts[2], texts[4]]
    assert window.take(lambda length: 10) == [texts[1], texts[5]]
    assert window.take(lambda length: 10) == [texts[3]]
    assert window.take(lambda length: 10) == []
    assert len(window) == 0


def test_a_pass_has_no_more_texts_than_there_is_room_for() -> None:
    window, texts = filled(5, 5, 5, 8, 8)
    assert window.take(lambda length: 16 // length) == texts[:3]
    assert window.take(lambda length: 8 // length) == texts[3:4]
    assert len(window) == 1


def test_texts_that_nobody_waits_for_leave_it() -> None:
    window, texts = filled(5, 5, 6)
    texts[1].work.wanted = 0
    assert window.forget_unwanted() == [texts[1].work]
    assert window.take(lambda length: 10) == [texts[0]]


def test_it_knows_the_requests_behind_its_texts() -> None:
    window, (first, some) = Window(), wanted(5, 6)
    second, others = wanted(5)
    for one in (*some, *others):
        window.add(one)
    assert window.jobs == {first, second}
