from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import AutoModel, BertConfig, DistilBertConfig, PretrainedConfig, RobertaConfig, XLMRobertaConfig

from export.errors import Refused
from export.graph import SentenceGraph, UnitLength, build_graph
from export.onnx import check_size, export_fp32
from tests.export.checkpoints import SMALL_BODY, save_student

BODIES = [
    BertConfig(**SMALL_BODY),
    RobertaConfig(**SMALL_BODY),
    XLMRobertaConfig(**SMALL_BODY, pad_token_id=1),
    DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=66),
]


def run(path: Path, input_ids: np.ndarray, attention_mask: np.ndarray | None = None) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    mask = np.ones_like(input_ids) if attention_mask is None else attention_mask
    return session.run(["sentence_embedding"], {"input_ids": input_ids, "attention_mask": mask})[0]


def fp32_of(checkpoint: Path, scratch: Path) -> Path:
    return export_fp32(build_graph(SentenceTransformer(str(checkpoint), device="cpu", model_kwargs=EAGER)), scratch)


EAGER = {"attn_implementation": "eager"}


@pytest.mark.parametrize("config", BODIES, ids=lambda config: config.model_type)
def test_the_file_computes_what_torch_computes_for_every_family(config: PretrainedConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    body = AutoModel.from_config(config, attn_implementation="eager")
    graph = SentenceGraph(body, pooling="mean", tail=nn.Sequential(UnitLength())).eval()
    path = export_fp32(graph, tmp_path)
    for batch, length in ((1, 1), (1, 60), (3, 7)):  # other shapes than the traced one
        input_ids = torch.randint(5, 100, (batch, length))
        with torch.no_grad():
            expected = graph(input_ids, torch.ones_like(input_ids)).numpy()
        np.testing.assert_allclose(run(path, input_ids.numpy()), expected, atol=1e-6)


@pytest.mark.parametrize("config", BODIES, ids=lambda config: config.model_type)
def test_padding_does_not_change_the_embedding(config: PretrainedConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    body = AutoModel.from_config(config, attn_implementation="eager")
    path = export_fp32(SentenceGraph(body, pooling="mean", tail=nn.Sequential(UnitLength())).eval(), tmp_path)
    alone = np.array([[7, 8, 9, 10]])
    padded = np.array([[7, 8, 9, 10, *[config.pad_token_id] * 5]])
    mask = np.array([[1] * 4 + [0] * 5])
    np.testing.assert_allclose(run(path, padded, mask), run(path, alone), atol=1e-5)


def test_recurrences_cost_no_size(tmp_path: Path) -> None:
    sizes = {}
    for recurrences in (1, 3):
        checkpoint, scratch = tmp_path / f"k{recurrences}", tmp_path / f"scratch{recurrences}"
        scratch.mkdir()
        save_student(checkpoint, layers=2, recurrences=recurrences)
        sizes[recurrences] = fp32_of(checkpoint, scratch).stat().st_size
    layer_bytes = 4 * 12 * 128 * 128  # one more copy of a single layer would weigh this much
    assert sizes[3] - sizes[1] < layer_bytes / 10


def test_a_file_with_a_second_copy_of_the_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(8_000_000))
    check_size(path, parameters=2_000_000, precision="fp32")
    with pytest.raises(Refused, match=r"8,000,000 bytes for 1,000,000 parameters.*stored more than once"):
        check_size(path, parameters=1_000_000, precision="fp32")
    with pytest.raises(Refused, match=r"the int8 graph has 8,000,000 bytes for 2,000,000 parameters"):
        check_size(path, parameters=2_000_000, precision="int8")
