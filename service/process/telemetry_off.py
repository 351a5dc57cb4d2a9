"""Switches off the reports that libraries send by themselves. Knows their environment variables; loads none of them.

Each package of this project calls it first: a library reads its variable while it is loaded, and not again.
"""

import os

TELEMETRY_OFF = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime. Its disable_telemetry_events() comes too late: it goes on reporting
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # datasets: a request for each data set that is loaded, local files too
    "DISABLE_SAFETENSORS_CONVERSION": "true",  # transformers: asks the hub to convert a model, in a thread
    "DO_NOT_TRACK": "1",  # others that honour https://consoledonottrack.com
}


def switch_telemetry_off() -> None:
    """Set the variables for this process and those it starts, whatever their values were."""
    os.environ.update(TELEMETRY_OFF)
