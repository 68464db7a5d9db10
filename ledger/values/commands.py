"""The commands on keyed values: put, move, remove and restore, and the sweep of expired values."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core import steps
from ledger.core.call import Expected, Who
from ledger.core.engine import Engine
from ledger.core.reads import event_data, read_event, text_of
from ledger.core.work import Outcome, Work
from ledger.domain import times
from ledger.domain.errors import ConflictError, RejectedError, SuspendedError
from ledger.domain.text import check_reason, flags
from ledger.types import Json, Time
from ledger.values import answers, queries, rules
from ledger.values.rules import ValueState
from projections.views import quarantine, values

Namespace = tuple[str, ...]
SWEEPER = "policy:expiry"  # the actor of the job


def put(
    engine: Engine,
    asker: Who,
    namespace: Namespace,
    key: str,
    value: Json,
    *,
    indexed: bool = True,
    fields: tuple[str, ...] = (),
    expires_at: Time | None = None,
) -> answers.Value:
    """Put a value under a key, whatever was there before.

    A removed value under the key is active again with the new value, so that a key keeps one history. ``expected`` is the
    position after which nothing may have changed the key; 0 is for a key that has no value now.

    Raises:
        ConflictError: The key was changed after the expected position, or has a value although 0 was expected.
        RejectedError: The value is no JSON, is too large, holds a secret or a threat, or would expire at once.
    """
    content, type_ = rules.encoded(value)
    flags(index=indexed)
    end = None if expires_at is None else times.moment("expires_at", expires_at)
    expected = asker.expected

    def body(work: Work) -> str:
        state = _value_at(work, namespace, key)
        if expected is not None:
            _check_expected(work, expected, state, namespace, key)
        if end is not None and end <= work.recorded_at:
            raise RejectedError(f"expires_at must lie in the future: {end} is not after {work.recorded_at}")
        command = rules.PutValue(
            content=work.body(content),
            type=type_,
            namespace=namespace,
            name=key,
            indexed=indexed,
            fields=fields,
            expires_at=end,
            has_content=state is not None and _has_content(work, state, content),
        )
        return _emit(work, command, state)

    arguments = (namespace, key, content, type_, indexed, end, *([fields] if fields else ()))
    return _answered(engine, engine.writer.run("values.put", replace(asker, expected=None), body, arguments))


def _check_expected(work: Work, expected: Expected, state: ValueState | None, namespace: Namespace, key: str) -> None:
    """Raise ``ConflictError`` if the key was changed after the expected position, or has a value although 0 is expected.

    The writer checks ``expected`` of other commands against the last change of the subject. A key needs a check of its own:
    after a move the last change of the key is no change of a value that the key has now. 0 asks for a key without a value
    now; the key may have had one before. An expiry is a change, recorded or not.
    """
    steps.check_end(work, expected)
    if not expected.position:
        if state is not None and state.is_alive(work.recorded_at):
            raise ConflictError(
                f"{key!r:.60} has a value since position {state.position}, and expected 0 stands for no value; nothing was "
                "written"
            )
        return
    connection, user = work.connection(), work.who.user
    if state is None and (erased_at := values.erased_after(connection, user, expected.position)):
        raise ConflictError(
            f"{key!r:.60} has no value, and a value was erased at position {erased_at}, after the expected "
            f"{expected.position}; nobody can tell any more which key that value had, so nothing was written"
        )
    seen = read_event(connection, expected.position)
    if state is not None and seen is not None and state.expired_between(seen.envelope.recorded_at, work.recorded_at):
        raise ConflictError(
            f"the value of {key!r:.60} expired at {state.expires_at}, and expected=0 stands for a key without a value now; "
            "nothing was written"
        )
    changed_at = values.last_change(connection, user, rules.place_of(namespace), key)
    if changed_at > expected.position:
        raise ConflictError(
            f"a change of the key {key!r:.60} was recorded at position {changed_at}, after the expected "
            f"{expected.position}; nothing was written"
        )


def _has_content(work: Work, state: ValueState, content: str) -> bool:
    if state.size != len(content.encode()):
        return False
    connection = work.connection()
    return text_of(connection, event_data(connection, state.content_at).content) == content


def move(
    engine: Engine,
    asker: Who,
    namespace: Namespace,
    key: str,
    to_namespace: Namespace,
    to_key: str,
    reason: str = "",
) -> answers.Value:
    """Give a value another key; its id and its history stay.

    Raises:
        NotFoundError: There is no value under the key.
        ConflictError: There is a value under the other key.
    """
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        state = _existing(work, namespace, key)
        if not state.is_alive(work.recorded_at):
            raise queries.absent(namespace, key)
        occupant = _value_at(work, to_namespace, to_key)
        if occupant is not None and occupant.id != state.id and occupant.is_alive(work.recorded_at):
            raise _taken(to_key, occupant.id, f"move {state.id} there")
        return _emit(work, rules.MoveValue(to_namespace, to_key, reason), state)

    arguments = (namespace, key, to_namespace, to_key, reason)
    return _answered(engine, engine.writer.run("values.move", asker, body, arguments))


def remove(engine: Engine, asker: Who, namespace: Namespace, key: str, reason: str = "") -> answers.Value:
    """Take a value out of use; ``restore`` brings it back, and so does a put under its key."""
    return _on_value(engine, asker, "values.remove", namespace, key, rules.RemoveValue(check_reason("reason", reason)))


def restore(engine: Engine, asker: Who, namespace: Namespace, key: str, reason: str = "") -> answers.Value:
    """Bring the value back that was removed from a key or expired there; an ``expires_at`` in the past is dropped.

    Raises:
        NotFoundError: There never was a value under the key.
        ConflictError: Another value has the key now.
    """
    command = rules.RestoreValue(check_reason("reason", reason))
    return _on_value(engine, asker, "values.restore", namespace, key, command)


def _on_value(
    engine: Engine,
    asker: Who,
    verb: str,
    namespace: Namespace,
    key: str,
    command: rules.RemoveValue | rules.RestoreValue,
) -> answers.Value:
    def body(work: Work) -> str:
        state = _existing(work, namespace, key)
        if isinstance(command, rules.RestoreValue) and state.is_alive(work.recorded_at):
            place = rules.place_of(namespace)
            if hidden := values.other_under(work.connection(), work.who.user, place, key, state.id):
                raise _taken(key, state.id, f"restore {hidden}")
        return _emit(work, command, state)

    return _answered(engine, engine.writer.run(verb, asker, body, (namespace, key, command)))


def _taken(key: str, id: str, act: str) -> ConflictError:
    return ConflictError(
        f"cannot {act}: {key!r:.60} is taken by {id}, and nothing was written; remove that value first, or move it to "
        "another place"
    )


def sweep(engine: Engine, seen: ValueState, as_of: str) -> bool:
    """Remove a value if it has still expired at a time, and return True if it was removed; ``seen`` is its state before."""

    def body(work: Work) -> str:
        state: ValueState | None = work.at_row(seen.row, "v")
        if state is not None:
            for event in rules.decide(rules.SweepValue(), state, as_of):
                work.emit(state.id, event, first=state.row)
        return seen.id

    asker = Who(user=seen.user or "", actor=SWEEPER)
    return bool(engine.writer.run("jobs.run", asker, body, seen.id).events)


# --- under the lock --------------------------------------------------------------------------------------------------


def _value_at(work: Work, namespace: Namespace, key: str) -> ValueState | None:
    """Return the value that the key has now, or else the removed or expired value that was put there last."""
    work.rows.flush()  # the query has to see the earlier commands of a batch
    place = rules.place_of(namespace)
    return values.under(work.connection(), work.who.user, place, key, work.recorded_at)


def _existing(work: Work, namespace: Namespace, key: str) -> ValueState:
    state = _value_at(work, namespace, key)
    if state is None:
        raise queries.absent(namespace, key)
    return state


def _emit(work: Work, command: rules.Command, state: ValueState | None) -> str:
    # The answer says whether the value is in quarantine: if that cannot be read, this refuses before anything is written.
    quarantine.among(work.connection(), [state.content_at if state is not None else 0])
    stream = work.new_id("v") if state is None else state.id
    events = rules.decide(command, state, work.recorded_at)
    work.absorbed = not events
    for event in events:
        work.emit(stream, event, first=state.row if state is not None else 0)
    return stream


def _answered(engine: Engine, outcome: Outcome) -> answers.Value:
    state: ValueState | None = outcome.state
    if state is None:
        raise SuspendedError(
            f"the command was recorded at position {outcome.position}, but it suspended the projection 'values', so the "
            "value cannot be shown; maintenance.rebuild() folds the projection again",
        )
    with engine.snapshot() as snapshot:
        answer = queries.shown(snapshot.connection, state, snapshot.now())
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed)
