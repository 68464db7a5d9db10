"""What others recorded under a policy of the source: decisions that its parameters had a part in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict

from ledger.domain.events import (
    TYPES,
    AnyEvent,
    MemoryCaptured,
    MemoryQuarantined,
    MemoryRejected,
    MemorySuperseded,
    TextQuarantined,
    WriteRefused,
    of,
    type_names,
    used_as,
)
from ledger.domain.policy import Policy, Value, checked
from ledger.history.source_plan import SourcePlan
from ledger.policies import admission

Parameters = dict[str, Value]  # as events hold them
_DEFAULTS = checked(asdict(Policy()))
_TEXTS = type_names(used_as("belief") | used_as("material"))  # what the guards look through for threats and secrets
_TITLED = type_names(of(decided_by="secrets", verdict=False))  # and for secrets alone
_BY_ITSELF = ("merge", "conflicts", "consolidate")  # parameters of what policies do unasked
_TYPES = tuple({*type_names(of(decided_by=Policy.__struct_fields__)), *_TEXTS})


class Policies:
    """The policies of a user, as they were and as they would have been without those that fall."""

    def __init__(self, plan: SourcePlan, user: str) -> None:
        self._plan, self._user = plan, user
        sql = "SELECT from_position, parameters, undone_at FROM policies WHERE user = ? ORDER BY from_position"
        rows = plan.reader.connection.execute(sql, (user,)).fetchall()
        self._rows = [(at, msgspec.json.decode(parameters, type=Parameters), until) for at, parameters, until in rows]
        self.first = min((at for at, _, _ in self._rows if at in plan.out), default=None)
        ends = {until for _, _, until in self._rows if until is not None}
        self._steps = sorted({at for at, _, _ in self._rows} | ends)
        self._at = [self._both(step) for step in self._steps] if self.first is not None else []

    def _both(self, step: int) -> tuple[Parameters, Parameters]:
        """The parameters from a position on, and what they would be."""
        was, would = dict(_DEFAULTS), dict(_DEFAULTS)
        for at, parameters, until in self._rows:
            if at > step or (until is not None and until <= step):
                continue
            was |= parameters
            would |= parameters if at not in self._plan.out else {}
        return was, would

    def decided(self) -> Iterator[tuple[AnyEvent, str]]:
        """The events of others that would have been otherwise, or may have been, each with why."""
        if self.first is None:
            return
        sql = (
            f"SELECT position FROM audit WHERE position > ? AND user = ? AND type IN ({', '.join('?' * len(_TYPES))})"
            " ORDER BY position"
        )
        for (position,) in self._plan.reader.connection.execute(sql, (self.first, self._user, *_TYPES)).fetchall():
            was, would = self._at[bisect_left(self._steps, position) - 1]
            if position in self._plan.out or was == would:
                continue
            event = self._plan.reader.event(position)
            if any(was[name] != would[name] and _had_a_part(name, event, was, would) for name in was):
                yield event, "made under a policy of the source"


def _had_a_part(name: str, event: AnyEvent, was: Parameters, would: Parameters) -> bool:
    data = event.data
    if name == "expire":
        return isinstance(data, MemorySuperseded) and data.by is None
    if name == "candidate_days":
        return isinstance(data, MemoryRejected) and bool(data.rule)
    if name == "threats":
        if isinstance(data, TextQuarantined):  # what is no memory is quarantined where memories are refused, too
            return would[name] == "off" and bool(data.scanner)
        held = isinstance(data, MemoryQuarantined) and bool(data.scanner)
        return held or _is_refused(data, "threat") or (was[name] == "off" and event.type in _TEXTS)
    if name == "secrets":
        redacted = bool(event.envelope.redactions)
        return redacted or _is_refused(data, "secret") or (was[name] == "off" and event.type in (*_TEXTS, *_TITLED))
    if name in admission.GROUPS.values():
        return _is_within_budget(name, event, was, would)
    if name == "admit" and isinstance(data, MemoryCaptured):  # not what a person remembers or proposes
        return bool(data.admission) or data.origin is not None or event.envelope.channel != "user"
    asked = name not in _BY_ITSELF or (event.envelope.actor or "").startswith("policy:")
    return asked and name in TYPES[event.type].traits.decided_by


def _is_refused(data: object, rule: str) -> bool:
    return isinstance(data, WriteRefused) and data.rule == rule


def _is_within_budget(name: str, event: AnyEvent, was: Parameters, would: Parameters) -> bool:
    data = event.data
    group = next(group for group, parameter in admission.GROUPS.items() if parameter == name)
    if isinstance(data, MemoryCaptured):
        before, then = int(was[name]), int(would[name])
        is_looser = then and (not before or before > then)
        return bool(is_looser) and data.status == "active" and admission.group_of(data.kind) == group
    return _is_refused(data, f"budget:{group}")
