"""Networks computed layer by layer have the parameters and multiply-adds that their authors published."""

from __future__ import annotations

import pytest

from inputs.errors import InputError
from workloads.convnet.architectures.inception import inception3
from workloads.convnet.builder import NetworkBuilder
from workloads.convnet.catalog import NETWORKS, network
from workloads.convnet.layers import Shape

PARAMETERS = {
    # torchvision.models, num_params of the weights
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "resnet50_v1.5": 25_557_032,
    "resnet101": 44_549_160,
    "resnet101_v1.5": 44_549_160,
    "resnet152": 60_192_808,
    "resnet152_v1.5": 60_192_808,
    # tf.keras.applications, trainable parameters of Model.summary()
    "mobilenet_v1": 4_231_976,
    "inception3": 23_817_352,
    "nasnet_large": 88_753_150,
}

WITH_STATISTICS = {
    # tf.keras.applications, all parameters of Model.summary()
    "mobilenet_v1": 4_253_864,
    "inception3": 23_851_784,
    "nasnet_large": 88_949_818,
    # keras-team/keras 2.x, examples/cifar10_resnet.py, Model.summary() of ResNet20v1 and ResNet29v2 (recalled)
    "resnet20_v1": 274_442,
    "resnet29_v2": 849_002,
}

GIGA_MULTIPLY_ADDS = {
    # torchvision.models, GFLOPS of the weights (a multiply-add is one)
    "alexnet": 0.714,
    "vgg16": 15.47,
    "resnet50_v1.5": 4.089,
    "resnet101_v1.5": 7.801,
    "resnet152_v1.5": 11.514,
    "inception3": 5.713,
    # arXiv:1704.04861 table 8, arXiv:1707.07012 table 2
    "mobilenet_v1": 0.569,
    "nasnet_large": 23.8,
}

ROUGH = {"resnet50": 3.8, "resnet101": 7.6, "resnet152": 11.3}
"""Billions of multiply-adds in table 1 of arXiv:1512.03385, which has one digit after the point and cuts off the rest.
"""


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_parameters_are_exactly_the_published_ones(name: str, count: int) -> None:
    assert network(name).parameters == count


@pytest.mark.parametrize(("name", "count"), WITH_STATISTICS.items())
def test_parameters_with_statistics_of_batches_are_exactly_those_of_keras(name: str, count: int) -> None:
    net = network(name)
    assert net.parameters + net.statistics == count


@pytest.mark.parametrize("blocks", [1, 2, 18, 111])
def test_resnets_of_version_2_by_formula(blocks: int) -> None:
    """9 n + 2 layers. ResNet-1001 has 30.3 million weights; Awan et al. (arXiv:1911.05146) count 30 million."""

    def conv(window: int, channels: int, outputs: int) -> int:
        return window**2 * channels * outputs + outputs

    def bottleneck(inputs: int, width: int, output: int) -> int:
        """Three convolutions, each behind a normalisation of its input."""
        convs = conv(1, inputs, width) + conv(3, width, width) + conv(1, width, output)
        return convs + 2 * (inputs + 2 * width)

    total = conv(3, 3, 16) + 2 * 16 - 2 * 16  # the first block's input is normalised by the first layers
    for inputs, width, output in ((16, 16, 64), (64, 64, 128), (128, 128, 256)):
        total += bottleneck(inputs, width, output) + conv(1, inputs, output)
        total += (blocks - 1) * bottleneck(output, width, output)
    total += 2 * 256 + 256 * 10 + 10
    net = network(f"resnet{9 * blocks + 2}_v2")
    assert net.parameters == total
    assert sum(layer.kind == "conv" for layer in net.layers) == 9 * blocks + 1 + 3  # the linear layer is not one
    assert blocks < 111 or 30.0e6 < total < 30.5e6


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("resnet1000_v2", "resnet1001_v2"), ("resnet3_v1", "resnet8_v1"), ("resnet111_v1", "resnet110_v1")],
)
def test_a_depth_that_no_resnet_has_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=f"workload.model: ResNets of version .*did you mean '{nearest}'"):
        network(name)


def test_larger_images_have_the_same_weights_and_as_many_times_the_work() -> None:
    small, large = network("resnet164_v2"), network("resnet164_v2", image_size=64)
    assert large.parameters == small.parameters
    assert large.multiply_adds == pytest.approx(4 * small.multiply_adds, rel=1e-3)
    with pytest.raises(InputError, match=r"workload.image_size: a max_pool of vgg16 has nothing left.*given 16"):
        network("vgg16", image_size=16)


def test_inception_with_scale_and_second_classifier_is_torchvisions() -> None:
    assert inception3(scale=True).parameters == 23_834_568
    assert inception3(scale=True, auxiliary=True).parameters == 27_161_264


@pytest.mark.parametrize(("name", "count"), GIGA_MULTIPLY_ADDS.items())
def test_multiply_adds_are_the_published_ones(name: str, count: float) -> None:
    assert network(name).multiply_adds / 1e9 == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(("name", "count"), ROUGH.items())
def test_multiply_adds_of_version_1_are_the_papers(name: str, count: float) -> None:
    assert abs(network(name).multiply_adds / 1e9 - count) < 0.1


def test_alexnet_of_tf_cnn_benchmarks_has_a_wider_fourth_convolution() -> None:
    fourth = 3 * 3 * 384 * (384 - 256) + (384 - 256)
    fifth = 3 * 3 * (384 - 256) * 256
    assert network("alexnet_tf").parameters - network("alexnet").parameters == fourth + fifth


def test_a_class_more_is_a_column_more_of_the_last_layer() -> None:
    assert network("resnet50", 1001).parameters - network("resnet50").parameters == 2048 + 1


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_read_layers_before_them_and_have_the_shapes_that_these_write(name: str) -> None:
    net = network(name)
    for number, layer in enumerate(net.layers):
        for source, shape in zip(layer.inputs, layer.shapes, strict=True):
            assert source < number
            assert shape == (net.image if source < 0 else net.layers[source].output)
    unread = [n for n in range(len(net.layers)) if net.readers[n] == 0]
    assert unread == [len(net.layers) - 1]
    assert len({variable.name for variable in net.variables}) == len(net.variables)


def test_padding() -> None:
    net = NetworkBuilder("pads", 299)
    assert net.conv(net.images, 8, 3, stride=2, padding="valid").shape == Shape(149, 149, 8)
    assert net.conv(net.images, 8, 3, stride=2).shape == Shape(150, 150, 8)
    assert net.conv(net.images, 8, 7, stride=2, padding=3).shape == Shape(150, 150, 8)
    assert net.conv(net.images, 8, (1, 7), padding="valid").shape == Shape(299, 293, 8)


def test_what_the_forward_pass_keeps() -> None:
    """conv keeps the images, batch normalisation the convolution's output, the ReLU its own; the last layer nothing."""
    net = NetworkBuilder("small", 8)
    net.dense(net.mean(net.conv_bn(net.images, 4, 3)), 10)
    images, tensor, mean = 8 * 8 * 3, 8 * 8 * 4, 4
    assert net.build().kept_elements == images + 2 * tensor + mean


def test_a_tensor_with_two_readers_is_kept_once() -> None:
    net = NetworkBuilder("fork", 8)
    net.add(net.conv(net.images, 4, 3), net.conv(net.images, 4, 1))
    assert net.build().kept_elements == 8 * 8 * 3
    assert net.build().readers[-1] == 2


def test_an_unknown_network_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"workload.model: no such network; given 'resnet51'.*did you mean 'resnet50'"):
        network("resnet51")
