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
