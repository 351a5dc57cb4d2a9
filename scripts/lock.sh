#!/usr/bin/env bash
# Resolves the locks under requirements/ for Python 3.11 and newer on every platform. Seconds; needs PyPI.
# Usage: lock.sh [--upgrade]. Without it, versions already locked stay where they still satisfy pyproject.toml.
#
# torch-cpu.txt is not made here: PyTorch's CPU builds are not on PyPI, so its hashes are copied from PyTorch's index.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {  # compile OUTPUT ARGUMENT...: resolve into requirements/OUTPUT
    local output=$1
    shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
        --output-file "requirements/$output" "$@"
}

# Indexes, wheel folders, dates and other settings of this machine and its user must not decide what everyone installs.
unset "${!UV_@}"
settings=$(mktemp -d)
trap 'rm -r "$settings"' EXIT
mkdir "$settings/uv"
touch "$settings/uv/uv.toml"  # none would be looked for under /etc
export XDG_CONFIG_HOME=$settings XDG_CONFIG_DIRS=$settings

# First the largest set; the others are held to its versions, so tests run exactly what is served.
compile dev.txt pyproject.toml --extra milvus --extra mcp --extra traces --extra openai-ids --extra parquet --extra ray \
    --group export --group models --group dev --no-emit-package torch "$@"
compile training.txt pyproject.toml --group export --group models --no-emit-package torch \
    --constraint requirements/dev.txt "$@"
compile service.txt pyproject.toml --constraint requirements/dev.txt "$@"
for extra in milvus mcp traces openai-ids; do
    compile "$extra.txt" pyproject.toml --extra "$extra" --constraint requirements/dev.txt "$@"
done
compile build.txt requirements/build.in --constraint requirements/dev.txt "$@"
compile milvus-server.txt requirements/milvus-server.in "$@"
compile sbom.txt requirements/sbom.in "$@"
# --no-config: here torch's real dependencies are wanted, the CUDA libraries too.
compile torch-cuda.txt requirements/torch.in --no-config --constraint requirements/dev.txt "$@"
