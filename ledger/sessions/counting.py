"""The port to a token counter: a tokenizer that the caller passes, else an estimate."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import check_plain
from ledger.domain.tokens import MEDIA_TOKENS, MESSAGE_TOKENS, estimate
from ledger.events import ESTIMATE as ESTIMATED
from ledger.sessions.rules.message import Draft

MAX_TOKENS = 2**40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


class Counter(Struct, frozen=True):
    """A named function that counts the tokens of a text; the name is stored with every count."""

    name: str
    count: Callable[[str], int]

    def of_text(self, text: str) -> int:
        """Return the number of tokens of a text.

        Raises:
            ModelError: The counter raised, or did not return a whole number from 0.
        """
        if not text:
            return 0
        try:
            count: object = self.count(text)
        except Exception as error:
            raise ModelError(f"the token counter {self.name!r} failed ({type(error).__name__})") from error
        return checked(count, f"the token counter {self.name!r} gave")

    def of_message(self, draft: Draft) -> int:
        """Return the number of tokens of a message: its texts, its frame, and 256 for each image or other non-text."""
        texts, media = draft.read
        return sum(map(self.of_text, texts)) + MESSAGE_TOKENS + MEDIA_TOKENS * media


def check_tokens(name: str, tokens: object) -> int:
    """Return a checked number of tokens.

    Raises:
        RejectedError: The value is not a whole number from 0 to ``MAX_TOKENS``.
    """
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= MAX_TOKENS:
        raise RejectedError(f"{name} is a whole number from 0 to {MAX_TOKENS:,}, and {tokens!r:.40} is not")
    return tokens


def checked(count: object, label: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_TOKENS:
        raise ModelError(f"{label} {count!r:.40}, and tokens are counted in whole numbers from 0")
    return count


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
