#!/usr/bin/env bash
# Serves the bundled model from a machine or container of 512 MB and one core.
#   make setup && examples/small_machine.sh
# The budget stays a tenth below the limit. Above it the service empties its cache, then answers 429 (507 to documents):
# it is never killed. One worker needs one copy of the model's working memory.
set -euo pipefail
cd "$(dirname "$0")/.."
export CROSSLET_MEMORY_BUDGET=${CROSSLET_MEMORY_BUDGET:-480000000}  # bytes
export CROSSLET_WORKERS=${CROSSLET_WORKERS:-1}                      # encoding threads
exec .venv/bin/crosslet serve
