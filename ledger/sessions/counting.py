"""The port to a token counter: the model's own tokenizer where there is one, and an estimate without."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.events import ESTIMATE as ESTIMATED
from ledger.domain.message import Draft
from ledger.domain.text import check_plain
from ledger.domain.tokens import MEDIA_TOKENS, MESSAGE_TOKENS, estimate

MAX_TOKENS = 2**40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")


class Counter(Struct, frozen=True):
    """A named way to count the tokens of a text; the name is stored with every count."""

    name: str
    count: Callable[[str], int]

    def of_text(self, text: str) -> int:
        """Tokens of one text; ``ModelError`` where the counter raises or gives no whole number from 0."""
        if not text:
            return 0
        try:
            found: object = self.count(text)
        except Exception as error:
            raise ModelError(f"the token counter {self.name!r} failed ({type(error).__name__})") from error
        return checked(found, f"the token counter {self.name!r} gave")

    def of_message(self, draft: Draft) -> int:
        """Tokens of a message: its texts, its frame, and 256 for each media item and what else is no text."""
        texts, media = draft.read
        return sum(map(self.of_text, texts)) + MESSAGE_TOKENS + MEDIA_TOKENS * media


def check_tokens(name: str, given: object) -> int:
    """What somebody else counted; ``RejectedError`` where that is no number of tokens."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_TOKENS:
        raise RejectedError(f"{name} is a whole number from 0 to {MAX_TOKENS:,}, and {given!r:.40} is not")
    return given


def checked(count: object, what: str) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_TOKENS:
        raise ModelError(f"{what} {count!r:.40}, and tokens are counted in whole numbers from 0")
    return count


ESTIMATE = Counter(ESTIMATED, estimate)


def as_counter(given: Callable[[str], int] | None) -> Counter:
    """The counter that a caller named: a function of a text, known by its ``name`` or that of its definition."""
    if given is None:
        return ESTIMATE
    if not callable(given):
        raise RejectedError(f"a token counter is a function of a text, not {type(given).__name__}")
    check_plain("a token counter", given)
    name = getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__
    name = str(name).strip("<>")
    if not _NAME.fullmatch(name):
        raise RejectedError(f"a token counter needs a name of letters, digits and . _ : / -, and {name!r:.60} is none")
    return Counter(name, given)
