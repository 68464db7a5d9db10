"""The events of an interaction: a prompt, its response, and the evaluations of the two."""

from typing import Annotated, ClassVar

from msgspec import Struct

from ledger.log.events import NOTHING, Body, Code, Dropped, EventData, Id, Json, Ref, Traits, Use


class InteractionCaptured(EventData, frozen=True):
    """A prompt and, if already known, its response.

    ``memories_used`` and ``chunks_used`` are the ids that the model had been shown, and ``context`` is the context of the model
    as the caller recorded it. ``reinforce`` is false if the response must not reinforce memories, and
    ``extract`` if the memories of the turn were found elsewhere.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="interaction", quarantined_as="interaction")

    prompt: Annotated[Body | None, Use("material")]
    response: Annotated[Body | None, Use("material")] = ""
    summary: Annotated[Body | None, Use("material")] = ""
    memories_used: Annotated[tuple[Id, ...], Ref("shown", among="anything")] = ()
    chunks_used: Annotated[tuple[Id, ...], Ref("shown", among="anything")] = ()
    context: Json = NOTHING
    reinforce: bool = True
    metadata: Annotated[Json, Use("material")] = NOTHING
    extract: bool = True


class ResponseAttached(EventData, frozen=True):
    """The response of a turn that was captured without a response; its ``metadata`` is added to that of the turn."""

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="response")

    response: Annotated[Body | None, Use("material")] = ""
    summary: Annotated[Body | None, Use("material")] = ""
    memories_used: Annotated[tuple[Id, ...], Ref("shown", among="anything")] = ()
    chunks_used: Annotated[tuple[Id, ...], Ref("shown", among="anything")] = ()
    metadata: Annotated[Json, Use("material")] = NOTHING


class Matched(Struct, frozen=True, omit_defaults=True):
    """A memory that the response restates.

    ``overlap`` of the memory's ``total`` stems are in the response too; ``fraction`` is this share in millionths. ``echo`` is
    true if the model had been shown the memory.
    """

    memory: Annotated[Id, Ref("about")]
    overlap: int
    total: int
    fraction: int
    echo: bool = False


class Denied(Struct, frozen=True, omit_defaults=True):
    """A memory that the response denies, and ``how``: by a "negation", as "past", or by the "opposite"."""

    memory: Annotated[Id, Ref("about")]
    how: Code


class ReinforcementEvaluated(EventData, frozen=True):
    """The memories that a response restates (``matches``), and the memories that the response ``denied``.

    The ``matcher`` compared the response with ``pool_size`` active memories. ``left_over`` counts the matches beyond the number
    that the policy allows.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    matcher: Code
    pool_size: int
    matches: tuple[Matched, ...] = ()
    left_over: int = 0
    denied: tuple[Denied, ...] = ()


class ReinforcementFailed(EventData, frozen=True):
    """A reinforcement that failed; ``error`` is the kind of failure. The interaction's state counts consecutive failures."""

    traits: ClassVar[Traits] = Traits("reversible")

    error: Code


class CandidatesExtracted(EventData, frozen=True):
    """The result of an extractor on a turn: the memories that it ``kept``, and its ``dropped`` candidates with reasons."""

    traits: ClassVar[Traits] = Traits("reversible")

    extractor: Code
    kept: Annotated[tuple[Id, ...], Ref("about")] = ()
    dropped: tuple[Dropped, ...] = ()


class ExtractionFailed(EventData, frozen=True):
    """An extraction that failed; ``error`` is the kind of failure. The interaction's state counts consecutive failures."""

    traits: ClassVar[Traits] = Traits("reversible")

    extractor: Code
    error: Code
