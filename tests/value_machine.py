"""Keyed values against a list of dictionaries: any commands of two users, undone, redone, erased, expired, folded again."""

from __future__ import annotations

import copy
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import probe
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger import ConflictError, Ledger, NotFoundError

USERS = ("", "ann")
NAMESPACES = ((), ("home", "notes"), ("home,", 'no"tes'), ("homes",))
OFTEN = ((("home",), "a"), (("home",), "ä\0"))  # so that most commands meet another one
VALUES = ("", " ", "tea is green", "\0", None, True, 1, 1.0, [], {"tea": "black", "n": 2}, {"n": [1, None]})
KEEP: dict[str, Any] = {"derived": "erase", "sources": "keep", "quotes": "keep"}

places = st.sampled_from((*OFTEN * 3, *((namespace, "a") for namespace in NAMESPACES)))

acts = st.fixed_dictionaries(
    {
        "what": st.sampled_from(
            ("put", "put", "put", "put", "move", "move", "remove", "restore", "undo", "redo", "time_passes", "sweep")
        ),
        "user": st.sampled_from((USERS[0], *USERS)),
        "place": places,
        "target": places,
        "value": st.sampled_from(VALUES),
        "hours": st.sampled_from((None, 1, 30)),
        "number": st.integers(0, 10_000),
    }
)


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)


class Values(RuleBasedStateMachine):
    """``entries`` has a dictionary for each value that was put: who, where, what, until when, and whether it was removed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-values-"))
        self.time = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.ledger = self.opened()
        self.entries: list[dict[str, Any]] = []
        self.last: tuple[int, list[dict[str, Any]], list[dict[str, Any]], str] | None = None
        self.undone: tuple[str, list[dict[str, Any]], str] | None = None
        self.past: list[tuple[int, dict[str, Any]]] = []

    def opened(self) -> Ledger:
        return Ledger.open(self.folder / "memory.db", clock=lambda: self.time)

    def of(self, user: str) -> Any:
        return self.ledger.bind(user=user).values

    # --- the oracle ----------------------------------------------------------------------------------------------

    def at(self, user: str, place: Any) -> list[dict[str, Any]]:
        """Return a user's values under a place: first the value in effect, then the others, the newest first."""
        here = [item for item in self.entries if (item["user"], item["place"]) == (user, place)]
        return sorted(here, key=lambda item: (not self.alive(item), -item["put"]))

    def alive(self, entry: dict[str, Any]) -> bool:
        return not entry["removed"] and (entry["until"] is None or entry["until"] > self.time)

    def believed(self, user: str) -> dict[Any, Any]:
        return {item["place"]: item for item in self.entries if item["user"] == user and self.alive(item)}

    def command(self, user: str, call: Any, change: Any) -> None:
        """Give a command to the ledger, and its change to the oracle if the ledger recorded something."""
        before, position = copy.deepcopy(self.entries), self.ledger.position
        answer = call()
        assert (self.ledger.position == position) is answer.absorbed
        if not answer.absorbed:
            change(answer)
            self.last, self.undone = (answer.position, before, copy.deepcopy(self.entries), user), None
        self.keep()

    def keep(self) -> None:
        if not self.past or self.past[-1][0] != self.ledger.position:
            then = {user: {place: item["value"] for place, item in self.believed(user).items()} for user in USERS}
            self.past.append((self.ledger.position, then))

    # --- commands ------------------------------------------------------------------------------------------------

    @rule(acts=st.lists(acts, min_size=3, max_size=12))
    def act(self, acts: list[dict[str, Any]]) -> None:
        """Give several commands in one step, because hypothesis makes few steps."""
        for chosen in acts:
            getattr(self, chosen["what"])(**chosen)
            self.compare()

    def put(self, *, user: str, place: Any, value: Any, hours: Any, number: int, **_: Any) -> None:
        known = next(iter(self.at(user, place)), None)
        until = None if hours is None else self.time + timedelta(hours=hours)
        index, expects = number % 3 > 0, (None, None, "none", "now", "before")[number % 5]
        expected = {None: None, "none": 0, "now": self.ledger.position, "before": max(self.ledger.position - 3, 1)}[
            expects
        ]
        if expects == "none" and known is not None and self.alive(known):
            with pytest.raises(ConflictError):
                self.of(user).put(*place, value, expected=0)
            return

        def change(answer: Any) -> None:
            entry = known
            if entry is None:
                entry = {"user": user, "id": answer.id, "place": place}
                self.entries.append(entry)
            entry |= {"value": value, "until": until, "removed": False, "put": answer.position, "index": index}
            assert answer.id == entry["id"] and same(answer.value, value)

        call = lambda: self.of(user).put(*place, value, index=index, expires_at=until, expected=expected)  # noqa: E731
        try:
            self.command(user, call, change)
        except ConflictError:
            assert expects == "before" or (expects == "now" and known is not None and not known["removed"])

    def move(self, *, user: str, place: Any, target: Any, **_: Any) -> None:
        known, there = (next(iter(self.at(user, item)), None) for item in (place, target))
        call = lambda: self.of(user).move(*place, *target)  # noqa: E731
        if known is None or not self.alive(known):
            with pytest.raises(NotFoundError):
                call()
        elif there is not None and there is not known and self.alive(there):
            with pytest.raises(ConflictError):
                call()
        else:
            self.command(user, call, lambda answer: known.update(place=target))

    def remove(self, *, user: str, place: Any, back: bool = False, **_: Any) -> None:
        known = next(iter(self.at(user, place)), None)
        call = lambda: (self.of(user).restore if back else self.of(user).remove)(*place)  # noqa: E731
        if known is None:
            with pytest.raises(NotFoundError):
                call()
            return
        if back and self.alive(known) and len(self.at(user, place)) > 1:
            with pytest.raises(ConflictError):
                call()
            return
        kept = known["until"] if known["until"] is not None and known["until"] > self.time else None
        change = {"removed": False, "until": kept} if back else {"removed": True}
        self.command(user, call, lambda answer: known.update(change))

    def restore(self, **chosen: Any) -> None:
        self.remove(**chosen, back=True)

    def undo(self, **_: Any) -> None:
        if self.last is not None:
            position, before, after, user = self.last
            act = self.ledger.bind(user=user).undo(position).command_id
            self.entries, self.last, self.undone = before, None, (str(act), after, user)
            self.keep()

    def redo(self, **_: Any) -> None:
        if self.undone is not None:
            act, after, user = self.undone
            self.ledger.bind(user=user).redo(act)
            self.entries, self.undone = after, None
            self.keep()

    def time_passes(self, *, number: int, **_: Any) -> None:
        self.time += timedelta(hours=(0, 1, 2, 40)[number % 4])

    def sweep(self, **_: Any) -> None:
        over = [item for item in self.entries if not item["removed"] and not self.alive(item)]
        assert self.ledger.jobs.run(jobs=["expiry"]).values == len(over)
        for entry in over:
            entry["removed"] = True
        if over:
            self.last = self.undone = None
            self.keep()

    @precondition(lambda self: self.entries)
    @rule(number=st.integers(0, 10_000))
    def erase(self, number: int) -> None:
        entry = self.entries.pop(number % len(self.entries))
        assert self.ledger.bind(user=entry["user"]).erase(entry["id"], **KEEP).state == "completed"
        self.last = self.undone = None
        self.past.clear()  # an erasure applies to all earlier moments
        self.keep()

    @rule(rebuilds=st.sampled_from((False, False, True)))
    def reopen(self, rebuilds: bool) -> None:
        digest = self.ledger.proof.digest()
        if rebuilds:
            assert probe.rebuild(self.ledger).digest == digest
        self.ledger.close()
        self.ledger = self.opened()
        assert self.ledger.proof.digest() == digest

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def compare(self) -> None:
        for user in USERS:
            expected, values = self.believed(user), self.of(user)
            listed = values.list(limit=1_000)
            shown = {(item.namespace, item.key): item for item in listed}
            assert len(shown) == len(listed) and shown.keys() == expected.keys()
            for place, entry in expected.items():
                assert shown[place].id == entry["id"] and same(shown[place].value, entry["value"])
            assert set(values.namespaces()) == {place[0] for place in expected}
            assert {item[0] for item in values.namespaces(max_depth=1) if item} == {
                place[0][0] for place in expected if place[0]
            }

    @rule(user=st.sampled_from(USERS), place=places)
    def look_closer(self, user: str, place: Any) -> None:
        expected, values = self.believed(user), self.of(user)
        if place in expected:
            assert same(values.get(*place).value, expected[place]["value"])
        else:
            with pytest.raises(NotFoundError):
                values.get(*place)
        below = {item for item in expected if item[0][: len(place[0])] == place[0]}
        assert {(item.namespace, item.key) for item in values.list(place[0])} == below
        gone = [item for item in self.entries if item["user"] == user and not self.alive(item)]
        assert sorted(item.id for item in values.list(statuses=("removed", "expired"))) == sorted(
            item["id"] for item in gone
        )
        two = {
            item
            for item in expected
            if isinstance(expected[item]["value"], dict) and expected[item]["value"].get("n") == 2
        }
        assert {(item.namespace, item.key) for item in values.list(where={"n": {"$gte": 2}})} == two
        about = {item for item in expected if "tea" in str(expected[item]["value"]) and expected[item]["index"]}
        assert {(item.namespace, item.key) for item in values.list(question="tea")} == about

    @precondition(lambda self: self.past)
    @rule(number=st.integers(0, 10_000))
    def look_back(self, number: int) -> None:
        position, then = self.past[number % len(self.past)]
        for user, expected in then.items():
            shown = self.ledger.bind(user=user).at(position).values.list(limit=1_000)
            assert {(item.namespace, item.key): repr(item.value) for item in shown} == {
                place: repr(value) for place, value in expected.items()
            }

    def teardown(self) -> None:
        from conftest import folded_from_zero

        try:
            assert self.ledger.proof.digest() == folded_from_zero(self.ledger), "the rows are not what the log says"
            assert self.ledger.proof.verify(full=True).ok
        finally:
            self.ledger.close()
            shutil.rmtree(self.folder)
