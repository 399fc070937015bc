"""Size of an iteration of a DLRM before its tables are placed."""

from __future__ import annotations

from scenarios.dlrm.typed import DlrmResolved
from scenarios.family import Expected

TASKS_PER_LAYER, GRAPHED_TASKS_PER_LAYER, OTHER_TASKS = 13, 5, 30
"""Tasks of a pass for each layer of the MLPs, with kernels launched one by one and as a graph, and beside them: within
25 % of the shipped scenarios' 61 (``nvidia_dlrm``, 8 layers) to 575 (``zionex_i_128``, 44 layers)."""


TASKS_PER_STACK, TASKS_PER_HSTU_LAYER = 230, 54
"""Tasks of a pass beside a stack of HSTU layers, and for each of its layers (``mlperf_dlrm_v4_hstu``: 449)."""


def expected(resolved: DlrmResolved) -> Expected:
    """Tasks of a rank, from the number of layers."""
    model, workload = resolved.model, resolved.scenario.workload
    if model.uniform_mlp is not None:
        layers = model.uniform_mlp.bottom_layers.value + model.uniform_mlp.top_layers.value
    else:
        layers = 0 if model.mlp is None else len(model.mlp.bottom.value) + len(model.mlp.top.value)
    layers += 0 if model.cross is None else model.cross.layers.value
    graphed = workload.cuda_graph not in (None, "none")
    per_layer = GRAPHED_TASKS_PER_LAYER if graphed else TASKS_PER_LAYER
    stack = 0 if model.hstu is None else TASKS_PER_STACK + TASKS_PER_HSTU_LAYER * model.hstu.layers.value
    tasks = workload.gradient_accumulation * (OTHER_TASKS + per_layer * layers + stack)
    return Expected(tasks, model.pooling_spread is not None)
