#!/usr/bin/env bash
# Distils a small cross-lingual encoder from parallel text, top to bottom:
#   corpus -> tokenizer -> tokens -> start -> stage 1 assistant -> shrunk -> stage 2 bottleneck
#   -> stage 3 student -> stage 4 contrastive -> evaluation -> OUT/final/checkpoint (a sentence-transformers folder)
# Usage:  training/run.sh --config training/configs/default.yaml [--data DIR] [--out DIR]; they are data and runs/NAME
# Time:   hours for default.yaml, whose head says how many; a few minutes for smoke.yaml.
# Writes: everything under OUT, one folder a step. Run again to resume: finished steps are skipped, a killed one goes on
#         from its last checkpoint (every 3 minutes).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${CROSSLET_PYTHON:-}
if [ -z "$python" ]; then
  make --no-print-directory -C "$root" setup-dev >&2
  python=$root/.venv-dev/bin/python
fi
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m export.train "$@"
