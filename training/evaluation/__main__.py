"""`python -m training.evaluation ARTIFACT --data DIR`: scores of an exported model, as JSON on standard output."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from training.evaluation.artifact import ArtifactEncoder
from training.evaluation.report import evaluate


def main(arguments: list[str] | None = None) -> int:
    """Returns: 0, or 2 with one sentence where there is no artifact or nothing to evaluate on."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluation", description="Score an exported model.")
    parser.add_argument("artifact", type=Path, help="folder that `python -m export` wrote")
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/stsb and eval/tatoeba")
    options = parser.parse_args(arguments)
    if not (options.artifact / "manifest.json").is_file():
        print(f"error: {options.artifact} is not an artifact: it has no manifest.json", file=sys.stderr)
        return 2
    encode = ArtifactEncoder(options.artifact)
    scores = evaluate(encode, options.data, [language for language in encode.languages if language != "en"])
    if not scores:
        print(f"error: {options.data / 'eval'} has no file for {', '.join(encode.languages)}", file=sys.stderr)
        return 2
    json.dump(scores, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
