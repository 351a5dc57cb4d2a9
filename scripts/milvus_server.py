"""Becomes a Milvus 2.3 server: milvus_server.py FOLDER PORT, by the Python of .venv-milvus. Keeps all in FOLDER.

It listens on every address of the network namespace, also on other ports: `make test-milvus` gives it one with loopback
alone. Users must log in; root's password is Milvus.
"""

import os
import sys
from pathlib import Path

from milvus import MilvusServerConfig, _initialize_data_files

folder, port = Path(sys.argv[1]).absolute(), int(sys.argv[2])
program = folder / "bin" / "milvus"
if not (folder / "configs" / "milvus.yaml").exists():  # a restart would find the ports in TIME_WAIT
    config = MilvusServerConfig(data_dir=str(folder), proxy_port=port)
    config.set("authorization_enabled", True)
    config.resolve()
    _initialize_data_files(str(folder))
places = {"LD_LIBRARY_PATH": str(program.parent), "MILVUS_RUN_DIR": str(folder / "run")}
os.chdir(folder)
os.execve(program, [str(program), "run", "standalone"], os.environ | places | {"DEPLOY_MODE": "STANDALONE"})  # noqa: S606
