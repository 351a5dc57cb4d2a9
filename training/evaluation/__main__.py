"""`crosslet evaluate MODEL --data DIR` or `python -m training.evaluation`: scores a model, as JSON or tables."""

from __future__ import annotations

import json
import logging
import sys

from training.errors import EvaluationError
from training.evaluation.arguments import check, evaluate_parser


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0; 2 after an error, such as no model or no set; 130 after Ctrl-C."""
    options = evaluate_parser().parse_args(arguments)
    try:
        check(options)
        from training.evaluation.failures import failures_markdown  # here: torch takes seconds to load
        from training.evaluation.report import markdown
        from training.evaluation.scoring import scores_of
        from training.system.files import write_json_atomically
    except EvaluationError as exc:
        return _refused(exc)
    except KeyboardInterrupt:
        return _stopped()
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    try:
        scores, failures = scores_of(options)
        if options.out:
            write_json_atomically(options.out, scores)
    except (EvaluationError, OSError) as exc:
        return _refused(exc)
    except KeyboardInterrupt:
        return _stopped()
    print(markdown(scores) if options.markdown else json.dumps(scores, indent=1))
    if failures:
        print(f"\n{failures_markdown(failures)}")
    return 0


def _refused(exc: Exception) -> int:
    print(f"error: {exc}", file=sys.stderr)
    return 2


def _stopped() -> int:
    print("stopped", file=sys.stderr)
    return 130


if __name__ == "__main__":
    sys.exit(main())
