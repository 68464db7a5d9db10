"""The laws of every session after any commands: nothing is lost, the order holds, and the past stays as it was.

What is in a window is judged by the laws of ``window_laws``, as everybody may rely on them, and not by the product's rules.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import probe
import pytest
import window_laws
from absence import absent
from conftest import Clock, folded_from_zero
from conversations import RAIN, WEATHER
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from window_laws import Said

from ledger import Ledger, LedgerError, RejectedError

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
NAMES = ("chat", "other/a:b")
BUDGETS = (60, 300, 1_000, 4_000, 20_000)
SMALL = (150, 2_000)  # of the windows that are compared with the past
QUERY = "which tea does the user drink?"


class Told:
    """The expected content of a session: each message ever appended, by its position, and whether it is hidden."""

    def __init__(self) -> None:
        self.messages: dict[int, Said] = {}
        self.hidden: set[int] = set()

    def shown(self) -> list[int]:
        return [position for position in self.messages if position not in self.hidden]


def said(message: Any) -> Said:
    calls = tuple(part["id"] for part in message.parts if part["type"] == "tool_use")
    results = tuple(part["id"] for part in message.parts if part["type"] == "tool_result")
    return Said(message.role, message.content, message.tokens, calls, results)


def shown(window: Any) -> tuple:
    """Return the contents of a window without the position at which it was read and the id of a recall."""
    told = window.reasons, window.evicted, window.summaries_evicted, window.left_out, window.over_budget
    return window.entries, window.used, window.memories, *told


def words(asked: Any) -> str:
    """Write a summary of at most the requested length, as an obedient model does."""
    return "Sum: " + "word " * min(90, asked.target_tokens // 2)


def picture(session: Any) -> tuple:
    """Return all that a session shows, for comparison with a later reading of the same moment."""
    found = session.window(10**9, tail=10**6)
    items = [(item.kind, item.place, item.tokens, item.id, item.ranges) for item in found.items]
    messages = [
        (each.position, each.content, each.hidden) for each in session.messages(include_hidden=True, limit=1_000)
    ]
    windows = [shown(session.window(budget, question=QUERY)) for budget in SMALL]
    return items, messages, [(each.id, each.status) for each in session.summaries.list()], session.abstract, windows


class Sessions(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path, self.clock = Path(self.directory.name) / "memory.db", Clock()
        self.ledger = Ledger.open(self.path, clock=self.clock)
        self.told = {name: Told() for name in NAMES}
        self.past: list[tuple[int, dict[str, tuple]]] = []
        self.receipts: list[tuple[str, str, tuple]] = []
        self.count = 0
        self.ledger.remember("The user drinks green tea.")
        self.ledger.remember("The user drinks black tea on Sundays, with a slice of lemon and no sugar at all.")

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
                self.told[name].messages[found.position] = said(found)

    @rule(
        name=st.sampled_from(NAMES), calls=st.integers(1, 40), size=st.sampled_from([3, 60, 400]), talks=st.booleans()
    )
    def work(self, name: str, calls: int, size: int, talks: bool) -> None:
        """Append a turn in which an agent makes many calls."""
        with self.ledger.batch():
            self.say(name, "user", f"{self.count} find out " + "why " * (size // 3))
            for _ in range(calls):
                call = WEATHER | {"id": f"c{self.count}"}
                self.say(name, "assistant", f"Step {self.count}." if talks else "", [call])
                text = f"{self.count} " + "word " * (size if self.count % 3 else 3)
                self.say(name, "tool", "", [RAIN | {"id": call["id"], "text": text}])

    def say(self, name: str, role: str, text: str, parts: Any = ()) -> None:
        self.count += 1
        found = self.session(name).append(role, text, parts=parts)
        self.told[name].messages[found.position] = said(found)

    @rule(
        name=st.sampled_from(NAMES),
        turns=st.integers(1, 6),
        budget=st.sampled_from(BUDGETS),
        size=st.sampled_from([10, 80]),
    )
    def loop(self, name: str, turns: int, budget: int, size: int) -> None:
        """Append turns and compact the session after each of them, as the documentation advises agents."""
        for _ in range(turns):
            self.say(name, "user", f"{self.count} ask " + "word " * size)
            self.say(name, "assistant", f"{self.count} answer " + "word " * size)
            self.compact(name, budget, False, True)
            self.look_through_a_window(name, budget, "tokens", False, 32, False)

    @rule(name=st.sampled_from(NAMES), keep=st.integers(-2, 60))
    def truncate(self, name: str, keep: int) -> None:
        if keep < 0:
            self.nothing_changes(lambda: self.session(name).truncate(keep), refused=True)
        elif self.known(name):
            told = self.told[name]
            shown = told.shown()
            gone = shown[: len(shown) - keep] if len(shown) > keep else []
            assert self.session(name).truncate(keep).hidden == len(gone)
            told.hidden.update(gone)

    @rule(
        name=st.sampled_from(NAMES),
        nothing=st.sampled_from([[], [{"role": "user", "content": " "}], None, "text", [None]]),
    )
    def reconcile_with_nothing(self, name: str, nothing: Any) -> None:
        """Reconcile a session with an empty or unreadable transcript, which changes nothing."""
        empty = isinstance(nothing, list) and nothing != [None]
        self.nothing_changes(lambda: self.session(name).reconcile(nothing), refused=not empty)

    def nothing_changes(self, call: Any, *, refused: bool) -> None:
        before = self.ledger.position
        if refused:
            with pytest.raises(RejectedError):
                call()
        else:
            assert (found := call()).skipped == "empty" and found.change == "none"
        assert self.ledger.position == before

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
        lines = [each.as_chat() for each in kept]
        for _ in range(more):
            self.count += 1
            lines.append({"role": "user", "content": f"new {self.count}"})
        found = session.replace(lines)
        assert (found.hidden, found.appended) == (len(before) - len(kept), more)
        told.hidden.update(each.position for each in before[len(kept) :])
        for each in session.messages()[len(kept) :]:
            told.messages[each.position] = said(each)

    @rule(
        name=st.sampled_from(NAMES),
        budget=st.sampled_from([None, 1, 500, 5_000]),
        force=st.booleans(),
        model=st.booleans(),
    )
    def compact(self, name: str, budget: int | None, force: bool, model: bool) -> None:
        if self.known(name):
            session, told = self.session(name), self.told[name]
            before, items = session.info().window_tokens, session.items()
            found = session.compact(budget, force=force, summarizer=words if model else None)
            assert (found.tokens_before, found.tokens_after) == (before, session.info().window_tokens)
            assert found.tokens_after <= before and bool(found.created) == (found.tokens_after < before)
            asked = max((at for at in told.shown() if told.messages[at].asks), default=0)
            after = {item.place for item in session.items() if not item.is_summary}
            assert asked in after or asked not in {item.place for item in items if not item.is_summary}
            tail = [item for item in items[-32:] if not item.is_summary]
            if not force and (budget is None or sum(item.tokens for item in items[-32:]) * 4 <= budget * 3):
                assert {item.place for item in tail} <= after, "the tail is compacted only where it alone is too much"
            of_turn = [any(last > asked for _, last in made.ranges) for made in found.created]
            if model and any(of_turn):
                assert of_turn == sorted(of_turn), "what is older is summarized first"
                self.nothing_older_is_left(session, asked)

    def nothing_older_is_left(self, session: Any, asked: int) -> None:
        """Check that all messages before the turn under way are summarized, except short stretches."""
        stretch = 0
        for item in session.items():
            if item.place >= asked:
                break
            stretch = 0 if item.is_summary else stretch + item.tokens
            assert stretch < 2_000, "messages before the turn were left"

    @rule(name=st.sampled_from(NAMES), of=st.sampled_from(["all", "turn"]), part=st.sampled_from([20, 50, 80, 100, 105, 120]),
          asks=st.booleans(), tail=st.sampled_from([1, 32, 200]))  # fmt: skip
    def look_through_a_window_that_is_nearly_enough(self, name: str, of: str, part: int, asks: bool, tail: int) -> None:
        """Take a budget near the size of the session's whole window, or of the turn under way, and check the window."""
        items = self.session(name).items()
        asked = max((at for at in self.told[name].shown() if self.told[name].messages[at].asks), default=0)
        tokens = sum(item.tokens for item in items if of == "all" or item.place >= asked)
        if tokens:
            self.look_through_a_window(name, max(1, tokens * part // 100), "tokens", asks, tail, False)

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from(BUDGETS), unit=st.sampled_from(["tokens", "tokens", "chars"]),
          asks=st.booleans(), tail=st.sampled_from([1, 32, 200]), records=st.booleans())  # fmt: skip
    def look_through_a_window(self, name: str, budget: int, unit: str, asks: bool, tail: int, records: bool) -> None:
        session, told = self.ledger.session(name), self.told[name]
        budget *= 4 if unit == "chars" else 1
        window = session.window(budget, unit=unit, question=QUERY if asks else None, tail=tail, receipt=records)
        standing = {each.id: each for each in self.session(name).summaries.list(statuses=("window",))}
        window_laws.check(window, told.messages, told.hidden, standing, tail)
        without = session.window(budget, unit=unit, tail=tail)
        assert window.over_budget == without.over_budget, "memories never push it over"
        assert not asks or window.pack.used <= budget * 0.25
        if records:
            self.receipts.append((name, window.receipt, shown(window)))
            assert shown(session.reopen(window.receipt)) == shown(window)

    @rule(number=st.integers(0, 10**6))
    def undo_and_redo(self, number: int) -> None:
        """Undo a command and redo it, which leaves every session as it was."""
        before = {name: picture(self.session(name)) for name in NAMES}
        try:
            undone = self.ledger.undo(1 + number % self.ledger.position, cascade=True)
        except LedgerError:
            return
        if undone.command_id is None:
            return  # it is so already
        for name in NAMES:
            self.session(name).window(1_000)
        self.ledger.redo(undone.command_id)
        assert {name: picture(self.session(name)) for name in NAMES} == before

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from([50, 2_000, 20_000]), model=st.booleans())
    def shrink(self, name: str, budget: int, model: bool) -> None:
        if self.known(name):
            summarizer = (lambda asked: f"Sum of {len(asked.texts)}") if model else None
            found = self.session(name).compact(budget, summarizer=summarizer, until_under=True)
            assert found.under == (self.session(name).info().window_tokens <= budget)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99), subtree=st.booleans())
    def invalidate(self, name: str, which: int, subtree: bool) -> None:
        standing = [each for each in self.session(name).summaries.list() if each.status in ("window", "under")]
        if standing:
            found = self.session(name).summaries.invalidate(standing[which % len(standing)].id, subtree=subtree)
            assert standing[which % len(standing)].id in found.invalidated

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99))
    def restore(self, name: str, which: int) -> None:
        gone = self.session(name).summaries.list(statuses=("invalid",))
        if gone:
            try:
                self.session(name).summaries.restore(gone[which % len(gone)].id)
            except LedgerError as refused:
                assert "restored" in str(refused) or "restore that first" in str(refused) or "not all" in str(refused)

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 99))
    def rebuild_summary(self, name: str, which: int) -> None:
        standing = [each for each in self.session(name).summaries.list() if each.status in ("window", "under")]
        if standing:
            chosen = standing[which % len(standing)]
            made = self.session(name).summaries.rewrite(chosen.id, summarizer=lambda asked: "Anew")
            assert (made.ranges, made.status, made.replaces) == (chosen.ranges, "window", chosen.id)

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(["", "So far.", "More."]))
    def set_summary(self, name: str, text: str) -> None:
        assert self.session(name).set_abstract(text) == self.session(name).abstract == text

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
            everything = session.messages(include_hidden=True, limit=1_000)
            assert {each.position: said(each) for each in everything} == told.messages
            assert {each.position for each in everything if each.hidden} == told.hidden
            found, shown = session.window(10**9, tail=10**6), told.shown()
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
            if absent(session.info):
                continue
            info = session.info()
            shown, summaries = session.messages(limit=1_000), {each.id: each for each in session.summaries.list()}
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
        for name, receipt, window in self.receipts:
            assert shown(self.ledger.session(name).reopen(receipt)) == window, "as it was delivered"
        digest = self.ledger.proof.digest()
        assert digest == folded_from_zero(self.ledger)
        now = {name: picture(self.session(name)) for name in NAMES}
        assert probe.rebuild(self.ledger).digest == digest == self.ledger.proof.digest()
        assert {name: picture(self.session(name)) for name in NAMES} == now
        self.ledger.close()
        self.directory.cleanup()
