"""The command `crosslet`, and `python -m crosslet`."""

import sys

from service.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
