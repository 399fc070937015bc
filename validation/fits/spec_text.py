"""Fits as the text of spec files: of a cluster, of a GPU, of a framework profile; and in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardware_specs.catalogs import CATALOGS
from hardware_specs.collectives import FittedCollectives
from hardware_specs.loader import load_cluster
from hardware_specs.processors import Gpu
from inputs.quantities import format_quantity
from inputs.sourced import Sourced
from inputs.yaml_lines import load_yaml
from validation.fits.fitting import FabricFit
from validation.fits.framework_fit import FittedConstants, in_words
from validation.fits.kernel_fit import KernelFit
from validation.fits.parameters import FACTORS
from workloads.catalogs import FRAMEWORKS


def cluster_text(cluster: str | Path, name: str, fit: FabricFit) -> str:
    """The cluster's own YAML with another name and the fit in place of its points of the same links.

    Shipped parts keep their names; a cluster of the user's is written with all its parts, which may be anywhere.
    """
    import yaml

    shipped = str(cluster) in CATALOGS["cluster"].names()
    own: Any = load_yaml(CATALOGS["cluster"].find(cluster)).data if shipped else load_cluster(cluster).to_dict()
    data: dict[str, Any] = {**own, "name": name, "calibration": _points_kept(own["calibration"], fit.fitted)}
    protocols = {key: _as_written(getattr(fit.cluster.fabric, key)) for key in ("protocols", "ring_protocols")}
    data["fabric"] = {**own["fabric"], **{key: value for key, value in protocols.items() if value is not None}}
    data["fitted"] = _plain(fit.fitted)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)


def _points_kept(points: Any, fitted: FittedCollectives) -> list[Any]:
    """The cluster's own calibration points of links that the fit has no fractions of."""

    def is_fitted(point: Any) -> bool:
        inside = point["ranks"] <= point["ranks_per_node"]
        return bool(fitted.near_fraction if inside else fitted.network_fraction)

    return [point for point in points if not is_fitted(point)]


def _as_written(value: Sourced[Any] | None) -> dict[str, object] | None:
    return None if value is None else {**value.model_dump(), "value": list(value.value)}


OPTIONAL = ("together_fraction", "ll_fraction", "span_exponent")


def _plain(fitted: FittedCollectives) -> dict[str, Any]:
    """The block as it is written: four significant digits."""

    def entry(value: Any, text: object) -> dict[str, object]:
        return {"value": text, "source": value.source, "grade": value.grade, "note": value.note}

    def ratio(value: Any) -> dict[str, object]:
        return entry(value, float(f"{value.value:.4g}"))

    return {
        "near_fraction": {str(name): ratio(value) for name, value in fitted.near_fraction.items()},
        "network_fraction": {str(name): ratio(value) for name, value in fitted.network_fraction.items()},
        **{key: ratio(getattr(fitted, key)) for key in OPTIONAL if getattr(fitted, key) is not None},
        **{factor: ratio(getattr(fitted, factor)) for factor in FACTORS},
        "copy_bytes_per_s": entry(fitted.copy_bytes_per_s, f"{fitted.copy_bytes_per_s.value / 1e9:.4g} GB/s"),
        "launch_s": {source: entry(v, f"{round(v.value * 1e6, 2):g} us") for source, v in fitted.launch_s.items()},
        **({} if fitted.rows is None else {"rows": fitted.rows.model_dump()}),
    }


def fit_in_words(fitted: FittedCollectives) -> list[tuple[str, str]]:
    """(what, value) of everything fitted, for people."""
    rows = [(f"share of the links inside a node, {name}", f"{v.value:.3f}") for name, v in fitted.near_fraction.items()]
    rows += [(f"share of the network links, {name}", f"{v.value:.3f}") for name, v in fitted.network_fraction.items()]
    words = ("share left of links inside and NICs at once", "share left of LL between nodes", "exponent of the nodes")
    optional = zip(words, (getattr(fitted, key) for key in OPTIONAL), strict=True)
    rows += [(what, f"{value.value:.3f}") for what, value in optional if value is not None]
    rows += [
        (f"{factor.replace('_', ' ')} on the library's latency", f"{getattr(fitted, factor).value:.2f}")
        for factor in FACTORS
    ]
    rows.append(("copy of the own part", format_quantity(fitted.copy_bytes_per_s.value, "bytes_per_s")))
    return rows + [
        (f"launch overhead of {source}", f"{value.value * 1e6:.1f} us") for source, value in fitted.launch_s.items()
    ]


def gpu_text(gpu: str | Path, name: str, found: Gpu, fitted_keys: Sequence[str]) -> str:
    """The GPU's own YAML with another name and the constants that were fitted."""
    import yaml

    data: dict[str, Any] = dict(load_yaml(CATALOGS["gpu"].find(gpu)).data)
    fitted = {key: _entry(key, getattr(found.achieved, key)) for key in fitted_keys}
    data["name"], data["achieved"] = name, {**dict(data["achieved"]), **fitted}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)


def _entry(key: str, value: Sourced[float]) -> dict[str, object]:
    """A constant as it is written: three significant digits."""
    return {"value": _rate(key, value.value), "source": value.source, "grade": value.grade, "note": value.note}


def _rate(key: str, value: float) -> object:
    if key.endswith("_bytes_per_s"):
        return f"{float(f'{value / 1e9:.3g}'):g} GB/s"
    return f"{value / 1e-6:.3g} us" if key.endswith("_s") else float(f"{value:.3g}")


def kernel_fit_in_words(fit: KernelFit) -> list[tuple[str, str]]:
    """(what, value) of everything fitted, for people."""
    return [(key, str(_rate(key, getattr(fit.gpu.achieved, key).value))) for key in fit.fitted]


def fitted_profile(framework: str, name: str, source: str, fitted: FittedConstants) -> str:
    """The text of a profile of another name with fitted constants.

    Args:
        framework: name or path of the profile that they were fitted in.
        source: origin of the cases.

    Raises:
        InputError: there is no such profile.
    """
    text = with_constants(FRAMEWORKS.find(framework).read_text(encoding="utf-8"), source, fitted)
    return with_entry(text, "name", f"name: {name}\n")


def with_constants(profile: str, source: str, fitted: FittedConstants) -> str:
    """The text with the fitted entries in the place of the old ones, or at its end."""
    for constant, value in fitted.values.items():
        line = (
            f'{constant}: {{value: {in_words(constant, value)}, source: "{source}", grade: derived, '
            f'note: "least squares of logarithms over {fitted.cases} calibration cases"}}\n'
        )
        profile = with_entry(profile, constant, line)
    return profile


def with_entry(text: str, key: str, line: str) -> str:
    """The text with ``line`` instead of the top-level entry of ``key``, appended where there is none."""
    entry = re.compile(rf"^{key}:.*\n(?:[ ].*\n)*", re.MULTILINE)
    if entry.search(text):
        return entry.sub(lambda _: line, text, count=1)
    return text.rstrip("\n") + "\n" + line
