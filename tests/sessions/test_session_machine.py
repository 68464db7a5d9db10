"""What must hold of every session after any sequence of commands: nothing is lost, in order, and the past stays as it was."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import probe
from conftest import Clock, folded_from_zero
from conversations import RAIN, WEATHER
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from old_names import Ledger

from ledger import LedgerError
from ledger.sessions.transcripts import as_chat

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
NAMES = ("chat", "other/a:b")


class Told:
    """What a session is expected to hold: each message ever appended, by its position, and whether it is hidden."""

    def __init__(self) -> None:
        self.messages: dict[int, tuple[str, str | None]] = {}
        self.hidden: set[int] = set()

    def shown(self) -> list[int]:
        return [position for position in self.messages if position not in self.hidden]


def picture(session: Any) -> tuple:
    """All that a session tells of itself, to be compared with what it tells later of now."""
    found = session.assemble(10**9, tail=10**6)
    items = [(item.kind, item.place, item.tokens, item.id, item.ranges) for item in found.items]
    messages = [(each.position, each.content, each.hidden) for each in session.messages(hidden=True)]
    return items, messages, [(each.id, each.status) for each in session.summaries()], session.summary


class Sessions(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path, self.clock = Path(self.directory.name) / "memory.db", Clock()
        self.ledger = Ledger.open(self.path, clock=self.clock)
        self.told = {name: Told() for name in NAMES}
        self.past: list[tuple[int, dict[str, tuple]]] = []
        self.count = 0
        self.looked_at = 0

    def session(self, name: str):
        return self.ledger.session(name)

    def known(self, name: str) -> bool:
        return self.session(name).id is not None

    # --- commands ------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), many=st.integers(1, 45), size=st.sampled_from([3, 60, 900]), calls=st.booleans())
    def append(self, name: str, many: int, size: int, calls: bool) -> None:
        with self.ledger.batch():
            for number in range(many):
                self.count += 1
                text, role, parts = f"{self.count} " + "word " * size, ("user", "assistant")[number % 2], []
                if calls and number % 5 == 1:
                    parts = [WEATHER | {"id": f"c{self.count}"}]
                elif calls and number % 5 == 2:
                    role, parts, text = "tool", [RAIN | {"id": f"c{self.count - 1}", "text": text}], ""
                found = self.session(name).append(role, text, parts=parts)
                self.told[name].messages[found.position] = (role, found.content)

    @rule(name=st.sampled_from(NAMES), keep=st.integers(-1, 60))
    def truncate(self, name: str, keep: int) -> None:
        if self.known(name):
            told = self.told[name]
            shown = told.shown()
            gone = shown[: len(shown) - max(keep, 0)] if len(shown) > keep else []
            assert self.session(name).truncate(keep).hidden == len(gone)
            told.hidden.update(gone)

    @rule(name=st.sampled_from(NAMES))
    def clear(self, name: str) -> None:
        if self.known(name):
            self.session(name).clear()
            self.told[name].hidden.update(self.told[name].messages)

    @rule(name=st.sampled_from(NAMES), part=st.integers(0, 100), more=st.integers(0, 6))
    def replace(self, name: str, part: int, more: int) -> None:
        told, session = self.told[name], self.session(name)
        before = session.messages()
        kept = before[: len(before) * part // 100]
        lines = [as_chat(each) for each in kept]
        for _ in range(more):
            self.count += 1
            lines.append({"role": "user", "content": f"new {self.count}"})
        found = session.replace(lines)
        assert (found.hidden, found.appended) == (len(before) - len(kept), more)
        told.hidden.update(each.position for each in before[len(kept) :])
        for each in session.messages()[len(kept) :]:
            told.messages[each.position] = (each.role, each.content)

    @rule(
        name=st.sampled_from(NAMES),
        budget=st.sampled_from([None, 1, 500, 5_000]),
        force=st.booleans(),
        model=st.booleans(),
    )
    def compact(self, name: str, budget: int | None, force: bool, model: bool) -> None:
        if self.known(name):
            session = self.session(name)
            summarizer = (lambda asked: "Sum: " + "word " * min(90, asked.target_tokens // 2)) if model else None
            before = session.info().window_tokens
            found = session.compact(budget, force=force, summarizer=summarizer)
            assert (found.tokens_before, found.tokens_after) == (before, session.info().window_tokens)
            assert found.tokens_after <= before and bool(found.created) == (found.tokens_after < before)

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from([50, 2_000, 20_000]), model=st.booleans())
    def shrink(self, name: str, budget: int, model: bool) -> None:
        if self.known(name):
            summarizer = (lambda asked: f"Sum of {len(asked.texts)}") if model else None
            found = self.session(name).compact_until_under(budget, summarizer=summarizer)
            assert found.under == (self.session(name).info().window_tokens <= budget)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99), subtree=st.booleans())
    def invalidate(self, name: str, which: int, subtree: bool) -> None:
        standing = [each for each in self.session(name).summaries() if each.status in ("window", "under")]
        if standing:
            found = self.session(name).invalidate_summary(standing[which % len(standing)].id, subtree=subtree)
            assert standing[which % len(standing)].id in found.invalidated

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99))
    def restore(self, name: str, which: int) -> None:
        gone = self.session(name).summaries("invalid")
        if gone:
            try:
                self.session(name).restore_summary(gone[which % len(gone)].id)
            except LedgerError as refused:
                assert "restored" in str(refused) or "restore that first" in str(refused) or "not all" in str(refused)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99))
    def rebuild_summary(self, name: str, which: int) -> None:
        standing = [each for each in self.session(name).summaries() if each.status in ("window", "under")]
        if standing:
            chosen = standing[which % len(standing)]
            made = self.session(name).rebuild_summary(chosen.id, summarizer=lambda asked: "Anew")
            assert (made.ranges, made.status, made.replaces) == (chosen.ranges, "window", chosen.id)

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(["", "So far.", "More."]))
    def set_summary(self, name: str, text: str) -> None:
        assert self.session(name).set_summary(text) == self.session(name).summary == text

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.path, clock=self.clock)

    @precondition(lambda self: len(self.past) > 2)
    @rule(which=st.integers(0, 10**6))
    def look_back(self, which: int) -> None:
        self.check(*self.past[which % len(self.past)])

    # --- what holds ----------------------------------------------------------------------------------------------

    @invariant()
    def every_message_is_reachable_once_or_hidden(self) -> None:
        for name, told in self.told.items():
            session = self.session(name)
            everything = session.messages(hidden=True)
            assert {each.position: (each.role, each.content) for each in everything} == told.messages
            assert {each.position for each in everything if each.hidden} == told.hidden
            found, shown = session.assemble(10**9, tail=10**6), told.shown()
            reached = Counter[int](item.position for item in found.items if not item.is_summary)
            reached.update(position for position, why in found.left_out)
            for item in found.items:
                inside = [p for p in told.messages if any(first <= p <= last for first, last in item.ranges)]
                reached.update(inside)
                if item.is_summary:
                    assert len(inside) == item.messages
            assert reached == Counter(shown)
            places = [item.place for item in found.items]
            assert places == sorted(set(places)), "in the order of time"

    @invariant()
    def totals_are_the_sums_of_their_parts(self) -> None:
        for name in NAMES:
            session = self.session(name)
            info = session.info()
            if info is None:
                continue
            shown, summaries = session.messages(), {each.id: each for each in session.summaries()}
            assert (info.messages, info.tokens) == (len(shown), sum(each.tokens for each in shown))
            standing = [each for each in summaries.values() if each.status == "window"]
            covered = [m.tokens for m in shown if any(a <= m.position <= b for s in standing for a, b in s.ranges)]
            assert info.window_tokens == info.tokens - sum(covered) + sum(each.tokens for each in standing)
            assert info.window_items == info.messages - len(covered) + len(standing)
            assert sum(each.source_tokens for each in standing) == sum(covered)
            for each in summaries.values():
                underlying = [summaries[id] for id in each.summaries]
                assert (each.kind == "condensed") == bool(underlying)
                assert each.descendants == sum(below.descendants + 1 for below in underlying)
                assert not underlying or each.messages == sum(below.messages for below in underlying)
                if each.status == "window":
                    assert all(below.status == "under" for below in underlying)
                assert not (each.level == "fallback" and underlying) and all(b.level != "fallback" for b in underlying)

    @invariant()
    def remember(self) -> None:
        if not self.past or self.past[-1][0] != self.ledger.position:
            self.past.append((self.ledger.position, {name: picture(self.session(name)) for name in NAMES}))

    def check(self, position: int, pictures: dict[str, tuple]) -> None:
        then = self.ledger.at(position)
        for name, expected in pictures.items():
            assert picture(then.session(name)) == expected

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for each in self.past[:: 1 if LONG else max(1, len(self.past) // 4)]:
            self.check(*each)
        digest = self.ledger.digest()
        assert digest == folded_from_zero(self.ledger)
        assert probe.rebuild(self.ledger).digest == digest == self.ledger.digest()
        self.ledger.close()
        self.directory.cleanup()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=100 if LONG else 6, stateful_step_count=40 if LONG else 12, deadline=None)
