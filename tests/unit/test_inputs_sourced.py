"""Values with an origin are told to other processes."""

import pickle
import subprocess
import sys

import pytest

from hardware_specs.loader import CATALOGS, load_cluster
from inputs.sourced import Sourced
from scenarios.prepare import prepare
from scenarios.progress import Silent
from scenarios.resolve import load_scenario
from validation.measured_prediction import predict_prepared


def passed_on(value):
    """As another process gets it."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


@pytest.mark.parametrize("name", sorted(CATALOGS["cluster"].names()))
def test_a_machine_is_the_same_after_pickling(name):
    cluster = load_cluster(name)
    assert passed_on(cluster) == cluster


def test_a_kind_of_values_is_one_class_whoever_names_it():
    assert Sourced[int] is Sourced[int]
    assert Sourced[int] is not Sourced[float]
    one = Sourced[int](value=1, source="a test", grade="read")
    assert type(passed_on(one)) is Sourced[int]
    assert passed_on(one) == one


def test_another_process_predicts_the_same(tmp_path):
    """In its own order of imports: names of classes say what they are of, not when they were made."""
    prepared = prepare(load_scenario("criteo_small", ["world_size=1"]), Silent())
    file = tmp_path / "job.pickle"
    file.write_bytes(pickle.dumps(prepared))
    code = (
        "import pickle, sys; job = pickle.load(open(sys.argv[1], 'rb'));"
        "from validation.measured_prediction import predict_prepared; print(repr(predict_prepared(job).iteration_s))"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert float(done.stdout) == predict_prepared(prepared).iteration_s
