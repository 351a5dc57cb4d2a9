"""A model folder is loaded whole, and runs no code, or is refused with a sentence that says what is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM

from export.checkpoint import read_checkpoint
from export.errors import BadCheckpoint
from training.errors import ConfigError, EvaluationError, LoadError
from training.evaluation.encoders import load_model
from training.loading import load_sentence_transformer
from training.teacher import load_teacher, packaged_folder

POOLING = """
from pathlib import Path
from sentence_transformers.sentence_transformer.modules import Pooling

Path(__file__).with_name("ran").touch()

class MyPooling(Pooling):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    whole = packaged_folder("sentence-transformers/all-MiniLM-L6-v2")
    assert whole is not None
    return Path(shutil.copytree(whole, tmp_path / "model"))


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def without_a_layer(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if "encoder.layer.3." in name]:
        del tensors[name]


def with_a_seventh_layer(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if "encoder.layer.5." in name]:
        tensors[name.replace("layer.5", "layer.6")] = tensors[name].clone()


def with_a_short_table(tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors[name] = tensors[name][:100].clone()


BROKEN = pytest.mark.parametrize(
    ("change", "named"),
    [
        (without_a_layer, r"lacks 16 tensors of the body, the first encoder\.layer\.3\."),
        (
            with_a_seventh_layer,
            r"has, unknown to its configuration, 16 tensors of the body, the first \S*layer\.6\.",
        ),
        (
            with_a_short_table,
            r"tensor embeddings\.word_embeddings\.weight has another shape than its configuration says",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)


@BROKEN
def test_an_incomplete_checkpoint_is_refused_wherever_one_is_loaded(
    change: Callable[[dict[str, torch.Tensor]], None], named: str, folder: Path
) -> None:
    rewrite(folder, change)
    with pytest.raises(BadCheckpoint, match=named):
        read_checkpoint(folder, name="a", languages=("en",))
    with pytest.raises(EvaluationError, match=named):
        load_model(str(folder))
    with pytest.raises(ConfigError, match=named):
        load_teacher(str(folder), device=torch.device("cpu"))


def test_a_pooler_may_be_absent(folder: Path) -> None:
    def without_pooler(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if "pooler" in name]:
            del tensors[name]

    rewrite(folder, without_pooler)
    load_sentence_transformer(str(folder), device="cpu")


def test_a_masked_language_model_is_a_whole_base(folder: Path) -> None:
    for name in ("modules.json", "model.safetensors"):
        (folder / name).unlink()
    whole = packaged_folder("sentence-transformers/all-MiniLM-L6-v2")
    BertForMaskedLM.from_pretrained(whole).save_pretrained(folder)  # its body under "bert.", with a head beside it
    load_sentence_transformer(str(folder), device="cpu")


def test_code_of_a_folder_runs_only_when_it_is_trusted(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "custom_pool.MyPooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "custom_pool.py").write_text(POOLING)
    named = r"module custom_pool\.MyPooling is no class of sentence-transformers.*--trust-remote-code"
    with pytest.raises(BadCheckpoint, match=named):
        read_checkpoint(folder, name="a", languages=("en",))
    with pytest.raises(EvaluationError, match=named):
        load_model(str(folder))
    with pytest.raises(ConfigError, match=named):
        load_teacher(str(folder), device=torch.device("cpu"))
    assert not list(folder.rglob("ran"))
    model = load_teacher(str(folder), device=torch.device("cpu"), trust_remote_code=True)
    assert type(model[1]).__name__ == "MyPooling"


def test_code_named_by_a_module_that_holds_others_does_not_run(folder: Path) -> None:
    (folder / "router_config.json").write_text(json.dumps({"types": {"query_0": "custom_pool.MyPooling"}}))
    with pytest.raises(LoadError, match=r"custom_pool\.MyPooling"):
        load_sentence_transformer(str(folder), device="cpu")


def test_code_under_the_name_of_our_own_module_does_not_run(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "training.sentence.CrossletTransformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    load_sentence_transformer(str(folder), device="cpu")
    (folder / "training.sentence.py").write_text(POOLING)
    with pytest.raises(LoadError, match=r"training\.sentence\.CrossletTransformer"):
        load_sentence_transformer(str(folder), device="cpu")
