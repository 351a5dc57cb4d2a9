"""Every family of base encoder, from a folder: what goes in unshrunk comes out as transformers has it."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from tests.parallel_text import write_data_folder
from tests.training.models.bases import FAMILIES, save_family
from training.__main__ import main
from training.config.parsing import build
from training.config.run import RunConfig
from training.corpora.readers import read_tsv_pairs
from training.errors import ConfigError
from training.models.encoder import mean_pool
from training.pipeline.run import Run
from training.pipeline.runner import fingerprints, run_steps
from training.pipeline.steps import steps_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"), pairs_per_language=120)


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    paths = sorted((data / "parallel").rglob("*.tsv.gz"))
    return [side for path in paths for pair in read_tsv_pairs(path) for side in pair]


@pytest.fixture(scope="module")
def families(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    return {name: save_family(name, folder / name, texts) for name in FAMILIES}


def unshrunk(base: Path, kind: str) -> RunConfig:
    values = {
        "name": "unshrunk", "languages": ["de", "es"], "corpus": {"sources": {"sentences": {}}},
        "teacher": str(base), "stages": [], "tokenizer": {"kind": kind, "vocab_size": 10_000},
        "evaluation": {"sts_rows": 5, "tatoeba_rows": 5},
        "student": {"bottleneck_size": None, "unit_layers": 4, "recurrences": 1, "max_length": 64},
    }  # fmt: skip
    return build(RunConfig, values, where="test")


def finish(config: RunConfig, data: Path, out: Path) -> SentenceTransformer:
    run = Run(config, data, out)
    run_steps(steps_of(run), config, out, data_fingerprint="d")
    return SentenceTransformer(str(out / "final/checkpoint"), device="cpu")


@pytest.mark.parametrize("given", [True, False])
def test_command_takes_another_base(
    given: bool, families: dict[str, Path], texts: list[str], data: Path, tmp_path: Path
) -> None:
    config = unshrunk(families["bert"], "kept").model_dump() | {"base": str(families["roberta"])}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    other = ["--base", str(families["distilbert"])] if given else []
    assert main(["--config", str(path), "--data", str(data), "--out", str(tmp_path / "out"), *other]) == 0
    actual = SentenceTransformer(str(tmp_path / "out/final/checkpoint"), device="cpu").encode(texts[:9])
    expected = pooled_by_transformers(families["distilbert" if given else "roberta"], texts[:9]).numpy()
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)


def pooled_by_transformers(base: Path, texts: list[str]) -> torch.Tensor:
    reference = SentenceTransformer(str(base), device="cpu")[0]
    batch = reference.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = reference.auto_model.eval()(batch["input_ids"], attention_mask=batch["attention_mask"])[0]
    return mean_pool(hidden, batch["attention_mask"])


@pytest.mark.parametrize("kind", ["kept", "pruned"])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_unshrunk_student_gives_what_transformers_gives(
    family: str, kind: str, families: dict[str, Path], texts: list[str], data: Path, tmp_path: Path
) -> None:
    model = finish(unshrunk(families[family], kind), data, tmp_path)
    actual = model.encode(texts[:9], convert_to_tensor=True)
    torch.testing.assert_close(actual, pooled_by_transformers(families[family], texts[:9]), atol=1e-5, rtol=0)


def test_whether_text_may_be_fetched_changes_no_step(families: dict[str, Path], data: Path, tmp_path: Path) -> None:
    config = unshrunk(families["bert"], "new")
    fetching = config.model_copy(update={"corpus": config.corpus.model_copy(update={"fetch": True})})
    first, second = (
        fingerprints(steps_of(Run(one, data, tmp_path)), data_fingerprint="d") for one in (config, fetching)
    )
    assert first == second


def test_base_of_another_pooling_needs_stage_1(families: dict[str, Path], data: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(families["bert"]), max_seq_length=64), Pooling(32, "cls")]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "base"), create_model_card=False)
    with pytest.raises(ConfigError, match="has cls pooling, which would be lost; add assistant to stages"):
        finish(unshrunk(tmp_path / "base", "kept"), data, tmp_path / "out")


def test_pruned_vocabulary_drops_invisible_characters(
    families: dict[str, Path], texts: list[str], data: Path, tmp_path: Path
) -> None:
    config = unshrunk(families["xlm-roberta"], "pruned")
    config = config.model_copy(update={"tokenizer": config.tokenizer.model_copy(update={"vocab_size": 120})})
    model = finish(config, data, tmp_path)
    assert model[0].auto_model.config.vocab_size == len(model.tokenizer) <= 120
    assert np.isfinite(model.encode(texts)).all()
    broken = texts[0][:2] + "\u00ad\u200b" + texts[0][2:]
    assert model.tokenizer(broken)["input_ids"] == model.tokenizer(texts[0])["input_ids"]
