"""``python -m pytest_elo``: the same as the ``pytest-elo`` command."""

import sys

from pytest_elo.cli import main

sys.exit(main())
