"""``python -m dlrmsim``, and the ``dlrmsim`` command: `dlrmsim.cli.main`, interrupted cleanly while it loads too."""

import sys


def main() -> int:
    """Run the command line with the process's arguments and return the exit code."""
    try:
        from dlrmsim.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("dlrmsim: interrupted; nothing was written\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
