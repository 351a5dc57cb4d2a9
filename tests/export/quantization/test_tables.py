import numpy as np
import onnx
import pytest
from onnx import helper

from export.errors import Refused
from export.quantization.tables import BLOCK_SIZE, pack_pairs, quantise_rows, quantise_table_blocks, quantise_tables
from tests.export.sessions import session_of
from tests.graphs import model_of

Floats = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def lookups(words_VB: Floats, positions_PB: Floats) -> onnx.ModelProto:
    """Rows of two tables by the same indices."""
    nodes = [helper.make_node("Gather", [f"{name}s", "ids"], [name]) for name in ("word", "position")]
    tensors = {"words": words_VB, "positions": positions_PB}
    return model_of(nodes, tensors, {"word": ["n", "b"], "position": ["n", "b"]}, {"ids": ["n"]})


def random_table(rows: int, width: int) -> Floats:
    table_VB: Floats = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
    return table_VB


def test_rows_have_a_scale_of_their_own() -> None:
    table = np.array([[127.0, -63.5], [0.0, 0.0], [0.001, -0.00127]], dtype=np.float32)
    values, scales = quantise_rows(table)
    np.testing.assert_array_equal(values, [[127, -64], [0, 0], [100, -127]])
    np.testing.assert_allclose(scales, [[1.0], [1.0], [0.00001]], rtol=1e-6)


def test_no_element_moves_by_more_than_half_a_step() -> None:
    table = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32) * np.logspace(-3, 3, 50)[:, None]
    values, scales = quantise_rows(table.astype(np.float32))
    assert (np.abs(values * scales - table) <= scales * 0.5001).all()


def test_a_block_of_4_bits_spans_its_own_range() -> None:
    table = np.zeros((2, 2 * BLOCK_SIZE), dtype=np.float32)
    table[0, :3] = [-3.0, 12.0, 4.6]  # steps of 1 from a zero at 3
    blocks = quantise_table_blocks(table)
    assert blocks.zero_point_VG.tolist() == [[3, 0], [0, 0]]
    assert blocks.scale_VG.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert blocks.code_VB[0, :4].tolist() == [0, 15, 8, 3]


def test_4_bits_move_no_element_by_more_than_a_step() -> None:
    """Half a step by rounding the element, up to another half by rounding where zero lies."""
    table = random_table(50, 96) * np.logspace(-2, 2, 50, dtype=np.float32)[:, None]
    blocks = quantise_table_blocks(table)
    step = np.repeat(blocks.scale_VG.astype(np.float32), BLOCK_SIZE, axis=1)
    zero = np.repeat(blocks.zero_point_VG, BLOCK_SIZE, axis=1)
    values = (blocks.code_VB.astype(np.float32) - zero) * step
    assert (np.abs(values - table) <= step * 1.01).all()
    assert np.abs(values - table).mean() < 0.3 * step.mean()


def test_two_codes_share_a_byte() -> None:
    assert pack_pairs(np.array([[1, 2, 15], [0, 8, 7]], dtype=np.uint8)).tolist() == [[0x21, 0x0F], [0x80, 0x07]]


def test_onnx_runtime_reads_what_was_stored() -> None:
    words, positions = random_table(200, 96), random_table(20, 96)
    model = lookups(words, positions)
    quantise_tables(model, word_bits=4)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert "words_block_codes" in stored
    assert "positions_row_int8" in stored  # small: 8 bits cost little
    ids = np.array([0, 19, 3, 3])
    word, position = session_of(model.SerializeToString()).run(["word", "position"], {"ids": ids})
    blocks = quantise_table_blocks(words)
    zero, scale = (np.repeat(part, BLOCK_SIZE, axis=1) for part in (blocks.zero_point_VG, blocks.scale_VG))
    expected = ((blocks.code_VB.astype(np.float32) - zero) * scale.astype(np.float32))[ids]
    np.testing.assert_allclose(word, expected, rtol=2e-3, atol=1e-6)  # the operator multiplies in float16
    assert np.abs(word - words[ids]).mean() < 0.12
    np.testing.assert_allclose(position, positions[ids], atol=0.02)


def test_a_width_without_whole_blocks_is_refused() -> None:
    with pytest.raises(Refused, match="the table's width 100 is not a multiple of 32: use --word-bits 8"):
        quantise_tables(lookups(random_table(50, 100), random_table(5, 100)), word_bits=4)
