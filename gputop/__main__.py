"""``python -m gputop`` is the ``gputop`` command."""

from __future__ import annotations

import sys

from gputop.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
