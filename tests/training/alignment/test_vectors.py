import numpy as np
import pytest

from training.alignment.layers import Vectors
from training.alignment.vectors import CHUNK, Known
from training.errors import AlignmentError


def test_each_text_is_encoded_once_and_found_in_order() -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> Vectors:
        asked.extend(texts)
        return np.array([[float(text)] for text in texts], np.float32)

    known = Known(encode)
    numbers = [str(number) for number in range(CHUNK + 5)]
    known.learn([*numbers, "0"])
    assert known(["7", "600000", "7", "0"]).tolist() == [[7], [600000], [7], [0]]
    assert asked == [*numbers, "600000"]


def test_a_vector_that_is_no_number_is_refused() -> None:
    with pytest.raises(AlignmentError, match="not finite numbers; it cannot be aligned"):
        Known(lambda texts: np.full((len(texts), 2), np.nan, np.float32))(["a"])
