"""Distils a small cross-lingual student from a large encoder (Ding et al. 2022). Imports no other package of ours."""

import os
import sys
import tempfile

# Usage reports of libraries, off before any module of this package loads one; the same as the service's.
os.environ.update(
    {
        "ORT_DISABLE_TELEMETRY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "DISABLE_SAFETENSORS_CONVERSION": "true",
        "DO_NOT_TRACK": "1",
    }
)
try:  # libraries need a temporary folder on import
    tempfile.gettempdir()
except FileNotFoundError as exc:
    sys.stderr.write(f"error: no temporary folder can be written ({exc.strerror}); TMPDIR names another\n")
    raise SystemExit(2) from None
