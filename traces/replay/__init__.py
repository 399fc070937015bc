"""Replays: a traced job in the engine, as it was measured or changed.

`job_of` turns an import into a `Job`; each change is a pure function from one `Job` to another; `replayed` runs it.
"""

from traces.replay.job import Job, StepPlace, job_of
from traces.replay.run import replayed

__all__ = ["Job", "StepPlace", "job_of", "replayed"]
