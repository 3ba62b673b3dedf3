"""`python -m tatml` is the command `tatml`."""

import sys

from ._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
