from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

from export.evaluation.__main__ import evaluate_parser
from export.evaluation.models import load_model, probabilities, two_stage_scorer
from service.model.encoder import load_encoder
from service.settings import Settings
from tests.artifacts import TEXTS, build_artifact
from tests.training.evaluation.test_encoders import save_transformers_model
from training.errors import EvaluationError
from training.reranking.ranking import RankingSet, Scorer, score_ranking


def test_an_artifact_is_encoded_as_the_service_encodes_it(tmp_path: Path) -> None:
    manifest = build_artifact(tmp_path)
    model = load_model(str(tmp_path))
    texts = [*TEXTS, *(f"{text} {number}" for text in TEXTS for number in range(20))]  # more than one chunk
    service = load_encoder(tmp_path)
    assert (model.encode(texts) == np.stack([service.encode(text).vector for text in texts])).all()
    assert (model.revision, model.languages) == (manifest.fingerprint, list(manifest.languages))


def test_cut_vectors_are_the_first_dimensions(tmp_path: Path) -> None:
    build_artifact(tmp_path)
    model = load_model(str(tmp_path))
    cut = model.cut(3)
    assert (cut.encode_query(TEXTS) == model.encode_query(TEXTS)[:, :3]).all()
    assert cut.encode is cut.encode_document  # equal prompts: no text is encoded twice
    assert model.cut(None) is model
    with pytest.raises(EvaluationError, match=f"--dimensions is {model.dim + 1}; the model has {model.dim}"):
        model.cut(model.dim + 1)


def test_texts_queries_and_documents_get_their_prompts(
    tmp_path: Path, small_tokenizer: PreTrainedTokenizerFast
) -> None:
    prompts = {"query": "ein mann ", "document": "der hund ", "sts": "a man "}
    build_artifact(tmp_path / "artifact", prompts=prompts, default_prompt_name="sts")
    service = load_encoder(tmp_path / "artifact")
    plain = SentenceTransformer(str(save_transformers_model(tmp_path / "bert", small_tokenizer)), device="cpu")
    folder = SentenceTransformer(modules=list(plain), device="cpu", prompts=prompts, default_prompt_name="sts")
    folder.save(str(tmp_path / "saved"), create_model_card=False)
    for path, expected in {
        tmp_path / "artifact": lambda text: service.encode(text).vector,
        tmp_path / "saved": plain.encode,
    }.items():
        model = load_model(str(path))
        for encode, name in ((model.encode, "sts"), (model.encode_query, "query"), (model.encode_document, "document")):
            assert encode(["ein text"])[0] == pytest.approx(expected(f"{prompts[name]}ein text"), abs=1e-6)


def test_second_stage_reorders_the_head_of_the_first_alone() -> None:
    found = RankingSet(["q"], list("abcde"), [np.array([4, 3, 2, 1, 0])], [frozenset({1})])
    cosines = {4: 0.1, 3: 0.9, 2: 0.8, 1: 0.7, 0: 0.2}
    second = {3: 0.0, 2: 0.1, 1: 0.9}  # of the first three alone: another candidate is a KeyError

    def scorer(values: dict[int, float]) -> Scorer:
        return lambda one: [np.array([values[index] for index in row.tolist()]) for row in one.candidates]

    orders = {0.0: [3, 2, 1, 0, 4], 0.5: [3, 1, 2, 0, 4], 1.0: [1, 3, 2, 0, 4], "alone": [1, 2, 3, 0, 4]}
    for weight, expected in orders.items():
        scores = two_stage_scorer(scorer(cosines), scorer(second), 3, weight)(found)
        assert found.candidates[0][np.argsort(-scores[0])].tolist() == expected
    assert score_ranking(found, scores)["acc@1"] == 100


def test_the_default_weight_is_the_services() -> None:
    assert evaluate_parser().get_default("rerank_weight") == Settings.model_fields["rerank_weight"].default


def test_logits_become_scores() -> None:
    found = RankingSet(["q"], ["a", "b"], [np.array([0, 1])], [frozenset({1})])
    (scores,) = probabilities(lambda _: [np.array([0.0, -800.0], np.float32)])(found)
    assert scores.tolist() == [0.5, 0.0]
