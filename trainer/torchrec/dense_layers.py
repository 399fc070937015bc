"""Dense part of TorchRec's DLRM as a model file has it: MLPs and interaction, read from the layers' shapes."""

from __future__ import annotations

from typing import Any

from inputs.errors import InputError
from trainer.torchrec.interfaces import TorchModule

INTERACTIONS = {"InteractionArch": "dot", "InteractionDCNArch": "dcnv2"}
"""Interaction classes of torchrec/models/dlrm.py -> ``interaction`` of a model file."""


def dense_of(module: TorchModule) -> dict[str, Any]:
    """``mlp``, ``interaction`` and ``cross`` of a module that has a ``DLRM`` or ``DLRM_DCN`` of TorchRec.

    A DLRM is recognised by its parts ``dense_arch``, ``inter_arch`` and ``over_arch``.

    Raises:
        InputError: there is none, or its interaction has no form in a model file.
    """
    found = next((part for _, part in module.named_modules() if _is_dlrm(part)), None)
    if found is None:
        raise _unreadable("the module is no DLRM of TorchRec, so its dense part is not known", type(module).__name__)
    bottom, top = _widths(found.dense_arch), _widths(found.over_arch)
    kind = type(found.inter_arch).__name__
    if kind not in INTERACTIONS:
        raise _unreadable("the interaction has no form in a model file", kind)
    dense: dict[str, Any] = {
        "mlp": {"dense_features": bottom[0], "bottom": bottom[1:], "top": top[1:]},
        "interaction": INTERACTIONS[kind],
    }
    if dense["interaction"] == "dcnv2":
        dense["cross"] = _cross(found.inter_arch.crossnet)
    return dense


def _is_dlrm(part: Any) -> bool:
    return all(hasattr(part, name) for name in ("dense_arch", "inter_arch", "over_arch"))


def _widths(arch: Any) -> list[int]:
    """Inputs of the first linear layer and outputs of all, in their order."""
    layers = [part for _, part in arch.named_modules() if type(part).__name__ == "Linear"]
    return [int(layers[0].in_features), *(int(layer.out_features) for layer in layers)] if layers else [1]


def _cross(network: Any) -> dict[str, int]:
    """Layers and rank of a ``LowRankCrossNet``.

    Raises:
        InputError: the cross network is of another class.
    """
    if type(network).__name__ != "LowRankCrossNet":
        raise _unreadable("the cross network has no form in a model file", type(network).__name__)
    return {"layers": len(network.W_kernels), "rank": int(network.W_kernels[0].shape[1])}


def _unreadable(message: str, given: str) -> InputError:
    expected = "DLRM or DLRM_DCN, or dense={'mlp': {...}, 'interaction': ...} with the keys of a model file"
    return InputError(message, key="dense", given=given, expected=expected)
