"""Leaves every call of a language model in the log: what it was shown, what it took, and what became of each action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.domain import spans
from ledger.domain.errors import ModelError
from ledger.domain.events import LEDGER_STREAM, Acted, ModelCalled, ModelCallFailed
from ledger.domain.ids import LENGTH, is_prefix
from ledger.engine.work import Work
from ledger.language.asking import Asked
from ledger.language.port import ModelRequest
from ledger.language.reading import Dropped, Parsed, text_of
from ledger.policies.turns import KEPT as KEPT
from ledger.policies.turns import Taken as Taken

LISTED = 100  # actions of one call; the others are counted
ITEMS = 2_000  # ranges and subjects of one call


def dropped(parsed: Parsed) -> list[Taken]:
    """What of an answer was no action, as it is recorded."""
    listed = [Taken(each.what, each.reason, text=each.text) for each in parsed.dropped]
    return [*listed, *([Taken("", "truncated")] if parsed.truncated else [])]


def emit_call(
    work: Work,
    asked: Asked,
    request: ModelRequest,
    *,
    ranges: Iterable[tuple[int, int]] = (),
    shown: Sequence[str] = (),
    actions: Sequence[Taken | Dropped] = (),
    cited: Iterable[Acted] = (),
    left_over: int = 0,
) -> None:
    """Records an answered call in the append of what it led to, inside the body of that command.

    ``ranges`` are the positions of what the model was given to read, ``shown`` the ids behind the numbers in its prompt. Of
    the ``actions`` a hundred are listed, and of those that were not kept their text; ``left_over`` counts more. Behind them
    stands what the model ``cited`` for what it came to.
    """
    listed = [each if isinstance(each, Taken) else Taken(each.what, each.reason, text=each.text) for each in actions]
    kept = listed[:LISTED]
    work.emit(
        LEDGER_STREAM,
        ModelCalled(
            purpose=request.purpose,
            model=asked.model,
            prompt=request.prompt,
            ranges=joined(ranges),
            shown=tuple(shown[:ITEMS]),
            input_tokens=asked.answer.input_tokens,
            output_tokens=asked.answer.output_tokens,
            attempts=asked.attempts,
            milliseconds=asked.milliseconds,
            actions=(
                *(Acted(each.what, each.outcome, _id(each.subject), _id(each.target)) for each in kept),
                *cited,
            ),
            texts=_texts(work, kept),
            left_over=left_over + len(listed) - len(kept),
        ),
    )


def emit_failure(
    work: Work, request: ModelRequest, error: ModelError, *, model: str, ranges: Iterable[tuple[int, int]] = ()
) -> None:
    """Records a call that failed in the append of a command, inside its body."""
    work.emit(
        LEDGER_STREAM,
        ModelCallFailed(
            purpose=request.purpose,
            model=model,
            prompt=request.prompt,
            error=error.kind,
            ranges=joined(ranges),
            attempts=error.attempts,
            milliseconds=error.milliseconds,
            status=error.status,
        ),
    )


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order, what touches as one; beyond 2,000 the rest as one that spans them."""
    found = spans.joined(ranges)
    return found if len(found) <= ITEMS else (*found[: ITEMS - 1], (found[ITEMS - 1][0], found[-1][1]))


def _texts(work: Work, listed: Sequence[Taken]) -> tuple[str, ...]:
    """What was dropped, but for that in which a scanner finds a threat: of that only the outcome is kept."""
    found = ("" if each.outcome == KEPT else text_of(each.text) for each in listed)
    texts = tuple("" if work.threat(text) is not None else text for text in found)
    return texts if any(texts) else ()


def _id(given: str | None) -> str | None:
    """An id of ours; what a model made up is none."""
    known = given is not None and len(given) == LENGTH and is_prefix(given, given[:1])
    return given if known else None
