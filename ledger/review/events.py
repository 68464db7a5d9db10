"""The events of a merge of near duplicates, and of a conflict between memories."""

from typing import Annotated, ClassVar

from ledger.log.events import Code, EventData, Id, Ref, Text, Traits


class MergeProposed(EventData, frozen=True):
    """A proposal to merge near duplicates, with the least ``similarity`` of two of them, in millionths, by a ``rule``.

    ``content`` is the wording of the one memory.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="merge")

    memories: Annotated[tuple[Id, ...], Ref("about")]
    similarity: int
    rule: Code
    content: Text | None = ""
    model: Text | None = ""


class MemoriesMerged(EventData, frozen=True):
    """A merge: ``memory`` supersedes ``memories``, in the same append."""

    traits: ClassVar[Traits] = Traits("reversible", begins="merge", whole=True)

    memory: Annotated[Id, Ref("rests_on")]
    memories: Annotated[tuple[Id, ...], Ref("rests_on")]
    rule: Code
    reason: Text | None = ""


class MergeRejected(EventData, frozen=True):
    """A rejection: the memories are not the same, and are not proposed again."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class ConflictFound(EventData, frozen=True):
    """A conflict: active memories that give an ``attribute`` ``values`` that cannot all be true at the same time."""

    traits: ClassVar[Traits] = Traits("reversible", begins="conflict")

    attribute: Text | None
    memories: Annotated[tuple[Id, ...], Ref("about")]
    values: tuple[Text, ...] | None
    rule: Code


class ConflictResolved(EventData, frozen=True):
    """A person's decision on a conflict: "keep" (the ``winner``, which supersedes the others) or "accept" (all can be true)."""

    traits: ClassVar[Traits] = Traits("reversible", whole=True)

    action: Code
    winner: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""
