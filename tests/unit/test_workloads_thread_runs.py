"""How much more than the others one thread of a lookup has, against bags that are counted out."""

import numpy as np
import pytest

from workloads.dlrm.iteration.thread_runs import busiest


def counted_out(poolings, batch, threads, sources):
    """Rows in the heaviest of equally many bags in a row, source by source, table by table, sample by sample."""
    bags = np.tile(np.repeat(poolings, batch // sources), sources)
    return threads * max(run.sum() for run in np.split(bags, threads))


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("sources", [1, 2, 3])
def test_bags_are_split_as_they_lie(threads, sources):
    poolings, batch = np.array([5.0, 79.0, 1.0, 20.0]), 48
    found = busiest(np.ones(4), (poolings * batch)[:, None], threads, sources)
    assert found == pytest.approx([counted_out(poolings, batch, threads, sources)])


def test_each_amount_has_a_busiest_thread_of_its_own():
    """The second table has more rows, the first more that memory delivers."""
    assert busiest(np.ones(2), np.array([[10.0, 8.0], [30.0, 2.0]]), 2, 1) == pytest.approx([60.0, 16.0])


def test_a_table_with_more_features_has_more_bags():
    """Two threads: a table of three features and one of one; each has two features' bags."""
    assert busiest(np.array([3.0, 1.0]), np.array([[30.0], [90.0]]), 2, 1) == pytest.approx([200.0])


def test_threads_have_the_same_where_each_has_whole_sources():
    assert busiest(np.ones(2), np.array([[1.0], [99.0]]), 2, 4) == pytest.approx([100.0])
