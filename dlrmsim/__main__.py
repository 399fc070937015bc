"""``python -m dlrmsim``: the same as the ``dlrmsim`` command."""

import sys

from dlrmsim.cli import main

sys.exit(main())
