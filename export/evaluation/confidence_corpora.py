"""Reads the corpora that an artifact's confidence is fitted on and measured on: documents, and questions about them.

Fitted on: the search set's dev, the held-out passages of question sets, bitcoin.org's FAQ, also with each answer in one
language alone; and on short documents: the FAQ's questions, STSb dev. Measured on: the search set's test, XQuAD's odd
questions, BiPaR; and on short documents: those questions, Tatoeba.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from service.documents.document import Document
from training.corpora.leakage import clean_passage, is_held_out
from training.errors import EvaluationError
from training.evaluation.bitext import Bitext, find_bitext
from training.evaluation.lines import find_file, read_json_lines, read_lines
from training.evaluation.search import bundled_search
from training.evaluation.sts import find_sts, is_monolingual
from training.reranking.collection import evenly_spaced
from training.reranking.readers import find_collection, read_collection

QUESTION_SETS = (
    *("arcd", "boolq_part", "cmrc2018", "covid_qa_deepset", "drcd", "faquad", "idk_mrc", "jaquad", "jsquad"),
    *("medquad", "nq_qed_dev", "pubmedqa_l", "tydiqa_goldp"),
)
FAQ, FAQ_IDS = "faq_multilingual", "bitcoin"
DRAWS = 3  # of a language for each answer
MOST_QUESTIONS, MOST_PASSAGES = 150, 500  # of a corpus to fit on
MOST_MEASURED = 500  # questions of a corpus to measure with
SMALL, FEW = 240, 5  # documents of corpora that are also asked with a filter, and topics that it leaves
BITEXT_STEP = 5  # of a file, pairs to measure with
JOINED = 5  # XQuAD's passages of an article
QUESTION_MARKS = "?\uff1f\u061f"
MODES, RERANKED = ("hybrid", "dense"), "reranked"


@dataclass(frozen=True)
class Asked:
    """A question, and the topics of the documents that answer it."""

    text: str
    topics: frozenset[str]


@dataclass(frozen=True)
class Corpus:
    """Documents with a topic each, which translations share, and questions about them.

    is_multilingual: corpora in several languages together weigh as much as those in one.
    few: each search is filtered to so many topics, drawn by chance, and what answers; 0: to nothing.
    is_short: documents are sentences or questions, each asked for in another language.
    is_crowded: whether it is also asked beside the others and distractors.  is_beside: whether that is this one.
    """

    name: str
    documents: Sequence[Document]
    questions: Sequence[Asked]
    is_multilingual: bool = True
    few: int = 0
    is_short: bool = False
    is_crowded: bool = True
    is_beside: bool = False
    modes: Sequence[str] = (*MODES, RERANKED)

    def filters(self) -> Iterator[dict[str, object]]:
        """Yield the filter of each question's search."""
        draw = random.Random(0)  # noqa: S311 - no secret
        topics = sorted({str(document.metadata["topic"]) for document in self.documents})
        for question in self.questions:
            others = [topic for topic in topics if topic not in question.topics] if self.few else []
            some = draw.sample(others, min(self.few, len(others)))
            yield {"topic": {"in": [*sorted(question.topics), *some]}} if self.few else {}

    def spaced(self, most: int) -> Corpus:
        """Return the corpus with at most so many of its questions, evenly spaced."""
        return replace(self, questions=[self.questions[row] for row in evenly_spaced(len(self.questions), most)])


def fitted_on(data: Path) -> Iterator[Corpus]:
    """Yield the corpora to fit on. Raises: EvaluationError: there is no question set, or a set is malformed."""
    yield _search_set(is_dev=True)
    folder = data / "qa"
    names = [name for name in QUESTION_SETS if find_file(folder / f"{name}.jsonl")]
    if not names:
        raise EvaluationError(f"{folder} has none of the question sets: {', '.join(QUESTION_SETS)}")
    yield from (_held_out(folder / f"{name}.jsonl", name) for name in names)
    if (path := find_file(folder / f"{FAQ}.jsonl")) is not None:
        rows = [row for row in read_json_lines(path, ("query", "positive")) if str(row.get("id")).startswith(FAQ_IDS)]
        faq = _faq(rows)
        yield faq
        for seed in range(DRAWS):
            documents = _one_a_topic(faq.documents, seed)
            yield replace(faq, name=f"{faq.name}_{seed}", documents=documents, is_crowded=False)
        yield _short(f"{FAQ_IDS}_questions", ((row["id"], row["query"]) for row in rows)).spaced(MOST_QUESTIONS)
    yield _short("stsb_dev", _stsb_sentences(data / "eval" / "stsb" / "dev")).spaced(MOST_QUESTIONS)


def measured_on(data: Path, languages: Collection[str]) -> Iterator[Corpus]:
    """Yield the corpora to measure on, as far as there are. Raises: EvaluationError: a set is malformed.

    languages: of translations.
    """
    yield _search_set(is_dev=False)
    if (folder := data / "eval" / "xquad").is_dir():
        every = _translated(folder, "xquad_translated", step=2)
        mixed = replace(every, name="xquad_mixed", documents=_one_a_topic(every.documents, 0))
        yield mixed
        for language in sorted({document.id.partition("/")[2] for document in every.documents}):
            questions = _translated(folder, "xquad", step=2, language=language).questions
            yield replace(mixed, name=f"xquad_{language}", questions=questions, modes=MODES[:1], is_crowded=False)
        yield replace(every, is_crowded=False)
        long = _translated(folder, "xquad_long", step=2, joined=JOINED)
        yield replace(long, documents=_one_a_topic(long.documents, 0), is_crowded=False)
        yield _short("xquad_questions", _xquad_questions(folder)).spaced(MOST_MEASURED)
    if (folder := data / "eval" / "tatoeba").is_dir():
        sets = {name: bitext for name, bitext in find_bitext(folder).items() if name in languages}
        yield _short("tatoeba", _sides(sets)).spaced(MOST_MEASURED)
    if (folder := data / "eval" / "bipar" / "test").is_dir():
        bipar = _translated(folder, "bipar", step=1)
        yield replace(bipar, documents=_one_a_topic(bipar.documents, 0))


def with_few(corpora: Iterable[Corpus]) -> Iterator[Corpus]:
    """Yield corpora that have questions, and those in which every search is filtered to few documents."""
    for corpus in filter(lambda corpus: corpus.questions, corpora):
        yield corpus
        if len(corpus.documents) <= SMALL and RERANKED in corpus.modes:
            yield replace(corpus, name=f"{corpus.name}_few", few=FEW)


def crowded(corpora: Iterable[Corpus], sentences: Sequence[str]) -> Iterator[Corpus]:
    """Yield those that may, beside each other and sentences that answer nothing; none if there is no sentence.

    Short documents, which repeat the questions about others, are in a collection of their own.
    """
    able = [corpus for corpus in corpora if corpus.is_crowded and not corpus.few and sentences]
    for is_short in (False, True):
        yield from _together([corpus for corpus in able if corpus.is_short == is_short], sentences)


def _together(apart: Sequence[Corpus], sentences: Sequence[str]) -> Iterator[Corpus]:
    documents = [_document("", text, f"distractor {number}") for number, text in enumerate(sentences)]
    for corpus in apart:
        documents += [
            _document(f"{corpus.name} {document.metadata['topic']}", document.text, f"{corpus.name} {document.id}")
            for document in corpus.documents
        ]
    for corpus in apart:
        questions = [
            Asked(question.text, frozenset(f"{corpus.name} {topic}" for topic in question.topics))
            for question in corpus.questions
        ]
        yield replace(corpus, name=f"{corpus.name}_large", documents=documents, questions=questions, is_beside=True)


def read_distractors(data: Path, count: int) -> list[str]:
    """Return sentences of DIR/mono, evenly spaced, without questions. Raises: EvaluationError: there are fewer."""
    if not count:
        return []
    paths = sorted(path for path in (data / "mono").glob("*/*") if path.name.endswith((".txt", ".txt.gz")))
    lines = dict.fromkeys(line.strip() for path in paths for line in read_lines(path))
    sentences = [line for line in lines if line and line[-1] not in QUESTION_MARKS]
    if len(sentences) < count:
        raise EvaluationError(f"{data / 'mono'} has {len(sentences)} sentences; --distractors asks for {count}")
    return [sentences[row] for row in evenly_spaced(len(sentences), count)]


def _search_set(*, is_dev: bool) -> Corpus:
    found = bundled_search()
    documents = [_document(str(row), text) for row, text in enumerate(found.documents)]
    questions = [
        Asked(query.text, frozenset() if query.document is None else frozenset({str(query.document)}))
        for query in found.queries
        if query.is_dev == is_dev
    ]
    return Corpus(f"search_{'dev' if is_dev else 'test'}", documents, questions)


def _held_out(path: Path, name: str) -> Corpus:
    """Return the passages of a question set that no model has seen, evenly spaced, and their questions."""
    collection = read_collection(path, "jsonl")
    asked: dict[str, set[str]] = {}
    passages: dict[str, None] = {}
    for question in collection.questions:
        for language, text in question.texts.items():
            for index in question.positives:
                passage = clean_passage(collection.passages[index].get(language, ""))
                if passage and is_held_out(passage):
                    passages[passage] = None
                    asked.setdefault(" ".join(text.lstrip("- ").split()), set()).add(passage)
    every = [*passages]
    topic_of = {every[row]: str(number) for number, row in enumerate(evenly_spaced(len(every), MOST_PASSAGES))}
    questions = [
        Asked(text, frozenset(topic_of[passage] for passage in answers))
        for text, answers in asked.items()
        if answers <= topic_of.keys()
    ]
    documents = [_document(topic, passage) for passage, topic in topic_of.items()]
    return Corpus(name, documents, questions, is_multilingual=False).spaced(MOST_QUESTIONS)


def _faq(rows: Sequence[Mapping[str, str]]) -> Corpus:
    documents = [_document(row["id"], row["positive"], number) for number, row in enumerate(rows)]
    return Corpus(FAQ_IDS, documents, [Asked(row["query"], frozenset({row["id"]})) for row in rows]).spaced(
        MOST_QUESTIONS
    )


def _short(name: str, versions: Iterable[tuple[str, str]]) -> Corpus:
    """Return a version of each topic as a document, asked for by the others. versions: topics and texts."""
    draw = random.Random(0)  # noqa: S311 - no secret
    by_topic: dict[str, dict[str, None]] = {}
    for topic, text in versions:
        by_topic.setdefault(topic, {})[text] = None
    documents: list[Document] = []
    questions: list[Asked] = []
    seen: set[str] = set()
    for topic, texts in by_topic.items():
        if len(texts) > 1 and seen.isdisjoint(texts):  # no text may have two topics
            chosen = draw.choice([*texts])
            documents.append(_document(topic, chosen))
            questions += [Asked(text, frozenset({topic})) for text in texts if text != chosen]
        seen.update(texts)
    return Corpus(name, documents, questions, is_short=True)


def _stsb_sentences(folder: Path) -> list[tuple[str, str]]:
    files = [read for pair, read in sorted(find_sts(folder).items()) if is_monolingual(pair)]
    return [(str(number), sentence) for read in files for number, sentence in enumerate(read()[1])]


def _xquad_questions(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the odd questions, in all languages."""
    collection = find_collection(folder)
    for number, question in enumerate(collection.questions[1::2] if collection else ()):
        yield from ((str(number), text) for _, text in sorted(question.texts.items()))


def _sides(sets: Mapping[str, Bitext]) -> Iterator[tuple[str, str]]:
    """Yield both sides of every so manieth pair."""
    for language, bitext in sets.items():
        for number, pair in list(enumerate(zip(*bitext.read(), strict=True)))[::BITEXT_STEP]:
            yield from ((f"{language} {number}", text) for text in pair)


def _translated(folder: Path, name: str, *, step: int, joined: int = 1, language: str | None = None) -> Corpus:
    """Return all passages in all languages, and every so manieth question, from the second, each in one language.

    joined: so many passages in a row are a document.  language: of the questions; None: drawn by chance.
    """
    collection = find_collection(folder)
    if collection is None:
        raise EvaluationError(f"{folder} has no questions and passages")
    draw = random.Random(0)  # noqa: S311 - no secret
    texts: dict[tuple[int, str], list[str]] = {}
    for number, passage in enumerate(collection.passages):
        for of_language, text in sorted(passage.items()):
            texts.setdefault((number // joined, of_language), []).append(text)
    documents = [_document(str(topic), "\n\n".join(parts), f"{topic}/{code}") for (topic, code), parts in texts.items()]
    questions = [
        Asked(
            question.texts[language] if language else draw.choice([text for _, text in sorted(question.texts.items())]),
            frozenset(str(number // joined) for number in question.positives),
        )
        for question in collection.questions[step - 1 :: step]
        if language is None or language in question.texts
    ]
    return Corpus(name, documents, questions).spaced(MOST_MEASURED)


def _one_a_topic(documents: Sequence[Document], seed: int) -> list[Document]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    by_topic: dict[str, list[Document]] = {}
    for document in documents:
        by_topic.setdefault(str(document.metadata["topic"]), []).append(document)
    return [draw.choice(translations) for translations in by_topic.values()]


def _document(topic: str, text: str, id_: object = None) -> Document:
    return Document(topic if id_ is None else str(id_), text, {"topic": topic})
