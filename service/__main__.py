"""The entry point of `crosslet`, and of `python -m service`, which is `crosslet serve`."""

import gc
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command without garbage collection during its imports, which saves a fifth of their time.

    Return: the exit status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    gc.disable()
    from service.cli.main import main as run_command

    if arguments[:1] != ["serve"]:  # which turns it on when it has started
        gc.enable()
    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
