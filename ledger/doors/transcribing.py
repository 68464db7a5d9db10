"""The items of an agent's transcript as the messages of a session, for the doors that keep conversations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ledger import RejectedError

if TYPE_CHECKING:
    from ledger import Interaction, Ledger, Session

TOGETHER = 5_000  # items in one append
_log = logging.getLogger(__name__)

Item = Mapping[str, object]


def check_objects(items: Sequence[object], name: str) -> None:
    """Check that every item is a JSON object.

    Args:
        items: The items.
        name: What the contract calls an item.

    Raises:
        RejectedError: An item is none.
    """
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping):
            raise RejectedError(f"{name} {number} is no JSON object: {item!r:.40}")


def extend(
    session: Session,
    items: Sequence[Item],
    *,
    worded: Callable[[Item], dict[str, object]],
    bare: Callable[[Item], dict[str, object]],
) -> None:
    """Append items to a session, an item whose words the ledger refuses without its words.

    The contracts return nothing that could name a redacted secret, so a warning of the logger does.

    Args:
        session: The session; its ledger has an open ``batch``, so that a refusal takes back everything.
        items: The items.
        worded: Returns an item as a message with its words.
        bare: Returns an item as a message of ``raw`` alone.

    Raises:
        RejectedError: The ledger refuses an item itself, such as one that is too large.
    """
    for start in range(0, len(items), TOGETHER):
        _extend(session, items[start : start + TOGETHER], worded, bare)


def _extend(
    session: Session,
    items: Sequence[Item],
    worded: Callable[[Item], dict[str, object]],
    bare: Callable[[Item], dict[str, object]],
) -> None:
    try:
        _append(session, [worded(item) for item in items])
    except RejectedError:
        if len(items) == 1:
            _append(session, [bare(items[0])])
            return
        middle = len(items) // 2  # a refused item costs a few appends, and its neighbours nothing
        _extend(session, items[:middle], worded, bare)
        _extend(session, items[middle:], worded, bare)


def _append(session: Session, messages: Sequence[dict[str, object]]) -> None:
    for warning in session.extend(messages).warnings:
        _log.warning("session %s: %s", session.id, warning)


def captured(
    ledger: Ledger, prompt: str, response: str, fields: Mapping[str, str | None], **options: Any
) -> tuple[Interaction, RejectedError | None]:
    """Capture a turn without the fields that the ledger refuses, because the words matter more than where they belong.

    A warning of the logger names what was redacted and why a field was left out.

    Args:
        ledger: The ledger.
        prompt: The prompt.
        response: The response.
        fields: ``project``, ``session`` and ``occurred_at``; blank ones are left out. A turn without a session is no message.
        options: Further arguments of ``capture``.

    Returns:
        The interaction, and the refusal if a field was left out.

    Raises:
        RejectedError: The ledger refuses the words.
    """
    given: dict[str, Any] = {name: value for name, value in fields.items() if value and value.strip()}
    without_one = [{name: given[name] for name in given if name != left_out} for left_out in given]
    refusal: RejectedError | None = None
    for kept in (given, *without_one, {}):
        try:
            interaction = ledger.capture(prompt, response, append="session" in kept, **kept, **options)
        except RejectedError as error:
            refusal = refusal or error
            continue
        for warning in (*interaction.warnings, *([] if refusal is None else [f"without a field: {refusal}"])):
            _log.warning("turn %s: %s", interaction.id, warning)
        return interaction, refusal
    assert refusal is not None
    raise refusal
