"""All checks of a store by name, wherever it is tried."""

from __future__ import annotations

from tests.conformance import reading, writing  # noqa: F401 - they name the checks
from tests.conformance.promises import PROMISES

CHECKS = {check.__name__.removeprefix("check_"): check for checks in PROMISES.values() for check in checks}
