#!/usr/bin/env bash
# Installs the locked torch. Usage: install-torch.sh PYTHON cpu|cuda. Minutes; writes to PYTHON's environment only.
#
# The CPU build for Linux is not on PyPI. An index or wheel folder that pip already knows is tried first (a mirror, a
# machine without internet), then PyTorch's own index. The hashes in the lock decide what is accepted, not the source.
set -euo pipefail

python=$1
flavour=$2
lock="$(dirname "$0")/../requirements/torch-$flavour.txt"
install=("$python" -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r "$lock")

if [[ $flavour == cuda ]]; then
    "${install[@]}"
    exit
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "${install[@]}" 2> "$log"; then exit; fi
if ! grep --quiet "No matching distribution found for torch" "$log"; then
    cat "$log" >&2
    exit 1
fi
echo "torch for CPU: not in pip's configured indexes; taking it from PyTorch's own" >&2
"${install[@]}" --index-url https://download.pytorch.org/whl/cpu
