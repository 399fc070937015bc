"""Scenarios that ship."""

from inputs.catalog import Catalog

SCENARIO_FILE = "scenario.yaml"
"""Name of the scenario in a folder, such as the folder of a captured job."""

CATALOG = Catalog("scenario", "scenarios", "library", inside=SCENARIO_FILE)
