"""The tests in `tests/e2e/test_client_queue.py`, with the same client over gRPC."""

from __future__ import annotations

import pytest
from tests.e2e.grpc.over_grpc import _over_grpc  # noqa: F401
from tests.e2e.test_client_queue import *  # noqa: F403

pytestmark = pytest.mark.slow
