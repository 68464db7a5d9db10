"""The port to a token counter: a tokenizer that the caller passes, else an estimate."""

from __future__ import annotations

import re
from collections.abc import Callable

from ledger.domain.errors import RejectedError
from ledger.domain.text import check_plain
from ledger.domain.tokens import MAX_TOKENS, Counter, estimate
from ledger.events import ESTIMATE as ESTIMATED

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


def check_tokens(name: str, tokens: object) -> int:
    """Return a checked number of tokens.

    Raises:
        RejectedError: The value is not a whole number from 0 to ``MAX_TOKENS``.
    """
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= MAX_TOKENS:
        raise RejectedError(f"{name} is a whole number from 0 to {MAX_TOKENS:,}, and {tokens!r:.40} is not")
    return tokens


ESTIMATE = Counter(ESTIMATED, estimate)


def as_counter(function: Callable[[str], int] | None) -> Counter:
    """Return a counter that calls a function of a text; without a function, the estimate.

    The name of the counter is the function's attribute ``name``, else the name of its definition.

    Raises:
        RejectedError: The value is not a function, or has no usable name.
    """
    if function is None:
        return ESTIMATE
    if not callable(function):
        raise RejectedError(f"a token counter is a function of a text, not {type(function).__name__}")
    check_plain("a token counter", function)
    name = getattr(function, "name", None) or getattr(function, "__name__", None) or type(function).__name__
    name = str(name).strip("<>")
    if not _NAME.fullmatch(name):
        raise RejectedError(
            f"a token counter needs a name of letters, digits and . _ : / -, and {name!r:.60} is not such a name"
        )
    return Counter(name, function)
