"""Members of `scenarios.family.Family` that families of DLRMs share."""

from __future__ import annotations

from collections.abc import Mapping

from inputs.keys import KeyPath
from inputs.yaml_lines import Document
from scenarios.types import Scenario
from workloads.dlrm.model.model import DlrmModel, load_model, read_model


class DlrmModels:
    """Models are files, and collectives go by the cluster's library."""

    __slots__ = ()

    def load_model(self, name_or_path: str, *, origin: Document, key: str) -> DlrmModel:
        """A shipped model or a model file; raises as `workloads.dlrm.model.model.load_model`."""
        return load_model(name_or_path, origin=origin, key=key)

    def read_model(self, document: Document, *, prefix: KeyPath) -> DlrmModel:
        """A model written out; raises as `workloads.dlrm.model.model.read_model`."""
        return read_model(document, prefix=prefix)

    def models(self) -> Mapping[str, str]:
        """None: all models are files."""
        return {}

    def backend(self, scenario: Scenario) -> None:  # noqa: ARG002 - an interface
        """None: the cluster's; see `scenarios.family.Family.backend`."""
        return
