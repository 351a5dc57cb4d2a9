from pathlib import Path

import onnxruntime
import pytest

from service.model import session
from service.model.session import has_vnni, keep_exact

ENTRY = "session.x64quantprecision"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", True),
        ("flags\t\t: fpu avx2 avx_vnni\n", True),
        ("flags\t\t: fpu avx2 avx512f\nbugs\t\t: no avx512_vnni\n", False),
        ("Features\t: fp asimd asimddp\n", False),  # Arm
    ],
)
def test_vnni_is_read_from_the_processor_flags(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert has_vnni(tmp_path / "cpuinfo") is expected


def test_unknown_processor_has_no_vnni(tmp_path: Path) -> None:
    assert not has_vnni(tmp_path / "cpuinfo")


def test_exact_products_are_requested_only_without_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    with_vnni, without = onnxruntime.SessionOptions(), onnxruntime.SessionOptions()
    monkeypatch.setattr(session, "has_vnni", lambda: True)
    keep_exact(with_vnni)
    monkeypatch.setattr(session, "has_vnni", lambda: False)
    keep_exact(without)
    assert without.get_session_config_entry(ENTRY) == "1"
    with pytest.raises(RuntimeError):
        with_vnni.get_session_config_entry(ENTRY)
