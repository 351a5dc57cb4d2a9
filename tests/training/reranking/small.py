"""Small real parts for the tests of re-ranking: texts, a data folder, a student as base."""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, PreTrainedTokenizerFast

from tests.training.models.bases import SIZES
from tests.vocabularies import wordpiece
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder, save_sentence_encoder
from training.reranking.collection import Collection, Question
from training.reranking.pairs import TextPair
from training.reranking.ranking import RankingSet

THINGS = ["cat", "dog", "train", "river", "cheese", "piano", "winter", "garden", "island", "teacher", "window", "bread"]
PLACES = ["in the house", "near the sea", "under the old bridge", "behind the station"]
TEXTS = [f"where is the {thing} today" for thing in THINGS] + [
    f"the {thing} is {place} and stays there" for thing in THINGS for place in PLACES
]

PAIRS = [  # each question with a passage on each thing
    TextPair(TEXTS[thing], TEXTS[12 + 4 * other], ("en", "en"), float(thing == other))
    for thing in range(12)
    for other in range(12)
]
STAGE = {"epochs": 2.0, "batch_size": 8, "learning_rate": 3.0e-3, "validate_pairs": 40}


def translated(text: str) -> str:
    """The same text in a made-up second language: each word with a mark of its own."""
    return " ".join(f"{word}o" for word in text.split())


def student_base(folder: Path, *, seed: int = 0) -> Path:
    """A random student: recurrence, bottleneck, BERT's tokenizer; a sentence-transformers folder."""
    tokenizer = wordpiece([*TEXTS, *map(translated, TEXTS)])
    torch.manual_seed(seed)
    base = BertConfig(**{**SIZES, "num_hidden_layers": 2}, vocab_size=tokenizer.get_vocab_size())
    encoder = CrossletEncoder(CrossletConfig(base=shape_of(base), recurrences=2, bottleneck_size=8))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    save_sentence_encoder(SentenceEncoder(encoder, normalized=True), fast, folder, max_length=64)
    return folder


def question_rows(things: list[str], *, offset: int = 0) -> list[dict[str, str]]:
    """One question a thing, query and passage in two languages: four rows each."""
    rows = []
    for number, thing in enumerate(things, start=offset):
        query, passage = f"where is the {thing} today", f"the {thing} is {PLACES[number % 4]} and stays there"
        for qlang, asked in (("en", query), ("xx", translated(query))):
            for plang, answer in (("en", passage), ("xx", translated(passage))):
                row = {"id": str(number), "query": asked, "qlang": qlang, "positive": answer, "plang": plang}
                rows.append(row)
    return rows


def write_data(folder: Path) -> Path:
    """qa/train.jsonl, parallel/talk/en-xx.tsv and a measured set in eval/xset/."""
    for name in ("qa", "parallel/talk", "eval/xset"):
        (folder / name).mkdir(parents=True)
    rows = question_rows(THINGS[:9])
    (folder / "qa/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = [f"we saw the {thing} {place}" for thing in THINGS[:9] for place in PLACES]
    (folder / "parallel/talk/en-xx.tsv").write_text("".join(f"{text}\t{translated(text)}\n" for text in pairs))
    for language, translate in (("en", str), ("xx", translated)):
        things = list(enumerate(THINGS[9:]))
        (folder / f"eval/xset/queries.{language}.tsv").write_text(
            "".join(f"q{i}\tp{i}\t{translate(f'who has the {thing} now')}\n" for i, thing in things)
        )
        (folder / f"eval/xset/passages.{language}.tsv").write_text(
            "".join(f"p{i}\t{translate(f'somebody has taken the {thing} to a friend')}\n" for i, thing in things)
        )
    return folder


def a_ranking_set() -> RankingSet:
    """Three queries with all passages or some of them as candidates."""
    return RankingSet(
        TEXTS[:3],
        TEXTS[12:20],
        [np.arange(8), np.array([1, 4, 5]), np.array([7, 0])],
        [frozenset({0}), frozenset({4}), frozenset({7})],
    )


def collection_in(languages: list[str], questions: int, passages: int) -> Collection:
    return Collection(
        tuple(
            Question({name: f"{name} q{index}" for name in languages}, (index % passages,))
            for index in range(questions)
        ),
        tuple({name: f"{name} p{index}" for name in languages} for index in range(passages)),
    )


def settings(base: Path, **changes: object) -> dict:
    return {
        "kind": "reranker",
        "name": "small",
        "languages": ["en", "xx"],
        "base": str(base),
        "max_length": 32,
        "train": [{"path": "qa/train.jsonl"}],
        "negatives": {"count": 2},
        "validation": {"questions": 3, "candidates": 4},
        "xpi": {"sources": ["talk"], "count": 64, "stage": STAGE},
        "xpr": STAGE,
        "measure": {
            "sets": [{"path": "eval/xset", "format": "tsv"}],
            "couples": ["en-xx", "xx-xx"],
            "bi_encoder": str(base),
        },
        **changes,
    }
