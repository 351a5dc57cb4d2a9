import pytest
from transformers import AutoTokenizer

from tests.export.checkpoints import MINILM
from training.adaptation.start import check_known, fertility
from training.errors import AlignmentError


def test_pieces_are_counted_by_hand() -> None:
    found = fertility(["the cat", "unbelievably the"], AutoTokenizer.from_pretrained(MINILM))
    pieces = 2 + len(AutoTokenizer.from_pretrained(MINILM).tokenize("unbelievably")) + 1
    assert found.pieces_a_word == pytest.approx(pieces / 4)
    assert found.characters_a_piece == pytest.approx(23 / pieces)
    assert found.unknown == 0


def test_language_outside_the_vocabulary_is_refused() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    found = fertility(["ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾᛁᛃ"], tokenizer)
    assert found.unknown == 1
    with pytest.raises(AlignmentError, match=r"100 % of the pieces of column 2 \(non\); 30 % are allowed"):
        check_known(found, column=2, language="non")
    check_known(fertility(["the cat"], tokenizer), column=1, language="en")
