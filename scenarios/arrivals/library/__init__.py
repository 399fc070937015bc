"""Files of arriving jobs that ship."""

from inputs.catalog import Catalog

JOBS = Catalog("jobs", "scenarios", "arrivals/library")
