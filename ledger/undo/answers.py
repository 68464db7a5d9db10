"""The answers of undo, redo, distrust and trust, which are called acts: they make events void or bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.core.call import Answer
from ledger.domain.ids import shortened
from ledger.memories.answers import Belief

if TYPE_CHECKING:
    from ledger.events import AnyEvent


class Dependent(Answer, frozen=True, kw_only=True):
    """A command that cannot stay when an undo, a distrust or a trust makes another command void, with the reason.

    ``position`` and ``subject`` are those of the first event of the command that cannot stay.
    """

    position: int
    command: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.command} at {self.position}: {shortened(self.subject)} {self.why}"


def dependent(event: AnyEvent, why: str) -> Dependent:
    return Dependent(position=event.position, command=event.envelope.command, subject=event.stream, why=why)


class UndoReport(Answer, frozen=True, kw_only=True):
    """The effect of an undo or redo, or of a ``dry_run``.

    ``commands`` are the commands that were undone or brought back, ``verbs`` their calls with their positions, ``events`` the
    number of their events, ``subjects`` the ids of the subjects concerned. ``actors`` are the actors who gave the undone
    commands. ``dependents`` are the commands that were not named and fall with the named commands. ``turned_down`` are
    rejections, retractions and invalidations by people that stay in effect although their memories no longer exist.
    ``memories`` are the memories concerned, as they are and as they would be; only a dry run lists them. ``reversed_by`` is the
    verb that reverses the call: "redo" with this ``command_id`` after an undo, "undo" with each of the ``commands`` after a
    redo, "distrust" with the origin after the undo of a distrust. The undo of a distrust is a trust: the undos of the origin
    count again, and ``cascaded`` are the commands that become void with them, because they were built on what those undos had
    made void. ``absorbed`` is False also if the call had nothing to change; ``events`` is 0 then.
    """

    commands: tuple[str, ...]
    events: int
    subjects: tuple[str, ...]
    position: int
    verbs: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    cascaded: tuple[str, ...] = ()
    turned_down: tuple[Dependent, ...] = ()
    memories: tuple[Belief, ...] = ()
    reversed_by: str = "redo"
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False


# The note of a report: a decision that others took because of a void event, such as a rejection, is not taken anew.
DECISIONS_STAND = "decisions of others stand as they were made: none is made again"


class DistrustReport(Answer, frozen=True, kw_only=True):
    """The records and effects of an origin that became void, or with ``trust`` are in effect again.

    ``memories`` and ``observations`` are the memories and observations that changed, also by the loss of a source.
    ``unsupported`` are the observations without any source left, ``gone`` the subjects that no longer exist. ``receipts``
    are the places where one of these memories, or a text of the origin, was shown to a model: the ids of the interactions
    that used it, and the receipts of the recalls and windows that delivered it. ``cascaded`` are the commands that a
    ``trust`` made void, because they were built on events that the origin had undone; ``dependents`` gives the reasons.
    After a distrust, ``dependents`` are the commands of others that became void because they do not fit what is left of
    their subjects. ``beliefs`` are the memories as they are and as they would be; only a dry run lists them. ``absorbed`` is
    False also if the call had nothing to change; ``events`` is 0 then.
    """

    kind: str
    origin: str
    since: int
    until: int | None
    events: int
    memories: tuple[str, ...]
    observations: tuple[str, ...]
    unsupported: tuple[str, ...]
    gone: tuple[str, ...]
    receipts: tuple[str, ...]
    position: int
    dependents: tuple[Dependent, ...] = ()
    cascaded: tuple[str, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    note: str = DECISIONS_STAND
    trusted: bool = False
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False


class Distrusted(Answer, frozen=True, kw_only=True):
    """A distrusted origin: its kind, its name or id, and the reason.

    Everything that it wrote from the position ``since`` on is void, and its writes are refused. With ``until`` only its writes
    before that position are void, and new writes are accepted.
    """

    kind: str
    origin: str | None
    since: int
    until: int | None
    reason: str | None
    command_id: str
    position: int
    recorded_at: str
