"""OpenAI's vocabulary for clients that encode by tiktoken, which finds it without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "clients.md"


def tiktoken_folder(folder: Path) -> Path:
    """Return a folder for TIKTOKEN_CACHE_DIR, made by the commands of the guide."""
    (commands,) = re.findall(r"(?s)```sh\n(mkdir -p tiktoken\n.*?)```", GUIDE.read_text(encoding="utf-8"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", commands], cwd=folder, env=os.environ | {"PATH": path}, check=True)
    return folder / "tiktoken"


def ranks(folder: Path) -> bytes:
    """Return the file of ranks, by way of a folder."""
    (file,) = tiktoken_folder(folder).iterdir()
    return file.read_bytes()
