import subprocess
import sys
from pathlib import Path

from training.system.locks import wait_for


def test_a_second_process_waits_for_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "step"
    script = "import sys; from pathlib import Path; from training.system.locks import wait_for\n"
    script += "with wait_for(Path(sys.argv[1])): print((Path(sys.argv[1]) / 'result').read_text(), flush=True)"
    with wait_for(folder):
        other = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
        try:
            other.wait(timeout=1)
        except subprocess.TimeoutExpired:
            (folder / "result").write_text("made once")
    assert other.communicate(timeout=250)[0] == "made once\n"
