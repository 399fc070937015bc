"""Plans for TorchRec where it is not installed; `tests/torchrec` has it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import dlrmsim
from inputs.errors import MissingExtraError


@pytest.mark.skipif(find_spec("torchrec") is not None, reason="torchrec is installed")
def test_a_missing_library_is_named_with_its_command():
    with pytest.raises(MissingExtraError, match=r"pip install 'dlrmsim\[torchrec\]'") as refused:
        dlrmsim.to_torchrec("plan.json")
    assert refused.value.exit_code == 2
