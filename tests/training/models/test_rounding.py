import numpy as np
import pytest
import torch

from export.quantization.tables import quantise_table_blocks
from tests.training.tiny import tiny_encoder
from training.errors import ConfigError
from training.models.encoder import rounded, train_with_rounded_words
from training.config.run import BLOCK_SIZE


def rows(count: int, width: int) -> torch.Tensor:
    return torch.randn((count, width), generator=torch.Generator().manual_seed(1)) * 0.05


def test_rows_are_rounded_as_the_export_rounds_them() -> None:
    table_VB = rows(200, 96)
    table_VB[0], table_VB[1], table_VB[2] = 0, table_VB[1].abs(), -table_VB[2].abs()
    blocks = quantise_table_blocks(table_VB.numpy())
    zero_VB, scale_VB = (np.repeat(part.astype(np.float32), BLOCK_SIZE, axis=1) for part in blocks[1:])
    np.testing.assert_array_equal(rounded(table_VB).numpy(), (blocks.code_VB - zero_VB) * scale_VB)


def test_a_row_of_any_shape_is_rounded_alone() -> None:
    table_VB = rows(12, 64)
    torch.testing.assert_close(rounded(table_VB.view(3, 4, 64)), rounded(table_VB).view(3, 4, 64), rtol=0, atol=0)


@pytest.mark.parametrize("bottleneck_size", [None, 32])
def test_body_sees_rounded_words_and_table_gets_gradient(bottleneck_size: int | None) -> None:
    encoder = tiny_encoder(bottleneck_size=bottleneck_size, hidden_size=64)
    words = encoder.get_input_embeddings()
    table = getattr(words, "table", words)
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
