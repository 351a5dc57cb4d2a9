from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, DistilBertConfig, RobertaConfig, XLMRobertaConfig

from export.errors import Refused
from export.graph import SentenceGraph, UnitLength
from export.onnx import check_size, export_fp32
from tests.export.checkpoints import SMALL_BODY

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


@pytest.fixture(params=BODIES, ids=lambda config: config.model_type)
def graph(request: pytest.FixtureRequest) -> SentenceGraph:
    torch.manual_seed(0)
    body = AutoModel.from_config(request.param, attn_implementation="eager")
    return SentenceGraph(body, pooling="mean", tail=nn.Sequential(UnitLength())).eval()


def test_the_file_computes_what_torch_computes_for_every_family(graph: SentenceGraph, tmp_path: Path) -> None:
    path = export_fp32(graph, tmp_path)
    for batch, length in ((1, 1), (1, 60), (3, 7)):  # other shapes than the traced one
        input_ids = torch.randint(5, 100, (batch, length))
        with torch.no_grad():
            expected = graph(input_ids, torch.ones_like(input_ids)).numpy()
        np.testing.assert_allclose(run(path, input_ids.numpy()), expected, atol=1e-6)


def test_padding_does_not_change_the_embedding(graph: SentenceGraph, tmp_path: Path) -> None:
    path = export_fp32(graph, tmp_path)
    alone = np.array([[7, 8, 9, 10]])
    padded = np.array([[7, 8, 9, 10, *[graph.body.config.pad_token_id] * 5]])
    mask = np.array([[1] * 4 + [0] * 5])
    np.testing.assert_allclose(run(path, padded, mask), run(path, alone), atol=1e-5)


def test_a_file_with_a_second_copy_of_the_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(8_000_000))
    check_size(path, parameters=2_000_000, precision="fp32")
    with pytest.raises(Refused, match=r"8,000,000 bytes for 1,000,000 parameters.*stored more than once"):
        check_size(path, parameters=1_000_000, precision="fp32")
    with pytest.raises(Refused, match=r"the int8 graph has 8,000,000 bytes for 2,000,000 parameters"):
        check_size(path, parameters=2_000_000, precision="int8")
