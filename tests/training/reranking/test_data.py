"""What a re-ranker is trained and validated on."""

import json
from itertools import combinations
from pathlib import Path

import pytest

from tests.training.reranking.small import THINGS, settings, translated, write_data
from training.corpora.leakage import EvaluationSentences
from training.errors import EvaluationError
from training.reranking.collection import Collection, Question
from training.reranking.config import RerankConfig
from training.reranking.data import MeasuredText, RerankData

SENTENCE = "The quick brown fox jumps over the lazy dog near the river."
MEASURED = MeasuredText(
    [Collection((Question({"en": "who jumps over the dog"}, (0,)),), ({"en": f"{SENTENCE} And more follows here."},))],
    EvaluationSentences(["Der Fuchs"]),
)


def run_data(base: Path, data: Path, **changes: object) -> RerankData:
    return RerankData(RerankConfig.model_validate(settings(base, **changes)), data)


def test_measured_passages_and_questions_are_dropped() -> None:
    passages = ({"en": f"Another window begins. {SENTENCE}"}, {"en": "free"}, {"de": "frei", "en": "free too"})
    questions = (
        Question({"en": "which animal"}, (0,)),  # its only passage is measured
        Question({"en": "Who jumps over the dog?"}, (1,)),  # measured itself
        Question({"en": "what is free"}, (0, 1), (0, 1, 2)),
    )
    found = Collection(questions, passages).restricted(lambda texts: not MEASURED.has(texts))
    assert found == Collection((Question({"en": "what is free"}, (0,), (0, 1)),), passages[1:])


def test_a_sentence_with_a_measured_side_is_measured() -> None:
    assert not MEASURED.has({"en": "nobody knows", "de": "niemand weiß"})
    assert MEASURED.has({"en": SENTENCE, "de": "etwas anderes"})
    assert MEASURED.has({"en": "something else", "de": "der Fuchs!"})


def test_a_limited_source_gives_questions_from_all_over_it(base: Path, data: Path, tmp_path: Path) -> None:
    run = run_data(base, data, train=[{"path": "qa/train.jsonl", "questions": 3, "parallel": True}])
    (source,) = run.config.train
    found, whole = run.read(source), run.read(source.model_copy(update={"questions": None})).questions
    assert [question.texts for question in found.questions] == [whole[row].texts for row in (0, 4, 8)]


def test_a_parallel_source_has_only_what_is_in_all_languages(base: Path, tmp_path: Path) -> None:
    rows = [
        {"id": "1", "query": "why", "qlang": "en", "positive": "so", "plang": "en"},
        {"id": "1", "query": "whyo", "qlang": "xx", "positive": "soo", "plang": "xx"},
        {"id": "2", "query": "who", "qlang": "en", "positive": "I", "plang": "en"},
    ]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = run_data(base, tmp_path, train=[{"path": "qa.jsonl", "parallel": True}])
    found = run.read(run.config.train[0])
    assert [dict(question.texts) for question in found.questions] == [{"en": "why", "xx": "whyo"}]
    assert [dict(passage) for passage in found.passages] == [{"en": "so", "xx": "soo"}]


def test_measured_text_is_not_trained_on(base: Path, data: Path, tmp_path: Path) -> None:
    leaky = {"sets": [{"path": "eval/xset", "format": "tsv"}], "unseen": [{"path": "qa/unseen.jsonl"}]}
    first = (data / "qa/train.jsonl").read_text().splitlines(keepends=True)[:8]  # two questions
    (data / "qa/unseen.jsonl").write_text("".join(first))
    found = run_data(base, data, measure=leaky)
    trained = {pair.query for stage in found.xpr_stages() for pair in stage}
    assert "where is the cat today" not in trained
    assert trained
    assert not any(found.measured.has({"en": text}) for text in trained)


def test_held_out_questions_are_not_trained_on(base: Path, data: Path, tmp_path: Path) -> None:
    found = run_data(base, data)
    assert len(found.validation) == 3
    assert not {pair.query for stage in found.xpr_stages() for pair in stage} & set(found.validation.queries)


def test_questions_are_switched_by_a_learned_dictionary(base: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    (data / "parallel/asked").mkdir()
    asked = [f"{one} {other}" for one, other in combinations(["where", "is", "the", "today", *THINGS[:9]], 2)]
    (data / "parallel/asked/en-xx.tsv").write_text("".join(f"{text}\t{translated(text)}\n" for text in asked))
    switch = {"sources": ["asked"], "share": 1.0, "words": 1.0, "foreign": 0.0}
    plain = run_data(base, data, strategy="merged")
    switched = run_data(base, data, strategy="merged", code_switch=switch)
    other = {"en": "xx", "xx": "en"}
    before, after = plain.xpr_stages()[0], switched.xpr_stages()[0]
    assert [pair.passage for pair in after] == [pair.passage for pair in before]
    assert [pair.languages[0] for pair in after] == [other[pair.languages[0]] for pair in before]
    assert {pair.query for pair in after} == {pair.query for pair in before}  # each is there in both languages
    assert plain.fingerprint() != switched.fingerprint()  # which reads `asked`, too


def test_an_artifact_is_refused_before_anything_is_trained(base: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    measure = settings(base)["measure"] | {"bi_encoder": str(tmp_path)}
    with pytest.raises(EvaluationError, match=r"is an artifact, .* run training/run\.sh"):
        run_data(base, tmp_path, measure=measure)
