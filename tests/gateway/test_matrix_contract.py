"""The contract suite of adapters over Matrix, on a real Synapse."""

from pathlib import Path

import pytest

from holdfast.testing.adapter_suite import CHECKS, AdapterCheck, run_check
from holdfast.testing.provider_case import NotOffered
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.synapse_server import SynapseServer

pytestmark = pytest.mark.slow  # each worker starts a server, and installs it once

NOT_TRIED = {"buttons", "buttons removed"}


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_matrix_keeps_the_contract(check: AdapterCheck, synapse: SynapseServer, tmp_path: Path) -> None:
    try:
        run_check(check, lambda: MatrixPlatform(synapse), tmp_path)
    except NotOffered:
        assert check.name in NOT_TRIED
    else:
        assert check.name not in NOT_TRIED
