import copy

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import (
    BertConfig,
    DistilBertConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
)

from export.quantization.tables import quantise_table_blocks
from tests.training.tiny import tiny_encoder
from training.config.run import BLOCK_SIZE
from training.errors import ConfigError
from training.models.encoder import (
    CrossletConfig,
    CrossletEncoder,
    compile_layers,
    copy_body,
    rounded,
    shape_of,
    train_with_rounded_words,
    word_table,
)
from training.models.sentence_encoder import SentenceEncoder, load_sentence_encoder, save_sentence_encoder
from training.system.device import check_compiler

SIZES = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
FAMILIES = [
    BertConfig(vocab_size=90, **SIZES),
    RobertaConfig(vocab_size=90, max_position_embeddings=66, **SIZES),
    XLMRobertaConfig(vocab_size=90, max_position_embeddings=66, **SIZES),
    BertConfig(vocab_size=90, pad_token_id=1, layer_norm_eps=1e-12, **{**SIZES, "hidden_size": 24}),  # MiniLM's shape
    DistilBertConfig(vocab_size=90, n_layers=4, dim=32, n_heads=4, hidden_dim=64),
]


def padded_batch(pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    input_ids = torch.randint(5, 90, (3, 9), generator=torch.Generator().manual_seed(1))
    attention_mask = torch.ones_like(input_ids)
    input_ids[1, 5:], attention_mask[1, 5:] = pad_id, 0
    return input_ids, attention_mask


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config.model_type)
def test_recurrence_repeats_the_unit_in_order(config: PretrainedConfig) -> None:
    unit = CrossletEncoder(CrossletConfig(base=shape_of(config, num_hidden_layers=2), recurrences=2)).eval()
    unrolled = CrossletEncoder(CrossletConfig(base=shape_of(config))).eval()  # 4 layers of their own
    state = unrolled.state_dict()
    for name, tensor in unit.state_dict().items():
        for layer in (0, 1):
            if f"layer.{layer}." in name:
                state[name.replace(f"layer.{layer}.", f"layer.{layer + 2}.")] = tensor
        state[name] = tensor
    unrolled.load_state_dict(state)
    input_ids, attention_mask = padded_batch(config.pad_token_id)
    with torch.no_grad():
        expected = unrolled(input_ids, attention_mask).last_hidden_state
        actual = unit(input_ids, attention_mask).last_hidden_state
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(("named", "taken"), [([], [0, 1]), ([[1, 3]], [1, 3])])
def test_copy_body_takes_the_first_layers_or_those_named(named: list[list[int]], taken: list[int]) -> None:
    source, target = tiny_encoder(layers=4, seed=1), tiny_encoder(layers=2, recurrences=2, bottleneck_size=4, seed=2)
    copy_body(source, target, *named)
    copied, original = target.state_dict(), source.state_dict()
    for new, old in enumerate(taken):
        names = [name for name in copied if f".layer.{new}." in name]
        assert names
        assert all(torch.equal(copied[name], original[name.replace(f".{new}.", f".{old}.", 1)]) for name in names)


def test_copy_body_refuses_a_source_with_too_few_layers() -> None:
    with pytest.raises(ValueError, match=r"layer\.1\."):
        copy_body(tiny_encoder(layers=1), tiny_encoder(layers=2))


@pytest.mark.parametrize("head_size", [None, 12])
def test_checkpoint_loads_in_sentence_transformers(
    tmp_path, small_tokenizer: PreTrainedTokenizerFast, head_size: int | None
) -> None:
    torch.manual_seed(0)
    head = nn.Linear(16, head_size) if head_size else None
    encoder = tiny_encoder(layers=1, recurrences=2, bottleneck_size=4)
    model = SentenceEncoder(encoder, head, normalized=True).eval()
    save_sentence_encoder(model, small_tokenizer, tmp_path / "checkpoint", max_length=24)
    texts = ["a man", "der mann spielt", "a man plays the guitar and der hund bellt"]
    batch = small_tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(batch["input_ids"], batch["attention_mask"])
    loaded = SentenceTransformer(str(tmp_path / "checkpoint"), device="cpu")
    assert loaded.max_seq_length == 24
    torch.testing.assert_close(loaded.encode(texts, convert_to_tensor=True), expected, atol=1e-6, rtol=1e-5)
    again = load_sentence_encoder(tmp_path / "checkpoint").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(batch["input_ids"], batch["attention_mask"]), expected)
    for path in (tmp_path / "checkpoint").rglob("*.json"):
        assert str(tmp_path) not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # while it compiles: torch's own
def test_compiled_layers_give_same_vectors_and_gradients() -> None:
    try:
        check_compiler("a stage")
    except ConfigError as exc:
        pytest.skip(str(exc))
    eager = tiny_encoder(bottleneck_size=8)
    compiled = copy.deepcopy(eager)
    compile_layers(compiled)
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    for shape in ((3, 9), (5, 6)):
        input_ids = torch.randint(5, 60, shape, generator=torch.Generator().manual_seed(1))
        outputs = [model(input_ids, torch.ones_like(input_ids)).last_hidden_state for model in (eager, compiled)]
        torch.testing.assert_close(outputs[1], outputs[0], atol=1e-5, rtol=0)
        for output in outputs:
            output.square().sum().backward()
    for (name, expected), actual in zip(eager.named_parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(actual.grad, expected.grad, atol=1e-4, rtol=1e-4, msg=name)


def test_rows_are_rounded_as_the_export_rounds_them() -> None:
    table_VB = torch.randn((200, 96), generator=torch.Generator().manual_seed(1)) * 0.05
    table_VB[0], table_VB[1], table_VB[2] = 0, table_VB[1].abs(), -table_VB[2].abs()
    blocks = quantise_table_blocks(table_VB.numpy())
    zero_VB, scale_VB = (np.repeat(part.astype(np.float32), BLOCK_SIZE, axis=1) for part in blocks[1:])
    expected_VB = (blocks.code_VB - zero_VB) * scale_VB
    np.testing.assert_array_equal(rounded(table_VB).numpy(), expected_VB)
    np.testing.assert_array_equal(rounded(table_VB.view(20, 10, 96)).numpy(), expected_VB.reshape(20, 10, 96))


@pytest.mark.parametrize("bottleneck_size", [None, 32])
def test_body_sees_rounded_words_and_table_gets_gradient(bottleneck_size: int | None) -> None:
    encoder = tiny_encoder(bottleneck_size=bottleneck_size, hidden_size=64)
    table = word_table(encoder)
    before_VB = table.weight.detach().clone()
    train_with_rounded_words(encoder)
    ids_BL = torch.tensor([[5, 6, 7]])
    row_BLB = table(ids_BL)
    torch.testing.assert_close(row_BLB, rounded(before_VB[ids_BL]))
    (row_BLB * 3).sum().backward()
    assert table.weight.grad[5:8].eq(3).all()  # as of a table that is not rounded
    assert torch.equal(table.weight, before_VB)


def test_a_width_without_whole_blocks_is_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of 32, not 16"):
        train_with_rounded_words(tiny_encoder())
