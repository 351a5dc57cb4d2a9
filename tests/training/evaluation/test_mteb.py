import importlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import mteb
import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining
from mteb.models.models_protocols import EncoderProtocol
from mteb.types import PromptType
from scipy.stats import spearmanr

from service.model.encoder import load_encoder
from tests.artifacts import TEXTS, build_artifact
from training.evaluation.mteb_model import MtebModel

SCORES = [5.0, 4.0, 2.5, 1.0, 0.0]
LEFT, RIGHT = list(TEXTS[:5]), [TEXTS[1], TEXTS[4], TEXTS[0], TEXTS[8], TEXTS[11]]
ABOUT: dict[str, Any] = {
    "description": "a tiny task",
    "dataset": {"path": "none", "revision": "none"},
    "eval_splits": ["test"],
    "eval_langs": ["eng-Latn"],
}


class TinySts(AbsTaskSTS):
    metadata: ClassVar[TaskMetadata] = TaskMetadata(name="TinySts", type="STS", main_score="cosine_spearman", **ABOUT)

    def load_data(self, **_: Any) -> None:
        rows = {"sentence1": LEFT, "sentence2": RIGHT, "score": SCORES}
        self.dataset, self.data_loaded = DatasetDict({"test": Dataset.from_dict(rows)}), True


class TinyBitext(AbsTaskBitextMining):
    metadata: ClassVar[TaskMetadata] = TaskMetadata(name="TinyBitext", type="BitextMining", main_score="f1", **ABOUT)

    def load_data(self, **_: Any) -> None:
        rows = {"sentence1": LEFT, "sentence2": RIGHT}
        self.dataset, self.data_loaded = DatasetDict({"test": Dataset.from_dict(rows)}), True


def test_mteb_scores_an_artifact_as_the_service_would_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    manifest = build_artifact(tmp_path, name="tiny")
    model = MtebModel(str(tmp_path))
    assert isinstance(model, EncoderProtocol)
    assert (model.mteb_model_meta.name, model.mteb_model_meta.revision) == ("local/tiny", manifest.fingerprint)

    tasks = [TinySts(), TinyBitext()]
    results = mteb.evaluate(model, tasks, cache=None, show_progress_bar=False, co2_tracker=False).task_results
    scored = {result.task_name: result.scores["test"][0] for result in results}

    service = load_encoder(tmp_path)
    left, right = (np.stack([service.encode(text).vector for text in side]) for side in (LEFT, RIGHT))
    expected = spearmanr((left * right).sum(axis=1), SCORES).statistic
    assert scored["TinySts"]["main_score"] == pytest.approx(expected)
    assert scored["TinySts"]["spearman"] == pytest.approx(expected)
    nearest = (left @ right.T).argmax(axis=1)
    assert scored["TinyBitext"]["accuracy"] == pytest.approx((nearest == np.arange(5)).mean())


def test_queries_and_documents_get_the_prompts_of_the_model(tmp_path: Path) -> None:
    prompts = {"query": "gitarre ", "document": "stock ", "sts": "market "}
    build_artifact(tmp_path, prompts=prompts, default_prompt_name="sts")
    model, service = MtebModel(str(tmp_path)), load_encoder(tmp_path)
    for kind, prompt in {None: "market ", PromptType.query: "gitarre ", PromptType.document: "stock "}.items():
        (found,) = model.encode([{"text": [TEXTS[0]]}], prompt_type=kind)
        assert np.array_equal(found, service.encode(prompt + TEXTS[0]).vector)


def test_without_mteb_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mteb", "mteb.models", "mteb.types"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "training.evaluation.mteb_model")
    with pytest.raises(ModuleNotFoundError, match=r"this needs mteb: `make setup-dev` installs it"):
        importlib.import_module("training.evaluation.mteb_model")
