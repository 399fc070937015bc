"""``python -m dlrmsim``, and the ``dlrmsim`` command: `dlrmsim.cli.main`, interrupted cleanly while it loads too.

SIGTERM (`kill`, batch systems) and SIGHUP (a terminal that closes) interrupt as SIGINT (Ctrl-C) does.
"""

import os
import signal
import sys
import threading

INTERRUPT_DELAY_S = 0.01
"""Delay after which a lost interrupt is raised again, seconds."""


def main() -> int:
    """Run the command line with the process's arguments and return the exit code."""
    sys.unraisablehook = _raise_lost_interrupt
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    try:
        from dlrmsim.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("dlrmsim: interrupted; nothing was written\n")
        return 130
    return run()


def _raise_lost_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again: Python ignores what is raised where an object goes away (of locks, when it imports modules)."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    while True:
        try:
            threading.Timer(INTERRUPT_DELAY_S, os.kill, (os.getpid(), signal.SIGINT)).start()
        except KeyboardInterrupt:  # raised while this thread still waited for the timer's thread
            continue
        return


if __name__ == "__main__":
    sys.exit(main())
