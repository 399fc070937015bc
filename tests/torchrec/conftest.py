"""TorchRec logs every argument of its planner."""

import logging

logging.getLogger("torchrec").setLevel(logging.ERROR)
logging.getLogger("MethodLogger-NullHandler").setLevel(logging.ERROR)
