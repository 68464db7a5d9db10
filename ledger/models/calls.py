"""The record of each call of a language model in the log: its input, its answer, and the outcome of each action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.work import Work
from ledger.domain import spans
from ledger.domain.errors import ModelError
from ledger.domain.ids import LENGTH, is_prefix
from ledger.domain.tokens import estimate
from ledger.events import LEDGER_STREAM, Acted, ModelCalled, ModelCallFailed
from ledger.extraction.applying import KEPT as KEPT
from ledger.extraction.applying import ActionOutcome as ActionOutcome
from ledger.models.asking import ModelReply
from ledger.models.port import COMMAND, ModelRequest
from ledger.models.reading import DroppedAction, Parsed, text_of

LISTED = 100  # the most actions of one call that are listed; the others are counted
ITEMS = 2_000  # the most ranges and the most subjects of one call


def dropped(parsed: Parsed) -> list[ActionOutcome]:
    """Return the parts of an answer that are no valid action, in the form for the log."""
    listed = [ActionOutcome(item.what, item.reason, text=item.text) for item in parsed.dropped]
    return [*listed, *([ActionOutcome("", "truncated")] if parsed.truncated else [])]


def emit_call(
    work: Work,
    answered: ModelReply,
    request: ModelRequest,
    *,
    ranges: Iterable[tuple[int, int]] = (),
    shown: Sequence[str] = (),
    actions: Sequence[ActionOutcome | DroppedAction] = (),
    cited: Iterable[Acted] = (),
    left_over: int = 0,
) -> None:
    """Record an answered call inside the body of the command that the call led to.

    Args:
        work: The command.
        answered: The answer.
        request: The request to the model.
        ranges: The positions of the events that the model was given to read.
        shown: The ids behind the numbers in the prompt.
        actions: The actions of the answer. At most ``LISTED`` are listed; actions that were not kept are listed with
            their text.
        cited: The sources that the model cited, listed after the actions.
        left_over: The number of further actions, which were not read.
    """
    listed = [
        action if isinstance(action, ActionOutcome) else ActionOutcome(action.what, action.reason, text=action.text)
        for action in actions
    ]
    kept = listed[:LISTED]
    work.emit(
        LEDGER_STREAM,
        ModelCalled(
            purpose=request.purpose,
            model=answered.model,
            prompt=request.prompt,
            ranges=joined(ranges),
            shown=tuple(shown[:ITEMS]),
            input_tokens=answered.answer.input_tokens,
            output_tokens=answered.answer.output_tokens,
            attempts=answered.attempts,
            milliseconds=answered.milliseconds,
            actions=(
                *(Acted(action.what, action.outcome, _id(action.subject), _id(action.target)) for action in kept),
                *cited,
            ),
            texts=_texts(work, kept),
            left_over=left_over + len(listed) - len(kept),
        ),
    )


def emit_failure(
    work: Work, request: ModelRequest, error: ModelError, *, model: str, ranges: Iterable[tuple[int, int]] = ()
) -> None:
    """Record a failed call inside the body of a command."""
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
            # Of a command nothing tells how much of the request it has read and paid for.
            input_tokens=estimate(request.as_text()) * error.attempts if model.startswith(COMMAND) else 0,
        ),
    )


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges in order, with touching ones joined; after 2,000 ranges one last range spans the rest."""
    merged = spans.joined(ranges)
    return merged if len(merged) <= ITEMS else (*merged[: ITEMS - 1], (merged[ITEMS - 1][0], merged[-1][1]))


def _texts(work: Work, listed: Sequence[ActionOutcome]) -> tuple[str, ...]:
    """Return the texts of dropped actions; a text in which a scanner finds a threat is left out."""
    action_texts = ("" if action.outcome == KEPT else text_of(action.text) for action in listed)
    texts = tuple("" if work.threat(text) is not None else text for text in action_texts)
    return texts if any(texts) else ()


def _id(id: str | None) -> str | None:
    """Return the id if it has the form of an id of a ledger, and None for an id that the model made up."""
    has_form = id is not None and len(id) == LENGTH and is_prefix(id, id[:1])
    return id if has_form else None
