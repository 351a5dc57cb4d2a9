"""The wheel: that it holds what the service reads beside its modules."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from tests.skeleton.project import ROOT, tracked_files


def test_the_wheel_holds_every_file_of_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    page = {path.relative_to(ROOT).as_posix() for path in tracked_files() if ROOT / "service" / "web" in path.parents}
    assert "service/web/index.html" in page
    assert page <= set(ZipFile(wheel).namelist())
