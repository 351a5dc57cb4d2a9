from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from service.model import tokenizer
from service.model.prompts import Prompts
from tests.training.evaluation.test_sts import encode_by_length
from tests.training.files import write
from tests.training.tiny import tiny_sentence_encoder
from training.errors import EvaluationError
from training.evaluation.encoders import WHITE_SPACE, TextEncoder, default_prompt, load_model, search_prompts, stripped
from training.evaluation.report import evaluate, markdown, with_average
from training.evaluation.vectors import each_text_once
from training.models.sentence_encoder import save_sentence_encoder

SENTENCES = ["der hund bellt", "a man", "the man plays the guitar", "der mann spielt", "guitar", "hund"]


def save_transformers_model(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_sets(root: Path) -> Path:
    """One set of each kind: STS in German, French and English, Tatoeba in German and French, and passages."""
    rows = ["5\ta man plays\ta man plays", "0\ta man plays\tthe market fell on it", "3\ta man\ta man plays"]
    for pair in ("en-de", "de-de", "en-fr"):
        write(root / f"stsb/test/{pair}.tsv", *rows)
    for code in ("deu", "fra"):
        write(root / f"tatoeba/tatoeba.{code}-eng.{code}", "a", "bbb", "ccccc", "ddddddd")
        write(root / f"tatoeba/tatoeba.{code}-eng.eng", "x", "yyy", "zzzzz", "wwwwwww")
    write(root / "news/queries.tsv", "q1\taa")
    write(root / "news/passages.tsv", "p1\tcc", "p2\tddddd")
    write(root / "news/qrels.tsv", "q1\tp1")
    return root


@pytest.mark.parametrize(
    ("texts", "default"),
    [
        ({}, None),
        ({"query": "", "document": ""}, None),
        ({"query": "q: ", "document": "", "passage": "p: "}, None),
        ({"query": "", "corpus": "c: ", "sts": "s: "}, "sts"),
        ({"sts": "s: "}, "sts"),
    ],
)
def test_prompts_are_those_that_the_service_chooses(texts: dict[str, str], default: str | None) -> None:
    model: Any = SimpleNamespace(prompts=texts, default_prompt_name=default)
    served = Prompts(texts, default)
    assert (default_prompt(model), *search_prompts(model)) == (served.default, served.query, served.document)


def test_texts_are_stripped_as_in_the_service() -> None:
    assert WHITE_SPACE == tokenizer.WHITE_SPACE
    for text in (" a b\u200b", "\n ", ""):
        assert stripped(text) == tokenizer.stripped(text)


@pytest.mark.parametrize("bf16", [False, True])
def test_vector_does_not_depend_on_its_batch(small_tokenizer: PreTrainedTokenizerFast, bf16: bool) -> None:
    encode = TextEncoder(tiny_sentence_encoder(), small_tokenizer, max_length=24, bf16=bf16)
    together = encode(SENTENCES)
    alone = np.concatenate([encode([text]) for text in SENTENCES])
    assert together == pytest.approx(alone, abs=3e-2 if bf16 else 1e-6)
    assert encode(SENTENCES[::-1]) == pytest.approx(together[::-1], abs=1e-6)


def test_each_text_is_encoded_once_and_in_its_place() -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return encode_by_length(texts)

    remembering = each_text_once(encode)
    remembering(["bb", "a", "bb"])
    assert remembering(["ccc", "a", "bb"]) == pytest.approx(encode_by_length(["ccc", "a", "bb"]))
    assert asked == ["bb", "a", "ccc"]


def test_a_model_that_gives_no_numbers_cannot_be_scored() -> None:
    with pytest.raises(EvaluationError, match="vectors with NaN or infinity"):
        each_text_once(lambda texts: np.full((len(texts), 2), np.nan, dtype=np.float32))(["a"])


def test_a_checkpoint_gives_the_vectors_it_had_in_training(
    tmp_path: Path, small_tokenizer: PreTrainedTokenizerFast
) -> None:
    trained = tiny_sentence_encoder(recurrences=2, bottleneck_size=4)
    save_sentence_encoder(trained, small_tokenizer, tmp_path / "checkpoint", max_length=24)
    (tmp_path / "checkpoint/crosslet.json").write_text('{"languages": ["de", "en"]}')
    model = load_model(str(tmp_path / "checkpoint"))
    expected = TextEncoder(trained, small_tokenizer, max_length=24)(SENTENCES)
    assert model.encode(SENTENCES) == pytest.approx(expected, abs=1e-6)
    assert (model.languages, model.dim, model.max_length) == (["de", "en"], 16, 24)


@pytest.mark.parametrize("kind", ["transformers", "sentence-transformers"])
def test_other_folders_give_vectors_of_sentence_transformers(
    tmp_path: Path, small_tokenizer: PreTrainedTokenizerFast, kind: str
) -> None:
    folder = save_transformers_model(tmp_path / "bert", small_tokenizer)
    reference = SentenceTransformer(str(folder), device="cpu")
    if kind == "sentence-transformers":
        reference.save(str(tmp_path / "saved"), create_model_card=False)
        folder = tmp_path / "saved"
    model = load_model(str(folder))
    assert model.encode(SENTENCES) == pytest.approx(reference.encode(SENTENCES), abs=1e-6)
    assert (model.name, model.languages) == (folder.name, None)
    assert model.parameters == sum(parameter.numel() for parameter in reference.parameters())


def test_a_changed_folder_has_another_revision(tmp_path: Path, small_tokenizer: PreTrainedTokenizerFast) -> None:
    folder = save_transformers_model(tmp_path / "bert", small_tokenizer)
    before = load_model(str(folder)).revision
    (folder / "README.md").write_text("changed")
    assert load_model(str(folder)).revision != before


def test_a_training_run_measures_sts_and_tatoeba(tmp_path: Path) -> None:
    write_sets(tmp_path / "eval")
    scores = evaluate(encode_by_length, tmp_path, ["de", "th"])
    assert scores.keys() == {"stsb_test", "stsb_test_monolingual", "tatoeba_p1"}  # there is no dev set here
    assert scores["stsb_test"].keys() == {"en-de", "average"}
    assert scores["stsb_test_monolingual"].keys() == {"de-de", "average"}
    assert scores["tatoeba_p1"] == {"de": 100.0, "average": 100.0}


def test_a_training_run_measures_sts2017_where_it_is(tmp_path: Path) -> None:
    rows = ["a man plays\ta man plays\t5.0", "a man plays\tthe market fell on it\t0.0", "a man\ta man plays\t3.0"]
    for pair in ("de-en", "en-fr", "en-en"):
        write(tmp_path / f"eval/STS2017-extended/STS.{pair}.txt", *rows)
    scores = evaluate(encode_by_length, tmp_path, ["de", "fr"])
    assert scores["sts2017"].keys() == {"de-en", "en-fr", "average"}
    assert scores["sts2017_monolingual"].keys() == {"en-en", "average"}


def test_an_average_is_added() -> None:
    assert with_average({"de": 60.0, "fr": 70.0}) == {"de": 60.0, "fr": 70.0, "average": 65.0}
    assert with_average({}) == {}


def test_metrics_of_the_same_columns_share_a_table() -> None:
    scores = {"p1": {"de": 1.0, "average": 1.0}, "margin": {"de": 0.5}, "sts": {"en-de": 60.0, "average": 60.0}}
    assert markdown(scores) == (
        "|  | de | average |\n| --- | ---: | ---: |\n| p1 | 1.00 | 1.00 |\n| margin | 0.50 |  |\n\n"
        "|  | en-de | average |\n| --- | ---: | ---: |\n| sts | 60.00 | 60.00 |"
    )
