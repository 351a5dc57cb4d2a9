"""Writes real checkpoint folders of cross-encoders: small random bodies of two families, trained for a few steps."""

import json
from pathlib import Path

import torch

from tests.training.models.bases import save_family
from tests.training.reranking.small import PLACES, THINGS, student_base
from training.losses import relevance
from training.models.cross_encoder import CrossEncoder, load_base
from training.reranking.checkpoint import save_cross_encoder
from training.reranking.pair_tokens import PairTokenizer

FAMILIES = ["bert", "xlm-roberta", "student"]
MAX_LENGTH = 32
STEPS = 40
KNOWN = len(THINGS) // 2  # passages on the first of the things are the answers
QUERIES = [f"where is the {thing} today" for thing in THINGS]
PASSAGES = [f"the {thing} is {place} and stays there" for thing in THINGS for place in PLACES]
TEXTS = [*QUERIES, *PASSAGES, "Ein Mann spielt Gitarre.", "A man is playing a guitar.", "The library opens at nine."]


def save_reranker(folder: Path, *, family: str = "bert") -> CrossEncoder:
    """Knows the first half of the things from the others; with its record."""
    base = student_base(folder / "base") if family == "student" else save_family(family, folder / "base", TEXTS)
    model, tokenizer = load_base(str(base), attention="eager")
    _train(model, PairTokenizer(tokenizer, max_length=MAX_LENGTH))
    save_cross_encoder(model, tokenizer, folder, name=f"tiny-{family}", languages=["en", "de"], max_length=MAX_LENGTH)
    write_record(folder, name=f"tiny-{family}")
    return model


def write_record(folder: Path, **changes: object) -> None:
    """`crosslet.json` as the pipeline writes it: each question has one answer among four passages."""
    places, others = len(PLACES), KNOWN * len(PLACES)
    record = {
        "name": "tiny",
        "languages": ["en", "de"],
        "max_length": MAX_LENGTH,
        "config": {"seed": 1, "strategy": "mixed"},
        "git_commit": "0123abc",
        "pairs_seen": {"xpi": 64, "xpr": 128},
        "evaluation": {"xset, mrr": {"re-ranker": {"mixed": 61.25}, "BM25": {"mixed": 40.0}}},
        "data": [{"source": "A set", "licence": "CC BY 4.0", "url": "", "pairs": 12}],
        "calibration_pairs": [(QUERIES[row // places], PASSAGES[row - shift]) for shift in (0, 5) for row in range(48)],
        "ranking_gate": {
            "queries": QUERIES[:KNOWN],
            "passages": PASSAGES,
            "candidates": [[places * row, *range(others + row, others + row + 3)] for row in range(KNOWN)],
            "positives": [[places * row] for row in range(KNOWN)],
        },
    }
    (folder / "crosslet.json").write_text(json.dumps(record | changes), encoding="utf-8")


def _train(model: CrossEncoder, tokenizer: PairTokenizer) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        asked, told = torch.randint(len(THINGS), (2, 16), generator=generator)
        queries = [QUERIES[thing] for thing in asked.tolist()]
        passages = [PASSAGES[thing * len(PLACES) + row % len(PLACES)] for row, thing in enumerate(told.tolist())]
        loss = relevance(model(*tokenizer.batch(queries, passages)), told < KNOWN)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
