"""The parameters of one user's memory."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.domain import confidence as rules
from ledger.domain.policy import MILLIONTHS
from ledger.engine.engine import Engine
from projections.views import control


def parameters(engine: Engine, user: str) -> dict[str, Any]:
    """Those in effect; gains as decimals."""
    with engine.reading() as connection:
        found = msgspec.structs.asdict(control.policy(connection, user))
    return found | {name: rules.shown(found[name]) for name in MILLIONTHS}
