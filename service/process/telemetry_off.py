"""Switches off the usage reports of libraries, by their environment variables.

Each package calls it before it imports a library: libraries read their variable once, on import.
"""

import os

TELEMETRY_OFF = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime; calling its disable_telemetry_events() is too late
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # datasets: sends a request for each data set loaded, even a local file
    "DISABLE_SAFETENSORS_CONVERSION": "true",  # transformers: asks the hub to convert the model, from a thread
    "DO_NOT_TRACK": "1",  # others that honour https://consoledonottrack.com
}


def switch_telemetry_off() -> None:
    """Set the variables for this process and its children, overriding earlier values."""
    os.environ.update(TELEMETRY_OFF)
