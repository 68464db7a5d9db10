"""The hypothetical beliefs without a command, a group or an origin, or under another policy; nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from ledger.core.call import Time
from ledger.core.engine import Engine
from ledger.domain import ids
from ledger.domain.errors import RejectedError
from ledger.domain.policy import checked
from ledger.domain.text import check_text
from ledger.history import answers
from ledger.history.alternative import Alternative
from ledger.memories.answers import Belief
from ledger.memories.shown import belief
from ledger.memories.state import MemoryState
from ledger.undo import distrusting
from ledger.undo.distrusting import IDENTIFIED, DistrustTarget, Position, origin_plan
from ledger.undo.in_effect import Reader
from ledger.undo.targets import commands_named, target_of
from ledger.undo.undo_plan import UndoPlan
from projections.core.rows import Connection

Without = str | int | Mapping[str, str] | None
Since = Position | Time | None
_COUNT_BELIEVED = "SELECT count(*) FROM memories WHERE user = ? AND status = 'active' AND NOT quarantined"


def what_if(
    engine: Engine,
    user: str,
    *,
    without: Without = None,
    since: Since = None,
    until: Since = None,
    policy: Mapping[str, object] | None = None,
) -> answers.WhatIf:
    """Return the beliefs without a command, a group or an origin, or under another confidence policy; write nothing.

    ``without`` is a command, event, position or correlation as in ``undo`` (later commands that were built on it are left out
    too), the id of an interaction, document or session, or an origin as in ``distrust``, like ``{"actor": "crawler"}``.
    ``policy`` changes ``gain``, ``echo_gain`` and ``max_matches`` for the recorded matches; no text is matched again.
    """
    if without is None and policy is None:
        raise RejectedError(
            "a what-if needs without= (the beliefs without a command or an origin) or policy= (under another policy)"
        )
    other_policy = _other_policy(policy)
    with engine.reading() as connection:
        reader, (head,) = Reader(connection), connection.execute("SELECT max(position) FROM events").fetchone()
        fallen, restored, concerned = _left_out(engine, reader, user, without, since, until)
        memories = sorted(subject for subject in concerned if subject[0] == "m")
        if other_policy is not None:
            memories = _reinforced(connection, user)
        alternative = Alternative(reader, fallen, restored, other_policy)
        return _difference(engine, connection, user, head, alternative, memories, concerned)


def _left_out(
    engine: Engine, reader: Reader, owner: str, without: Without, since: Since, until: Since
) -> tuple[Collection[int], Collection[int], Iterable[str]]:
    """Return the positions of the events that fall, of the events that come back, and the subjects concerned."""
    if without is None:
        return (), (), ()
    connection = reader.connection
    target = _target_of(engine, connection, owner, without, since, until)
    if target is None:
        assert not isinstance(without, Mapping)
        entries = commands_named(connection, owner, target_of(without))
        plan = UndoPlan(reader, [entry.position for entry in entries])
        return plan.fallen, (), plan.streams
    distrust = origin_plan(connection, owner, target, reader)
    return distrust.fallen, distrust.restored, distrust.streams


def origin_of(without: Without) -> tuple[str | None, str] | None:
    """Return (kind, name) of an origin, or (None, id) if the id shows the kind; None if ``without`` is no origin."""
    if isinstance(without, Mapping):
        if len(without) != 1:
            raise RejectedError(
                f'an origin is one kind with one name, like {{"actor": "crawler"}}; {len(without)} were given'
            )
        ((kind, name),) = without.items()
        return kind, check_text("source", name)
    if isinstance(without, str) and without[:1] in IDENTIFIED and ids.is_prefix(without, without[:1]):
        return None, without
    return None


def _target_of(
    engine: Engine, connection: Connection, owner: str, without: Without, since: Since, until: Since
) -> DistrustTarget | None:
    if (origin := origin_of(without)) is not None:
        kind, name = origin
        return distrusting.find_origin(engine, connection, owner, name, kind, since, until)
    if since is not None or until is not None:
        raise RejectedError("since and until limit an origin; without= names a command, or nothing, so leave them out")
    return None


def _difference(
    engine: Engine,
    connection: Connection,
    owner: str,
    head: int,
    alternative: Alternative,
    memories: Iterable[str],
    concerned: Iterable[str],
) -> answers.WhatIf:
    lost: list[Belief] = []
    gained: list[Belief] = []
    changed: list[Belief] = []
    for stream in memories:
        now: MemoryState | None = alternative.reader.state(stream)
        then: MemoryState | None = alternative.state(stream)
        known = now or then
        if known is None or known.user != owner or _same(now, then):
            continue
        was_believed, would_be_believed = _is_believed(now), _is_believed(then)
        kind = changed if was_believed == would_be_believed else lost if was_believed else gained
        kind.append(belief(connection, stream, now, then))
    (all_believed,) = connection.execute(_COUNT_BELIEVED, (owner,)).fetchone()
    differ = sum(
        pair.now is not None and pair.now.status == "active" and not pair.now.quarantined for pair in lost + changed
    )
    return answers.WhatIf(
        position=head,
        events=len(alternative.fallen),
        unchanged=all_believed - differ,
        lost=tuple(lost),
        gained=tuple(gained),
        changed=tuple(changed),
        observations=tuple(
            answers.ObservedBelief(id=(now or then).id, now=now, would_be=then)  # type: ignore[union-attr]
            for now, then in alternative.observations(concerned, engine.now())
        ),
    )


def _other_policy(policy: Mapping[str, object] | None) -> dict[str, int] | None:
    if policy is None:
        return None
    if not isinstance(policy, Mapping):
        raise RejectedError(
            f"policy is a dict of parameters and their values, like {{'gain': 0.05}}, and not a {type(policy).__name__}"
        )
    allowed = ("gain", "echo_gain", "max_matches")
    unknown = [parameter for parameter in policy if parameter not in allowed]
    if not policy or unknown:
        got = f"{unknown[0]!r:.40}" if policy else "nothing"
        raise RejectedError(
            f"a what-if can try other values of {', '.join(allowed)}, and got {got}: only recorded matches are weighed again"
        )
    return {name: value for name, value in checked(policy).items() if isinstance(value, int)}


def _reinforced(connection: Connection, owner: str) -> list[str]:
    """Return the memories of a user that a matcher reinforced."""
    sql = (
        "SELECT m.id FROM memories m WHERE m.user = ? AND EXISTS"
        " (SELECT 1 FROM confidence_steps s WHERE s.memory = m.row AND s.matcher IS NOT NULL) ORDER BY m.row"
    )
    return [id for (id,) in connection.execute(sql, (owner,))]


def _is_believed(state: MemoryState | None) -> bool:
    return state is not None and state.status == "active" and not state.quarantined


_IGNORED = {"position": 0, "version": 0, "row": 0}  # fields that make no difference


def _same(now: MemoryState | None, then: MemoryState | None) -> bool:
    if now is None or then is None:
        return now is then
    return replace(now, **_IGNORED) == replace(then, **_IGNORED)
