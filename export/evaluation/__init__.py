"""Scores models as they are served: an artifact, a checkpoint or any other; `crosslet evaluate`.

Imports `training.evaluation`, whose measures need no service, and the service's keywords, fusion, margins and passages.
"""

from pathlib import Path

import training

BUNDLED = Path(training.__file__).parent / "evaluation" / "bundled"  # a search set, written for this project
