"""POST /similarity: cosines of pairs, of one text with many, and of two lists."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.artifacts import TEXTS
from tests.service.api.answers import assert_refused, error_of

LONG = "guitar " * 50


def test_the_three_shapes_of_similarity_agree_with_numpy(client: TestClient) -> None:
    a, b, c = (np.asarray(row) for row in client.post("/embed", json={"inputs": list(TEXTS[:3])}).json())

    def ask(inputs: object) -> object:
        return client.post("/similarity", json={"inputs": inputs}).json()

    one_to_many = ask({"source_sentence": TEXTS[0], "sentences": list(TEXTS[1:3])})
    np.testing.assert_allclose(one_to_many, [a @ b, a @ c], atol=1e-6)
    pairs = ask({"pairs": [[TEXTS[0], TEXTS[1]], [TEXTS[1], TEXTS[2]]]})
    np.testing.assert_allclose(pairs, [a @ b, b @ c], atol=1e-6)
    matrix = ask({"left": list(TEXTS[:2]), "right": list(TEXTS[:3])})
    np.testing.assert_allclose(matrix, [[a @ a, a @ b, a @ c], [b @ a, b @ b, b @ c]], atol=1e-6)


def test_a_text_is_never_more_than_identical_to_itself(client: TestClient) -> None:
    scores = client.post("/similarity", json={"inputs": {"pairs": [[text, text] for text in TEXTS]}}).json()
    assert max(scores) <= 1
    assert min(scores) > 0.99999


def test_similarity_can_forbid_the_cut(client: TestClient) -> None:
    body = {"inputs": {"source_sentence": "a", "sentences": [LONG]}, "parameters": {"truncate": False}}
    assert_refused(client.post("/similarity", json=body), 422, "Tokenizer", "inputs.sentences[0] has ")


@pytest.mark.parametrize(
    ("inputs", "place"),
    [
        ({}, "inputs"),
        ({"pairs": []}, "inputs"),
        ({"pairs": [["a"]]}, "inputs"),
        ({"pairs": [["a", "b", "c"]]}, "inputs"),
        ({"left": [], "right": ["a"]}, "inputs"),
        ({"source_sentence": "a", "sentences": []}, "inputs"),
        ({"source_sentence": "a", "sentences": ["b"], "pairs": []}, "inputs"),
        ("text", "inputs"),
        ({"source_sentence": "", "sentences": ["a"]}, "inputs.source_sentence is empty"),
        ({"source_sentence": "a", "sentences": ["b", ""]}, "inputs.sentences[1] is empty"),
        ({"pairs": [["a", "b"], ["c", ""]]}, "inputs.pairs[1][1] is empty"),
        ({"pairs": [["a", "b"], ["c", 3]]}, "inputs.pairs[1][1]: "),
        ({"left": ["a"], "right": ["b", ""]}, "inputs.right[1] is empty"),
        ({"left": ["a", ""], "right": ["b"]}, "inputs.left[1] is empty"),
        ({"left": [1], "right": ["b"]}, "inputs.left[0]: "),
        ({"left": ["a"]}, "inputs.right: "),
        ({"source_sentence": "a", "sentences": ["b", 3]}, "inputs.sentences[1]: "),
        ({"source_sentence": 1, "sentences": ["b"]}, "inputs.source_sentence: "),
    ],
)
def test_an_error_names_the_place_as_the_client_wrote_it(client: TestClient, inputs: object, place: str) -> None:
    response = client.post("/similarity", json={"inputs": inputs})
    assert_refused(response, 422, "Validation")
    assert error_of(response).startswith(place)
