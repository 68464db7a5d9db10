"""Any sequence of commands: what the commands folded, what a rebuild folds, and a plain model in memory all agree."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from model import Model
from soundness import problems, types

from ledger import Conflict, Ledger, LedgerError, NotFound, Rejected
from projections import rebuild

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None  # what is asked here is not durability

USERS = ("", "ann", "bob")
TEXTS = ("The user prefers dark roast coffee.", "the user  PREFERS dark roast coffee.", "The office moved to Porto in May.",
         "Ann drinks green tea.")  # fmt: skip
RESPONSES = ("", "You prefer dark roast coffee, so the user prefers dark roast coffee.", "Nothing of the kind.",
             "Decision: The office moved to Porto in May.\n\nConstraint: tea must be green.")  # fmt: skip
PROJECTS = (None, "Home", "home", "casa", "Work")
WORDS = ("coffee", "porto", "tea")

users = st.sampled_from(USERS)
texts = st.sampled_from(TEXTS)
projects = st.sampled_from(PROJECTS)
sessions = st.sampled_from((None, None, "s1"))
actors = st.sampled_from(("", "", "someone"))
keys = st.sampled_from((None, None, "k1", "k2"))
numbers = st.integers(0, 10_000)
confidences = st.sampled_from((0, 250_000, 500_000, 990_000, 1_000_000))
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Killed(BaseException):
    """The process ends here."""


class LedgerMachine(RuleBasedStateMachine):
    """A ledger in a real file, and beside it the model; after every step both must say the same."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-model-", dir=QUICK))
        self.time = START
        self.ledger = self.opened()
        self.model = Model()
        self.commands: dict[int, str] = {}  # first position of a command of the model -> its user
        self.batch, self.kept = None, None
        self.tick()

    def teardown(self):
        try:
            if self.batch is not None:
                self.batch.__exit__(None, None, None)
            self.compare()
            folded = self.ledger.digest()
            assert self.ledger.rebuild().digest == folded
            self.compare()
            assert problems(self.ledger) == []
        finally:
            self.ledger.close()
            shutil.rmtree(self.folder)

    # --- the machine's own ---------------------------------------------------------------------------------------

    def opened(self):
        return Ledger.open(self.folder / "memory.db", clock=lambda: self.time)

    def tick(self):
        self.model.now = self.time.isoformat(timespec="microseconds")[:26] + "Z"

    def command(self, user, key, asked, expected):
        """One command, to the ledger and to the model; then once more with its key, which must append nothing."""
        before = self.model.position
        outcome = self.both(asked, expected)
        if outcome is None:
            return None
        answer, told = outcome
        assert (answer.replayed, answer.absorbed) == (told.replayed, told.absorbed and not told.replayed)
        subject = told.subject
        if subject is None:
            subject = answer.id
            assert subject not in self.model.users, "a new subject has an id of its own"
            self.model.named(user, key, subject)
        if subject.startswith(("m_", "i_")):
            assert answer.id == subject
        if any(event.command == before + 1 for event in self.model.events):
            self.commands[before + 1] = user
        if not told.replayed:
            self.take_policy_events()
        assert self.ledger.position == self.model.position
        if key is not None and not told.replayed:
            again = asked()
            assert again.replayed and again.id == answer.id
            assert self.ledger.position == self.model.position, "a command repeated with its key appended something"
        return answer

    def both(self, asked, expected):
        """(answer, outcome) or None when both refuse in the same way."""
        try:
            told = expected()
        except LedgerError as error:
            with pytest.raises(type(error)) as caught:
                asked()
            if isinstance(error, Rejected):
                assert caught.value.rule == error.rule
            for canary in TEXTS:
                assert canary not in str(caught.value)
            assert self.ledger.position == self.model.position
            return None
        return asked(), told

    def take_policy_events(self):
        """What reinforcement and extraction found is not modelled, only what their events do."""
        self.ledger._writer.settle()
        rows = self.ledger._store.rows(start=self.model.position + 1)
        firsts, found = {}, []
        for row in rows:
            envelope = json.loads(row.state)
            data, user = envelope["data"], envelope.get("user", "")
            assert envelope["command"] in ("reinforce", "extract"), envelope
            command = firsts.setdefault(envelope["command_id"], row.position)
            self.commands[command] = user
            type, told = "policy", {}
            if row.type == "MemoryReinforced":
                type, told = "reinforced", {"delta": data["delta"], "source": data["interaction"]}
                assert self.model.users[row.stream] == user, "a turn reinforced somebody else's memory"
            elif row.type in ("MemoryCaptured", "DuplicateAbsorbed"):
                type = "captured" if row.type == "MemoryCaptured" else "absorbed"
                project = self.model.turn(data["sources"][0])["project"]
                session = self.model.turn(data["sources"][0])["session"]
                attempt = (envelope.get("actor", ""), session, tuple(data["sources"]))
                told = {name: data[name] for name in ("kind", "status", "content", "confidence")}
                told |= {"user": user, "project": project, "valid_from": envelope["recorded_at"], "attempt": attempt}
                self.model.users.setdefault(row.stream, user)
                assert self.model.users[row.stream] == user
            found.append((row.position, command, row.stream, type, told))
        self.model.recorded(found)

    def some(self, user, number, kind="m_", status=None):
        """The id of some subject of this user, or None."""
        if kind == "m_":
            found = [id for id, state in self.model.memories(user).items() if status in (None, state["status"])]
        else:
            found = [id for id, owner in self.model.users.items() if owner == user and id.startswith(kind)]
        return found[number % len(found)] if found else None

    @initialize()
    def something_to_work_on(self):
        for user, text in (("", TEXTS[0]), ("", TEXTS[2]), ("ann", TEXTS[0])):
            told = {"kind": "preference", "project": None, "actor": "", "key": None}
            self.command(
                user,
                None,
                lambda user=user, text=text, told=told: self.ledger.remember(text, user=user, **told),
                lambda user=user, text=text, told=told: self.model.remember(
                    user, text, status="active", session=None, confidence=1_000_000, **told
                ),
            )

    # --- new memories --------------------------------------------------------------------------------------------

    @rule(user=users, text=texts, project=projects, session=sessions, confidence=confidences, actor=actors, key=keys,
          kind=st.sampled_from(("preference", "knowledge")), candidate=st.booleans())  # fmt: skip
    def remember_or_propose(self, user, text, project, session, confidence, actor, key, kind, candidate):
        verb = self.ledger.propose if candidate else self.ledger.remember
        told = {"kind": kind, "project": project, "actor": actor, "key": key}
        self.command(
            user,
            key,
            lambda: verb(text, confidence=confidence / 1_000_000, session_id=session, user=user, **told),
            lambda: self.model.remember(
                user,
                text,
                status="candidate" if candidate else "active",
                session=session,
                confidence=confidence,
                **told,
            ),
        )

    @rule(user=users, number=numbers, text=texts, actor=actors, key=keys)
    def supersede(self, user, number, text, actor, key):
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.supersede(id, text, user=user, actor=actor, key=key),
                lambda: self.model.supersede(user, actor, id, text, key),
            )

    # --- changes -------------------------------------------------------------------------------------------------

    @rule(user=users, number=numbers, actor=actors, key=keys, status=st.sampled_from((None, "candidate", "active")),
          verb=st.sampled_from(("promote", "reject", "invalidate", "retract", "restore", "quarantine", "release")))  # fmt: skip
    def simple(self, user, number, actor, key, status, verb):
        if (id := self.some(user, number, status=status)) is not None:
            self.command(
                user,
                key,
                lambda: getattr(self.ledger, verb)(id, user=user, actor=actor, key=key),
                lambda: self.model.simple(verb, user, actor, id, key),
            )

    @rule(user=users, number=numbers, actor=actors, key=keys, sourced=st.booleans())
    def reinforce(self, user, number, actor, key, sourced):
        source = self.some(user, number, "i_") if sourced else None
        if source is not None and self.model.turn(source) is None:
            return
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.reinforce(id, source=source, user=user, actor=actor, key=key),
                lambda: self.model.reinforce(user, actor, id, source, key=key),
            )

    @rule(user=users, number=numbers, confidence=confidences, actor=actors, key=keys)
    def adjust(self, user, number, confidence, actor, key):
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.adjust(id, confidence / 1_000_000, user=user, actor=actor, key=key),
                lambda: self.model.adjust(user, actor, id, confidence, key),
            )

    @rule(user=users, number=numbers, text=texts, actor=actors, key=keys)
    def revise(self, user, number, text, actor, key):
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.revise(id, text, user=user, actor=actor, key=key),
                lambda: self.model.revise(user, actor, id, text, key),
            )

    @rule(
        user=users,
        number=numbers,
        add=st.sets(st.sampled_from("abc")),
        remove=st.sets(st.sampled_from("abc")),
        key=keys,
    )
    def retag(self, user, number, add, remove, key):
        add, remove = tuple(sorted(add)), tuple(sorted(remove))
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.retag(id, add, remove, user=user, key=key),
                lambda: self.model.retag(user, "", id, add, remove, key),
            )

    @rule(user=users, number=numbers, key=keys, start=st.sampled_from((None, "2020-01-01T00:00:00.000000Z")),
          end=st.sampled_from((None, "2026-02-01T00:00:00.000000Z", "2031-01-01T00:00:00.000000Z")))  # fmt: skip
    def set_validity(self, user, number, key, start, end):
        if (id := self.some(user, number)) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.set_validity(id, start, end, user=user, key=key),
                lambda: self.model.set_validity(user, "", id, start, end, key),
            )

    @rule(user=users, number=numbers)
    def ask_for_anothers(self, user, number):
        """Ids of other users, and what does not exist, are not found, and nothing happens."""
        other = USERS[(USERS.index(user) + 1) % 3]
        id = self.some(other, number) or "m_0000000000000000"
        for call in (self.ledger.promote, self.ledger.reinforce, self.ledger.retract):
            with pytest.raises(NotFound):
                call(id, user=user)
        assert self.ledger.memory(id, user=user) is None
        assert self.ledger.why(id, user=user) is None

    # --- projects ------------------------------------------------------------------------------------------------

    @rule(user=users, project=st.sampled_from(PROJECTS[1:]), alias=st.sampled_from(("casa", "Office")), key=keys)
    def add_alias(self, user, project, alias, key):
        self.command(
            user,
            key,
            lambda: self.ledger.add_alias(project, alias, user=user, key=key),
            lambda: self.model.add_alias(user, "", project, alias, key),
        )

    @rule(
        user=users,
        project=st.sampled_from(PROJECTS[1:]),
        name=st.sampled_from("xy"),
        value=st.sampled_from("12"),
        key=keys,
    )
    def set_state(self, user, project, name, value, key):
        self.command(
            user,
            key,
            lambda: self.ledger.set_state(project, "fact", name, value, user=user, command_key=key),
            lambda: self.model.set_state(user, "", project, ("fact", name), value, key),
        )

    # --- interactions --------------------------------------------------------------------------------------------

    @rule(user=users, response=st.sampled_from(RESPONSES), project=projects, session=sessions, key=keys, number=numbers,
          shown=st.booleans())  # fmt: skip
    def capture(self, user, response, project, session, key, number, shown):
        used = (self.some(user, number),) if shown and self.some(user, number) else ()
        self.command(
            user,
            key,
            lambda: self.ledger.capture("What?", response, project=project, session_id=session, memories_used=used,
                                        user=user, key=key),
            lambda: self.model.capture(user, "", "What?", response, project, session, used, key),
        )  # fmt: skip

    @rule(user=users, number=numbers, response=st.sampled_from(RESPONSES[1:]), key=keys)
    def attach(self, user, number, response, key):
        if (id := self.some(user, number, "i_")) is not None:
            self.command(
                user,
                key,
                lambda: self.ledger.attach_response(id, response, user=user, key=key),
                lambda: self.model.attach(user, "", id, response, key),
            )

    @rule(user=users, number=numbers)
    def extract(self, user, number):
        id = self.some(user, number, "i_")
        if id is not None and self.model.turn(id) is not None:
            self.ledger.extract(id, user=user)
            self.take_policy_events()
            position = self.ledger.position
            self.ledger.extract(id, user=user)
            assert self.ledger.position == position, "an interaction is extracted once"

    # --- the way back --------------------------------------------------------------------------------------------

    @rule(number=numbers)
    def undo(self, number):
        standing = [command for command in self.commands if self.model.positions_of(command)]
        if not standing:
            return
        command = standing[number % len(standing)]
        user = self.commands[command]
        with pytest.raises(NotFound):
            self.ledger.undo(command, user=USERS[(USERS.index(user) + 1) % 3])
        report = self.ledger.undo(command, user=user, dry_run=True)
        if len(report.commands) > 1:
            with pytest.raises(Conflict):
                self.ledger.undo(command, user=user)
        report = self.ledger.undo(command, user=user, cascade=True)
        fallen = {self.first_position(each, user) for each in report.commands}
        assert command in fallen and all(self.commands.get(each, user) == user for each in fallen)
        self.model.undo(report.command_id, fallen)
        assert self.model.illegal() == [], "what is left in force makes no sense without what was undone"
        assert self.ledger.position == self.model.position

    def first_position(self, command_id, user):
        return min(entry.position for entry in self.ledger.audit(command_id=command_id, user=user, limit=500))

    @precondition(lambda self: self.model.undos)
    @rule(number=numbers)
    def redo(self, number):
        undo_id = list(self.model.undos)[number % len(self.model.undos)]
        user = next(
            entry.user
            for each in USERS
            for entry in self.ledger.audit(command_id=undo_id, user=each)
            if entry.user == each
        )
        if not self.model.may_put_back(undo_id):
            with pytest.raises(Conflict):
                self.ledger.redo(undo_id, user=user)
            return
        self.ledger.redo(undo_id, user=user)
        self.model.put_back(undo_id)
        assert self.ledger.position == self.model.position

    # --- the world -----------------------------------------------------------------------------------------------

    @rule(by=st.sampled_from((timedelta(hours=-1), timedelta(days=3653), timedelta(), timedelta(seconds=1))))
    def the_clock_jumps(self, by):
        if self.time.year < 2100:
            self.time += by
            self.tick()

    @precondition(lambda self: self.batch is None)
    @rule()
    def reopen(self):
        digest = self.ledger.digest()
        self.ledger.close()
        self.ledger = self.opened()
        assert self.ledger.digest() == digest

    @precondition(lambda self: self.batch is None)
    @rule()
    def rebuild(self):
        digest = self.ledger.digest()
        assert self.ledger.rebuild().digest == digest
        assert self.ledger.position == self.model.position

    @precondition(lambda self: self.batch is None)
    @rule(step=st.integers(1, 60))
    def a_rebuild_is_killed(self, step):
        store, left, digest = self.ledger._store, [step], self.ledger.digest()

        def counting(enter):
            def call(**how):
                left[0] -= 1
                if not left[0]:
                    raise Killed
                return enter(**how)

            return call

        store.transact, store.snapshot = (
            counting(type(store).transact.__get__(store)),
            counting(type(store).snapshot.__get__(store)),
        )
        try:
            self.ledger.rebuild()
        except Killed:
            pass
        finally:
            del store.transact, store.snapshot
        with store.transact() as transaction:  # the holder of a lease that it left behind would be dead
            transaction.connection.execute("DELETE FROM leases")
        assert self.ledger.digest() == digest

    @precondition(lambda self: self.batch is None)
    @rule()
    def begin_a_batch(self):
        self.kept = (self.model.copy(), dict(self.commands))
        self.batch = self.ledger.batch()
        self.batch.__enter__()
        self.ledger._writer._batch_started = math.inf  # how long a step takes on this machine decides nothing

    @precondition(lambda self: self.batch is not None)
    @rule(user=users, text=texts, number=numbers, undoes=st.booleans())
    def the_batch_reaches_its_bound(self, user, text, number, undoes):
        """After 5 seconds (DESIGN 3) the next command commits what there is, and only the rest can be taken back."""
        self.kept = (self.model.copy(), dict(self.commands))
        self.ledger._writer._batch_started = -math.inf
        if undoes and any(map(self.model.positions_of, self.commands)):
            self.undo(number)
        else:
            self.remember_or_propose(user, text, None, None, 500_000, "", None, "knowledge", False)
        assert self.ledger._writer._batch_started > 0, "nothing was committed"
        self.ledger._writer._batch_started = math.inf

    @precondition(lambda self: self.batch is not None)
    @rule(fails=st.booleans())
    def end_the_batch(self, fails):
        batch, self.batch = self.batch, None
        if fails:
            error = ZeroDivisionError()
            with pytest.raises(ZeroDivisionError):
                batch.__exit__(ZeroDivisionError, error, None)
                raise error
            self.model, self.commands = self.kept
            self.tick()
        else:
            batch.__exit__(None, None, None)
        self.compare()

    @precondition(lambda self: self.batch is None)
    @rule()
    def run_policies(self):
        if self.time < START + timedelta(days=29):  # before anything can fade
            self.ledger.run_policies(only=("reinforcement", "extraction", "expiry"))
            self.take_policy_events()

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def the_log_is_as_long_as_the_model_says(self):
        assert self.ledger.position == self.model.position

    @rule()
    def compare(self):
        for user in USERS:
            expected = self.model.memories(user)
            found = {memory.id: memory for memory in self.ledger.memories(user=user, status="all")}
            assert list(found)[::-1] == sorted(expected, key=lambda id: expected[id]["row"])
            for id, memory in found.items():
                self.same(memory, expected[id])
            candidates = [id for id, state in expected.items() if state["status"] == "candidate"]
            assert sorted(each.memory.id for each in self.ledger.review(user=user)) == sorted(candidates)
            for word in WORDS:
                assert {hit.memory.id for hit in self.ledger.recall(word, user=user, k=500).items} == {
                    id for id, state in expected.items() if self.recalled(state, word)
                }
            for name in PROJECTS[1:]:
                subject = self.model.project(user, name)
                values = {(entry.category, entry.key): entry.value for entry in self.ledger.state(name, user=user)}
                assert values == (self.model.state(subject) if subject is not None else {})
            turns = {
                id for id, owner in self.model.users.items() if owner == user and id[:2] == "i_" and self.model.turn(id)
            }
            assert {turn.id for turn in self.ledger.interactions(user=user, limit=500)} == turns

    def same(self, memory, state):
        label = self.model.labels[state["project"]] if state["project"] is not None else None
        names = (
            "kind",
            "status",
            "content",
            "quarantined",
            "tags",
            "valid_from",
            "valid_to",
            "superseded_by",
            "supersedes",
        )
        assert {name: getattr(memory, name) for name in names} == {name: state[name] for name in names}
        assert (memory.project, memory.user) == (label, state["user"])
        assert (round(memory.confidence * 1_000_000), memory.reference_count) == (state["confidence"], state["count"])
        steps = self.ledger.why(memory.id, user=memory.user).steps
        assert sum(round(step.delta * 1_000_000) for step in steps) == state["confidence"], "the steps do not add up"
        assert [step.position for step in steps] == sorted(step.position for step in steps)

    def recalled(self, state, word):
        now, words = self.model.now, state["content"].casefold().replace(".", " ").split()
        holds = state["valid_from"] <= now and (state["valid_to"] is None or now < state["valid_to"])
        return state["status"] == "active" and not state["quarantined"] and holds and word in words


def test_the_ledger_and_the_model_agree():
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=600 if LONG else 6,  # the crash harness runs 2,000 steps of it, in the same task
            stateful_step_count=60 if LONG else 35,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# --- folding in any rhythm -------------------------------------------------------------------------------------------

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ("remember", "propose", "promote", "reject", "adjust", "reinforce", "supersede", "retract", "restore", "state",
             "alias", "capture", "extract", "undo", "redo", "policy")
        ),
        st.sampled_from(TEXTS),
        numbers,
        st.sampled_from(USERS[:2]),
    ),
    max_size=30,
)  # fmt: skip


def act(ledger, action, text, number, user):
    """One command; the same on every ledger that went the same way so far. A refusal is an answer too."""
    memories = ledger.memories(user=user, status="all")
    id = memories[number % len(memories)].id if memories else "m_0000000000000000"
    turns = ledger.interactions(user=user)
    turn = turns[number % len(turns)].id if turns else "i_0000000000000000"
    calls = {
        "remember": lambda: ledger.remember(text, project=PROJECTS[number % 5], user=user),
        "propose": lambda: ledger.propose(text, user=user),
        "adjust": lambda: ledger.adjust(id, number / 10_000, user=user),
        "supersede": lambda: ledger.supersede(id, text, user=user),
        "state": lambda: ledger.set_state("Home", "fact", "x", text, user=user),
        "alias": lambda: ledger.add_alias("Home", "casa", user=user),
        "capture": lambda: ledger.capture("What?", text, project="Home", session_id="s", user=user),
        "extract": lambda: ledger.extract(turn, user=user),
        "undo": lambda: ledger.undo(1 + number % ledger.position, user=user, cascade=True),
        "redo": lambda: ledger.redo(1 + number % ledger.position, user=user),
        "policy": lambda: ledger.adopt_policy(by={"user": user}, gain=(number % 10) / 100),
    }
    with suppress(LedgerError):
        calls.get(action, lambda: getattr(ledger, action)(id, user=user))()


@settings(max_examples=300 if LONG else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    actions=actions, batch=st.sampled_from((1, 7, 1_000)), tail=st.sampled_from((0, 1, 1_000)), cut=st.integers(0, 30)
)
def test_one_by_one_and_in_a_batch_and_by_a_rebuild_of_any_rhythm_fold_the_same(actions, batch, tail, cut):
    kept = rebuild.BATCH, rebuild.TAIL
    with tempfile.TemporaryDirectory(dir=QUICK) as folder:
        options = {"clock": lambda: START}
        with Ledger.open(f"{folder}/one.db", **options) as one, Ledger.open(f"{folder}/all.db", **options) as all_:
            for action in actions:
                act(one, *action)
            with all_.batch():
                for action in actions[:cut]:
                    act(all_, *action)
            all_.run_policies(only=("reinforcement", "extraction", "expiry"))
            for action in actions[cut:]:
                act(all_, *action)
            try:
                rebuild.BATCH, rebuild.TAIL = batch, tail
                for each in (one, all_):
                    assert problems(each) == []
                    folded = each.digest()
                    assert each.rebuild().digest == folded
            finally:
                rebuild.BATCH, rebuild.TAIL = kept
            if not any(action[0] in ("capture", "undo", "redo") for action in actions):
                assert types(one) == types(all_)
                # Ids and secrets are random; what people see is not.
                for user in USERS[:2]:
                    shown = [[(m.content, m.status, m.confidence, m.project, m.position) for m in each.memories(
                        user=user, status="all")] for each in (one, all_)]  # fmt: skip
                    assert shown[0] == shown[1]
