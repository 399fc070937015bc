"""Which launches of a configuration count."""

from pathlib import Path

from benchmarks.accuracy import undisturbed_first
from validation.measured import Measured, Times


def launched(number, stolen):
    nothing = Times(1.0, {}, None, {}, [])
    return Measured(Path(str(number)), {"stolen_share": stolen}, nothing, {})


def test_launches_that_nothing_disturbed_count_first_in_their_order():
    stolen = [0.2, 0.01, 0.0, 0.1, 0.03, 0.05]
    found = undisturbed_first([launched(number, share) for number, share in enumerate(stolen)])
    assert [int(launch.folder.name) for launch in found] == [1, 2, 4, 5, 3, 0]
