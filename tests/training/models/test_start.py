"""Starting points: the weighted SVD of a word table, and the assistant of a base."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm, Normalize, Pooling, Transformer
from torch import nn
from transformers import AutoModel, BertConfig, PretrainedConfig, PreTrainedTokenizerFast, RobertaConfig, T5Config

from training.config.parsing import build
from training.config.run import RunConfig, StudentConfig
from training.errors import ConfigError
from training.models.sentence_encoder import load_sentence_encoder, save_sentence_encoder
from training.models.start import (
    assistant_from_base,
    check_left_out,
    check_shrinkable,
    student_from_assistant,
    weighted_svd,
)


def test_the_svd_start_reaches_the_best_possible_error() -> None:
    embeddings = torch.randn(50, 12, generator=torch.Generator().manual_seed(0))
    frequency = torch.randint(0, 100, (50,), generator=torch.Generator().manual_seed(1))
    table, projection = weighted_svd(embeddings, frequency, 5)
    weights = (frequency + 1.0).unsqueeze(1)
    singular = torch.linalg.svdvals(weights.sqrt() * embeddings)  # Eckart-Young: the tail is the optimum
    error = (weights * (embeddings - table @ projection.T).square()).sum()
    torch.testing.assert_close(error, singular[5:].square().sum(), rtol=1e-4, atol=0)


def test_frequent_tokens_are_kept_more_exactly() -> None:
    embeddings = torch.randn(40, 10, generator=torch.Generator().manual_seed(0))
    frequency = torch.tensor([1000] * 5 + [0] * 35)
    table, projection = weighted_svd(embeddings, frequency, 6)
    error = (embeddings - table @ projection.T).square().sum(dim=1)
    assert error[:5].mean() < 0.1 * error[5:].mean()


STAGES = {name: {"pairs": 10} for name in ("assistant", "bottleneck", "student_stage", "contrastive")}
ROUNDED = {"pairs": 10, "round_words": True}
SMALL = {"bottleneck_size": 4, "unit_layers": 2}
MINIMAL = {"languages": ["de"], "corpus": {"sources": {"news": {}}}, **STAGES}
SIZES = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
BERT = BertConfig(vocab_size=60, **SIZES)
ROBERTA = RobertaConfig(vocab_size=60, max_position_embeddings=40, **SIZES)  # its padding id is 1


def model_of(
    config: PretrainedConfig, tokenizer: PreTrainedTokenizerFast, folder: Path, *, modules: Sequence[nn.Module]
) -> SentenceTransformer:
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return SentenceTransformer(modules=[Transformer(str(folder)), *modules], device="cpu")


def teacher(
    config: PretrainedConfig, tokenizer: PreTrainedTokenizerFast, folder: Path, *, dim: int
) -> SentenceTransformer:
    head = [] if dim == 16 else [Dense(16, dim)]
    return model_of(config, tokenizer, folder, modules=[Pooling(16, "mean"), *head, Normalize()])


def linear(width: int, dim: int, *, bias: bool = True) -> Dense:
    return Dense(width, dim, bias=bias, activation_function=nn.Identity())


def test_random_bottleneck_starts_as_torch_draws_it(small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = teacher(BERT, small_tokenizer, tmp_path / "base", dim=16)
    assistant = assistant_from_base(model, dim=16, normalized=True, pad_id=1, seed=1)
    shape = StudentConfig(bottleneck_size=8, bottleneck_start="random", unit_layers=2)
    words = student_from_assistant(assistant, shape, np.ones(60, dtype=np.int64), seed=1).encoder.get_input_embeddings()
    table, projection = words.table.weight.detach(), words.projection.weight.detach()
    assert table[0].std() > 0.5
    assert not table[1].any()  # padding
    assert projection.abs().max() <= 8**-0.5
    assert (table[2:] @ projection.T).std() == pytest.approx(1 / 3**0.5, rel=0.15)


def test_untrained_row_is_the_tokenizers_padding(small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    model = teacher(BERT, small_tokenizer, tmp_path / "minilm", dim=16)  # its body's padding is 0, as MiniLM's is
    words_VH = model[0].auto_model.get_input_embeddings().weight
    with torch.no_grad():
        words_VH[0] = torch.randn(16)
    assistant = assistant_from_base(model, dim=16, normalized=True, pad_id=1, seed=1)
    assert torch.equal(assistant.encoder.get_input_embeddings().weight, words_VH)
    ones_V = np.ones(60, dtype=np.int64)
    student = student_from_assistant(
        assistant, StudentConfig(bottleneck_size=8, bottleneck_start="random", unit_layers=2), ones_V, seed=1
    )
    ids_BL, mask_BL = torch.tensor([[0, 7, 8, 2], [0, 9, 2, 1]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    for encoder in (assistant.encoder, student.encoder):
        encoder(ids_BL, mask_BL).last_hidden_state[..., 0].sum().backward()
        words = encoder.get_input_embeddings()
        gradient_V = getattr(words, "table", words).weight.grad.abs().sum(dim=1)
        assert gradient_V[0] > 0
        assert gradient_V[1] == 0


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dim", [12, 16])
def test_a_base_keeps_its_linear_head(
    dim: int, bias: bool, small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    modules = [Pooling(16, "mean"), linear(16, dim, bias=bias), Normalize()]
    base = model_of(BERT, small_tokenizer, tmp_path / "base", modules=modules)
    assistant = assistant_from_base(base, dim=dim, normalized=True, pad_id=0, seed=1)
    save_sentence_encoder(assistant, small_tokenizer, tmp_path / "checkpoint", max_length=24)
    texts = ["a man plays", "der hund"]
    batch = small_tokenizer(texts, padding=True, return_tensors="pt")
    for encoder in (assistant.eval(), load_sentence_encoder(tmp_path / "checkpoint").eval()):
        with torch.no_grad():
            actual = encoder(batch["input_ids"], batch["attention_mask"])
        torch.testing.assert_close(actual, base.encode(texts, convert_to_tensor=True), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("modules", "left_out"),
    [
        ([Pooling(16, "cls"), Normalize()], "cls pooling"),
        ([Pooling(16, "cls"), linear(16, 12)], "cls pooling, Dense (16 to 12, Identity)"),
        ([Pooling(16, ("cls", "mean")), linear(32, 12)], "cls and mean pooling, Dense (32 to 12, Identity)"),
        ([Pooling(16, "mean"), Dense(16, 12), Normalize()], "Dense (16 to 12, Tanh)"),
        ([Pooling(16, "mean"), linear(16, 8)], "Dense (16 to 8, Identity)"),
        ([Pooling(16, "mean"), Normalize(), linear(16, 12)], "Dense (16 to 12, Identity)"),
        ([Pooling(16, "mean"), linear(16, 12), LayerNorm(12)], "LayerNorm"),
    ],
)
def test_modules_beyond_a_head_need_stage_1(
    modules: list[nn.Module],
    left_out: str,
    small_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = model_of(BERT, small_tokenizer, tmp_path / "base", modules=modules)
    with pytest.raises(ConfigError) as refused:
        check_left_out(base, 12, ["bottleneck", "contrastive"])
    assert f"the base encoder has {left_out}, which would be lost; add assistant to stages" in str(refused.value)
    with caplog.at_level(logging.INFO, logger="training.models.start"):
        check_left_out(base, 12, ["assistant", "contrastive"])
    assert caplog.messages == [f"start: left out of the base encoder: {left_out}"]


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "prompts (query, passage)"),
        ({"prompts": {"sts": "compare: "}, "default_prompt_name": "sts"}, "prompts (sts)"),
        ({"truncate_dim": 8}, "truncate_dim 8"),
    ],
)
def test_prompts_and_dims_of_a_base_need_stage_1(
    settings: dict[str, Any], left_out: str, small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    plain = model_of(BERT, small_tokenizer, tmp_path / "base", modules=[Pooling(16, "mean")])
    base = SentenceTransformer(modules=list(plain), device="cpu", **settings)
    check_left_out(base, 16, ["assistant", "contrastive"])
    with pytest.raises(ConfigError) as refused:
        check_left_out(base, 16, ["bottleneck", "contrastive"])
    assert f"the base encoder has {left_out}, which would be lost" in str(refused.value)


def test_nothing_is_left_out_of_a_folder_of_transformers(
    small_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teacher(BERT, small_tokenizer, tmp_path / "plain", dim=12)
    plain = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    with caplog.at_level(logging.INFO, logger="training.models.start"):
        check_left_out(plain, 12, [])
    assert not caplog.messages
    head = assistant_from_base(plain, dim=12, normalized=True, pad_id=0, seed=1).head
    assert head is not None
    assert head.weight.shape == (12, 16)


@pytest.mark.parametrize(
    ("body", "changes", "complaint"),
    [
        (T5Config(), {}, "of type 't5'; known types: bert"),
        (BERT, {"student": SMALL | {"unit_layers": 3}}, "unit_layers is 3; the base encoder allows 2"),
        (BERT, {"student": SMALL | {"bottleneck_size": 17}}, "bottleneck_size is 17; the base encoder allows 16"),
        (ROBERTA, {"student": SMALL}, "max_length is 128; the base encoder allows 38"),
        (
            BERT,
            {"student": SMALL | {"bottleneck_size": None}, "student_stage": ROUNDED},
            "round_words of stage student needs .* multiple of 32; without a bottleneck .* hidden size, 16",
        ),
        (BERT, {"student": SMALL, "assistant": ROUNDED}, "round_words of stage assistant needs .* multiple of 32"),
    ],
)
def test_student_that_the_base_cannot_give_is_refused(
    body: PretrainedConfig, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_shrinkable(body, build(RunConfig, {**MINIMAL, **changes}, where="test"))
