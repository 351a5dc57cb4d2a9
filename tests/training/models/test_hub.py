"""Names of models on a hub, against one on the loopback interface."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertTokenizerFast

from tests.training.hub import serve_model
from tests.training.models.bases import SIZES, save_base
from tests.vocabularies import wordpiece

LOAD = """
import sys, torch
from training.models.teacher import load_teacher
model = load_teacher(sys.argv[1], device=torch.device("cpu"))
print(model.encode(["der mann spielt"]).sum())
"""


def run_python(code: str, *arguments: str, endpoint: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_base_is_downloaded_from_the_hub_by_name(tmp_path: Path) -> None:
    tokenizer = wordpiece(["der mann spielt", "a man plays the guitar"])
    folder = save_base(tmp_path / "base", BertConfig(**SIZES), tokenizer, BertTokenizerFast)
    with serve_model("acme/tiny-bert", folder) as endpoint:
        loaded = run_python(LOAD, "acme/tiny-bert", endpoint=endpoint, cache=tmp_path / "cache")
    assert loaded.returncode == 0, loaded.stderr
    expected = SentenceTransformer(str(folder), device="cpu").encode(["der mann spielt"]).sum()
    assert abs(float(loaded.stdout.split()[-1]) - expected) < 1e-4


@pytest.mark.slow
def test_code_that_a_file_on_the_hub_names_is_not_run(tmp_path: Path) -> None:
    tokenizer = wordpiece(["der mann spielt"])
    folder = save_base(tmp_path / "base", BertConfig(**SIZES), tokenizer, BertTokenizerFast)
    router = {"idx": 0, "name": "0", "path": "0_Router", "type": "sentence_transformers.models.Router"}
    (folder / "modules.json").write_text(json.dumps([router]))
    (folder / "0_Router").mkdir()
    # `this` is installed, and prints where it is imported: of a hub's model no file need be downloaded for that
    (folder / "0_Router/router_config.json").write_text(json.dumps({"types": {"query_0": "this.Pool"}}))
    with serve_model("acme/tiny-bert", folder) as endpoint:
        loaded = run_python(LOAD, "acme/tiny-bert", endpoint=endpoint, cache=tmp_path / "cache")
    assert "0_Router/router_config.json names this.Pool, which is not a class of" in loaded.stderr
    assert "Zen of Python" not in loaded.stdout
