from training.reranking.collection import Collection, Question
from training.reranking.screening import MeasuredText, screen, screen_sentences

SENTENCE = "The quick brown fox jumps over the lazy dog near the river."
MEASURED = MeasuredText.of(
    [Collection((Question({"en": "who jumps over the dog"}, (0,)),), ({"en": f"{SENTENCE} And more follows here."},))]
)


def test_measured_passages_and_questions_are_dropped() -> None:
    passages = ({"en": f"Another window begins. {SENTENCE}"}, {"en": "free"}, {"de": "frei", "en": "free too"})
    questions = (
        Question({"en": "which animal"}, (0,)),  # its only passage is measured
        Question({"en": "Who jumps over the dog?"}, (1,)),  # measured itself
        Question({"en": "what is free"}, (0, 1), (0, 1, 2)),
    )
    found, dropped = screen(Collection(questions, passages), MEASURED)
    assert found == Collection((Question({"en": "what is free"}, (0,), (0, 1)),), passages[1:])
    assert dropped == {"questions": 2, "passages": 1}


def test_a_parallel_sentence_is_dropped_when_one_side_is_measured() -> None:
    kept = {"en": "nobody knows", "de": "niemand weiß"}
    assert screen_sentences([kept, {"en": SENTENCE, "de": "Der Fuchs"}], MEASURED) == [kept]
