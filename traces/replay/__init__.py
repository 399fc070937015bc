"""Replays: a traced job in the engine, as it was measured or changed.

`job_of` turns an import into a `ReplayJob`; each change is a pure function of jobs; `replayed` runs one.
"""

from traces.replay.job import ReplayJob, StepPlace, job_of
from traces.replay.run import replayed

__all__ = ["ReplayJob", "StepPlace", "job_of", "replayed"]
