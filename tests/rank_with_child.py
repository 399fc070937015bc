"""A rank with a child that does not look after it, told by a file of its number: `python -m tests.rank_with_child`."""

import os
import time

from trainer.process.rank import begun

if __name__ == "__main__":
    run = begun()
    child = os.fork()
    if child:
        (run.out / str(child)).touch()
    time.sleep(600)
