"""Unigram vocabularies: the ids of `tokenizers`, from less memory."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from service.model.tokenizer import Tokenizer as ServedTokenizer
from service.model.tokenizer_file import LibraryTokenizer, UnigramTokenizer, is_unigram
from training.vocabulary.tokenizer import drop_invisible

PIECES = [
    *[("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0), ("▁the", -4.0), ("▁t", -5.5)],
    *[("he", -5.0), ("e", -4.0), ("h", -6.0), ("s", -4.5), ("er", -5.2), ("r", -6.0), ("▁re", -5.1), ("t", -5.0)],
    *[("配", -6.0), ("送", -6.1), ("配送", -7.0), ("▁配", -8.0), ("क", -7.0), ("ा", -7.1), ("का", -7.2), ("😀", -9.0)],
    *[("<mask>", 0.0)],
]
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXTS = st.text(st.sampled_from("thesr 配送का😀xꙮ\u00ad\u200d\u200c\t\n\u3000▁ﬁ<>/"), max_size=30) | st.text(
    max_size=20
)


def xlmr_like() -> Tokenizer:
    tokenizer = Tokenizer(Unigram(PIECES, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    drop_invisible(tokenizer)
    return tokenizer


WHOLE = xlmr_like()
WHOLE.encode_special_tokens = True  # spelt out in a text they are text
SMALL = UnigramTokenizer(json.loads(WHOLE.to_str()))


@given(TEXTS)
def test_unigram_ids_equal_those_of_tokenizers(text: str) -> None:
    normal = WHOLE.normalizer.normalize_str(text)
    assume(not any(special in normal for special in SPECIALS))  # `tokenizers` finds them among the pieces
    assert SMALL.encode(text) == WHOLE.encode(text).ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [0, 2]),
        (" ", [0, 2]),  # its normaliser strips
        ("the rest", [0, 5, 13, 10, 14, 2]),
        ("配送", [0, 4, 17, 2]),
        ("<mask>", [0, 4, 3, 10, 3, 2]),  # no special token: unknown characters, and an s
        ("<s>", [0, 4, 3, 10, 3, 2]),
        ("th\u00ade", [0, 5, 2]),
        ("😀", [0, 4, 22, 2]),
    ],
)
def test_unigram_ids_of_known_texts(text: str, ids: list[int]) -> None:
    assert SMALL.encode(text) == ids
    assert SMALL.encode_all([text, text]) == [ids, ids]


def test_unigram_texts_are_truncated_like_others(tmp_path: Path) -> None:
    xlmr_like().save(str(tmp_path / "tokenizer.json"))
    tokenizer = ServedTokenizer(tmp_path / "tokenizer.json", max_length=4)
    assert isinstance(tokenizer._tokenizer, UnigramTokenizer)
    assert tokenizer.highest_id == 23
    assert tokenizer.tokenise("the rest").input_ids == [0, 5, 13, 2]
    assert tokenizer.tokenise("the rest").full_length == 6
    assert tokenizer.tokenise("the " * 5000).full_length == 5002
    assert [one.input_ids for one in tokenizer.tokenise_all(["the", "配送"])] == [[0, 5, 2], [0, 4, 17, 2]]


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}},
        {"model": {"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]], "byte_fallback": False}},
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a▁b", 0.0]] * 30, "byte_fallback": False}},
        {"post_processor": {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}},
    ],
    ids=["no words", "first word alone", "no unknown piece", "piece over two words", "another frame"],
)
def test_other_settings_are_no_unigram(change: dict[str, Any]) -> None:
    assert is_unigram(json.loads(xlmr_like().to_str()))
    assert not is_unigram({**json.loads(xlmr_like().to_str()), **change})


def test_added_word_makes_it_a_library_tokenizer(tmp_path: Path) -> None:
    tokenizer = xlmr_like()
    tokenizer.add_tokens(["crosslet"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    served = ServedTokenizer(tmp_path / "tokenizer.json", max_length=8)
    assert isinstance(served._tokenizer, LibraryTokenizer)
    assert served.tokenise("crosslet").input_ids == tokenizer.encode("crosslet").ids
