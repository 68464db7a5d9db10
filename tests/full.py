"""Everything that an answer holds, as one text: where a test looks for what must not be in it. Its ``repr`` is one short line."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger import Page


def full(found: object) -> str:
    """Return the whole text of an answer, a page, a list of answers or an exception."""
    return repr(msgspec.to_builtins(found, enc_hook=_plain))


def _plain(found: object) -> Any:
    if isinstance(found, Page):
        return list(found)
    return [str(found), vars(found)] if isinstance(found, BaseException) else repr(found)
