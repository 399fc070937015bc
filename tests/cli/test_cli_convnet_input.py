"""Wrong input about convolutional networks ends with exit code 2, and names key, given and expected value."""

from __future__ import annotations

import pytest

from dlrmsim.cli import main

WRONG = {
    "workload.strategy=horovod": ("workload.strategy", "'horovod'", "horovod_nccl"),
    "workload.strategy=grpc_ps,workload.servers=9": ("workload.servers", "given 9", "at most 8"),
    "workload.model=dlrm_default": ("workload.model", "dlrm_default", "one of alexnet"),
    "workload.fusion_bytes=0 B": ("workload.fusion_bytes", "'0 B'", "from 1 B"),
    "workload.servers=2": ("workload.servers", "given 2", "starts with grpc_ps"),
}


@pytest.mark.parametrize("settings", WRONG)
def test_wrong_settings_are_refused_with_key_given_and_expected(settings: str, capsys) -> None:
    changes = [word for setting in settings.split(",") for word in ("--set", setting)]
    assert main(["run", "tf_resnet50", "--check", *changes]) == 2
    said = capsys.readouterr().err
    for word in WRONG[settings]:
        assert word in said, said
