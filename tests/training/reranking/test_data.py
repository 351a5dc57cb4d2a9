"""What a re-ranker is trained and validated on."""

import json
import zipfile
import zlib
from pathlib import Path

import pytest

from tests.training.reranking.small import settings, translated, write_data
from training.corpora.catalog import load_catalog
from training.corpora.leakage import EvaluationSentences
from training.errors import ConfigError, CorpusError, EvaluationError
from training.reranking.collection import Collection, Question
from training.reranking.config import RerankConfig
from training.reranking.data import MeasuredText, RerankData
from training.reranking.record import data_sources

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


def write_towns(folder: Path) -> dict[str, set[str]]:
    """Write a question set; return its texts by whether their passage has a CRC-32 of 0 modulo 10 in a language."""
    texts: dict[str, set[str]] = {"trained": set(), "held out": set()}
    rows = []
    for number in range(40):
        query, passage = f"where is town {number}", f"town {number} is on the river"
        sides = ((query, passage, "en"), (translated(query), translated(passage), "xx"))
        rows += [{"id": number + 1, "query": asked, "positive": answer, "qlang": name} for asked, answer, name in sides]
        is_out = any(zlib.crc32(answer.encode()) % 10 == 0 for _, answer, _ in sides)
        texts["held out" if is_out else "trained"] |= {text for side in sides for text in side[:2]}
    spaced = (json.dumps(row | {"positive": f"{row['positive']}  "}) + "\n" for row in rows)
    (folder / "qa/towns.jsonl").write_text("".join(spaced))
    return texts


@pytest.mark.parametrize("sources", [[], [{"path": "qa/train.jsonl"}]])
def test_held_out_passages_are_never_trained_on(base: Path, tmp_path: Path, sources: list[dict]) -> None:
    data = write_data(tmp_path / "data")
    texts = write_towns(data)
    validation = {"questions": 4, "candidates": 4, "sources": sources}
    run = run_data(base, data, train=[{"path": "qa/towns.jsonl"}], validation=validation, negatives={"count": 20})
    seen = {text.strip() for stage in run.xpr_stages() for pair in stage for text in (pair.query, pair.passage)}
    assert seen == texts["trained"]
    assert len(texts["held out"]) > 4 * 4
    assert (set(run.validation.queries) <= texts["held out"]) == (not sources)


def test_passages_of_parallel_text_are_not_held_out(base: Path, data: Path) -> None:
    run = run_data(base, data, train=[{"path": "parallel/talk", "format": "parallel"}])
    (source,) = run.config.train
    (trained,) = run.training
    assert trained.passages == run.read(source).passages
    assert len(trained.questions) == len(run.read(source).questions) - 3  # of validation


def test_record_names_the_licence_of_parallel_text(base: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    (data / "parallel/talk").rename(data / "parallel/tico19")
    run = run_data(base, data, train=[{"path": "parallel/tico19", "format": "parallel"}], xpi={"sources": ["tico19"]})
    assert [row["licence"] for row in data_sources(run.config, run)] == [load_catalog()["tico19"].licence] * 2


def test_pairs_without_a_side_join_no_sentences(base: Path, tmp_path: Path) -> None:
    for language, lines in {"xx": "Hallo\nEins\n\nGut\nGuto\n", "yy": "Salut\nDeux\nBien\n \nBon\n"}.items():
        (tmp_path / "parallel/talk").mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(tmp_path / f"parallel/talk/en-{language}.txt.zip", "w") as archive:
            archive.writestr("talk.en", "Hi\n\nFine\nGood\nGood\n")
            archive.writestr(f"talk.{language}", lines)
    found = run_data(base, tmp_path, languages=["en", "xx", "yy"]).parallel(["talk"])
    assert found == [
        {"en": "Hi", "xx": "Hallo", "yy": "Salut"},
        {"en": "Good", "xx": "Gut", "yy": "Bon"},
        {"en": "Good", "xx": "Guto"},
        {"en": "Fine", "yy": "Bien"},
    ]


def test_a_bad_line_names_no_setting_that_is_not_there(base: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    (data / "parallel/talk/en-xx.tsv").write_text("one\tone\nHi\n")
    source = {"path": "parallel/talk", "format": "parallel"}
    for read in (run_data(base, data).xpi_pairs, lambda: run_data(base, data, train=[source]).training):
        with pytest.raises(CorpusError, match=r"line 2 has 1 columns.* \(correct the line or take it out\)"):
            read()


def test_an_artifact_is_refused_before_anything_is_trained(base: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    measure = settings(base)["measure"] | {"bi_encoder": str(tmp_path)}
    with pytest.raises(EvaluationError, match=r"is an artifact, .* run training/run\.sh"):
        run_data(base, tmp_path, measure=measure)
    with pytest.raises(ConfigError, match=r"teach\.encoder .* is an artifact; name a sentence-transformers"):
        run_data(base, tmp_path, teach={"encoder": str(tmp_path)})
