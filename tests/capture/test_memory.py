"""Memory of captured steps against PyTorch's own tracker (`torch.distributed._tools.mem_tracker`).

Sums are equal but for the blocks of single numbers (512 bytes). Categories differ where both look at another moment:
the tracker counts a gradient as temporary until a parameter has it, and temporary tensors of an optimizer as its state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.capture.steps import BATCH, INNER, WIDTH, TransformerLayer
from tests.captured_steps import captured, rank_of


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH), nn.ReLU()), torch.empty(
        BATCH, WIDTH
    )


def transformer_layer() -> tuple[nn.Module, torch.Tensor]:
    return TransformerLayer(), torch.empty(4, 128, WIDTH)


def tracked(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> dict[str, float]:
    """Peak of the second step by category, and in all, that PyTorch's tracker finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.distributed._tools.mem_tracker import MemTracker

        with FakeTensorMode():
            model, x = make()
            optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
            tracker = MemTracker()
            tracker.track_external(model, optimizer, x)
            with tracker:
                for number in range(2):
                    if number:
                        tracker.reset_mod_stats()
                    optimizer.zero_grad()
                    model(x).float().sum().backward()
                    optimizer.step()
    peak = next(iter(tracker.get_tracker_snapshot("peak").values()))
    return {str(getattr(key, "value", key)): float(value) for key, value in peak.items()}


@pytest.mark.parametrize(("function", "make"), [("memory_mlp", mlp), ("memory_layer", transformer_layer)])
def test_the_peak_is_that_of_pytorchs_tracker(
    function: str, make: Callable[[], tuple[nn.Module, torch.Tensor]]
) -> None:
    found = rank_of(captured(function, 1)).memory.peak
    expected = tracked(make)
    assert sum(found.values()) == pytest.approx(expected["Total"], rel=1e-3)  # a block for each number of steps
    assert found["parameters"] == expected["Parameter"]
    assert found["inputs"] == expected["Other"]
    assert found["activations"] == pytest.approx(expected["Activation"], rel=1e-3)
