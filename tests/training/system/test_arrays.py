from pathlib import Path

import numpy as np
import pytest

from training.system.arrays import ArrayWriter, map_array


@pytest.mark.parametrize("parts", [[], [0], [3], [1, 0, 5, 100_000]])
def test_an_array_written_in_parts_is_the_array(tmp_path: Path, parts: list[int]) -> None:
    values = np.arange(sum(parts), dtype=np.int64)
    with ArrayWriter(tmp_path / "a.npy", np.int32) as writer:
        for part in np.split(values, np.cumsum(parts)[:-1] if parts else []):
            writer.append(part)
        assert len(writer) == len(values)
    for found in (map_array(tmp_path / "a.npy"), np.load(tmp_path / "a.npy")):
        assert found.dtype == np.int32
        assert np.array_equal(found, values)


def test_a_killed_writer_leaves_an_empty_array(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), ArrayWriter(tmp_path / "a.npy", np.int64) as writer:  # noqa: PT012
        writer.append(np.arange(10))
        raise KeyboardInterrupt
    assert len(np.load(tmp_path / "a.npy")) == 0
