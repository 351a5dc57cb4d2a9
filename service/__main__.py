"""`python -m service` is `crosslet serve`."""

import sys

from service.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
