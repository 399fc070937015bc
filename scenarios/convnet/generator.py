"""The networks of `workloads.convnet`, and their workloads from resolved scenarios; registers the family."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.convnet.family import ConvnetFamily
from scenarios.convnet.settings import ConvnetResolved, settings_of
from scenarios.family import FAMILIES
from workloads.convnet.catalog import NETWORKS, network
from workloads.convnet.family import ConvnetWorkload


class ConvnetGenerator:
    """See `scenarios.convnet.family.Generator`."""

    def titles(self) -> Mapping[str, str]:
        """Parameters of each network."""
        return {name: f"{network(name).parameters / 1e6:.1f} M parameters" for name in NETWORKS}

    def layers(self, name: str) -> int:
        """Layers of a network."""
        return len(network(name).layers)

    def workload(self, resolved: ConvnetResolved) -> ConvnetWorkload:
        """The workload of a scenario; raises as `workloads.convnet.settings.ConvnetSettings`."""
        return ConvnetWorkload(settings_of(resolved))


FAMILIES.add("convnet", ConvnetFamily(ConvnetGenerator()), "convolutional networks on equal batches of images")
