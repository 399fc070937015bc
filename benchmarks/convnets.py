"""``python -m benchmarks convnets``: predicted against published rates of convolutional networks on one GPU.

Sources: TF, tensorflow/tensorflow docs_src/performance/benchmarks.md (tf_cnn_benchmarks, TensorFlow of May 2017);
SARUS, eth-cscs/sarus doc/cookbook/tensorflow_horovod (TensorFlow 1.12 on Piz Daint, figure digitised); EBUG,
e-bug/distributed-tensorflow-benchmarks report (TensorFlow 1.1 on Piz Daint and EC2); MLPERF_MODEL,
owensgroup/ml_perf_model analysis/notebooks/e2e_plot.ipynb (PyTorch, ResNet-50 as torchvision has it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.rows import Row
from hardware_specs.loader import load_cluster, load_gpu
from hardware_specs.types import Cluster
from simulator.engine import RunOptions, run
from simulator.lowered import PS_PER_S
from simulator.lowering import build_machine, lower
from workloads.convnet.family import ConvnetWorkload
from workloads.convnet.settings import ConvnetSettings

LAUNCH_S = 5e-6
"""Host time of a launch, seconds (`workloads/frameworks`); it matters for small batches only."""

ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """A published rate of one GPU, fp32, synthetic images."""

    gpu: str
    model: str
    images: int
    images_per_s: float
    source: str
    fitted: bool = False

    @property
    def name(self) -> str:
        """GPU, network, batch and source."""
        return f"{self.gpu}_{self.model}_{self.images}_{self.source}"


RATES = (
    Rate("p100_pcie_16", "inception3", 64, 148.2, "SARUS"),
    Rate("p100_pcie_16", "resnet50", 64, 240.0, "SARUS"),
    Rate("p100_pcie_16", "vgg16", 64, 149.7, "SARUS"),
    Rate("p100_pcie_16", "alexnet_tf", 64, 2024.9, "SARUS"),
    Rate("p100_pcie_16", "inception3", 64, 138.23, "EBUG"),
    Rate("p100_sxm2_16", "inception3", 64, 142.0, "TF"),
    Rate("p100_sxm2_16", "resnet50", 64, 219.0, "TF"),
    Rate("p100_sxm2_16", "resnet50", 32, 195.0, "TF"),
    Rate("p100_sxm2_16", "resnet152", 64, 91.8, "TF"),
    Rate("p100_sxm2_16", "vgg16", 64, 154.0, "TF"),
    Rate("p100_sxm2_16", "alexnet_tf", 512, 2987.0, "TF"),
    Rate("k80_12", "resnet50", 64, 51.9, "TF", fitted=True),
    Rate("k80_12", "resnet50", 32, 49.5, "TF"),
    Rate("k80_12", "resnet152", 32, 19.4, "TF"),
    Rate("k80_12", "inception3", 64, 30.5, "TF"),
    Rate("k80_12", "inception3", 32, 29.2, "TF"),
    Rate("k80_12", "inception3", 64, 30.55, "EBUG"),
    Rate("v100_sxm2_16", "resnet50_v1.5", 64, 64 / 0.21453, "MLPERF_MODEL"),
    Rate("v100_sxm2_16", "resnet50_v1.5", 32, 32 / 0.11478, "MLPERF_MODEL"),
    Rate("v100_sxm2_16", "resnet50_v1.5", 16, 16 / 0.06655, "MLPERF_MODEL"),
    Rate("p100_pcie_16", "resnet50_v1.5", 64, 64 / 0.33354, "MLPERF_MODEL"),
    Rate("p100_pcie_16", "resnet50_v1.5", 32, 32 / 0.17916, "MLPERF_MODEL"),
    Rate("p100_pcie_16", "resnet50_v1.5", 16, 16 / 0.12275, "MLPERF_MODEL"),
)
"""Rates of GPUs that are named; those of "Pascal GPUs" in Horovod's README have no model of ours to compare with."""


def cluster_of(gpu: str) -> Cluster:
    """Nodes with one such GPU, otherwise Piz Daint's; the GPU may be on another board, as nothing leaves it here."""
    data = load_cluster("piz_daint").to_dict()
    data["node"]["gpu"] = load_gpu(gpu).model_dump(mode="json")
    return Cluster.model_validate(data)


def predicted_images_per_s(rate: Rate) -> float:
    """Images per second of one GPU in a run of the engine."""
    settings = ConvnetSettings(rate.model, 1, 1, rate.images, "horovod_nccl")
    machine = build_machine(cluster_of(rate.gpu), 1, launch_s=LAUNCH_S)
    ends = run(lower(ConvnetWorkload(settings).graph(), machine).program, RunOptions(ITERATIONS)).iteration_end_ps
    return rate.images * PS_PER_S / float(ends[-1] - ends[-2])


def rows() -> Iterator[Row]:
    """Predicted rate and error of each published one."""
    for rate in RATES:
        predicted = predicted_images_per_s(rate)
        yield Row(rate.name, predicted, "images/s")
        mark = "% fitted" if rate.fitted else "%"
        yield Row(f"{rate.name}_error", 100.0 * (predicted / rate.images_per_s - 1.0), mark)
