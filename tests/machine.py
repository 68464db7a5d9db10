"""Any sequence of commands on a ledger, with the oracle next to it; both must say the same."""

from __future__ import annotations

import math
import shutil
import tempfile
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

import probe
import pytest
from absence import absent
from commands import RESPONSES, START, TEXTS, USERS
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oracle import ERASED, HIDDEN, OPEN, Act, CommandPart, Oracle, Refused
from oracle_projects import Places
from places import QUICK
from project_rules import ProjectRules
from soundness import problems

from ledger import ConflictError, Ledger, NotFoundError, RejectedError

ACTORS = ("", "bob", "eve")  # the first is never distrusted
PROJECTS = (None, "Home", "Work", "casa")  # the last is nobody's until it is an alias
WORDS = ("coffee", "porto", "tea")


users = st.sampled_from(USERS)


texts = st.sampled_from(TEXTS)


projects = st.sampled_from(PROJECTS)


sessions = st.sampled_from((None, None, "s1"))


actors = st.sampled_from(ACTORS)


keys = st.sampled_from((None, None, None, "k1", "k2"))


numbers = st.integers(0, 10_000)


confidences = st.sampled_from((0, 250_000, 500_000, 990_000, 1_000_000))


ERRORS = {"RejectedError": RejectedError, "NotFoundError": NotFoundError, "ConflictError": ConflictError}
KEEP = {"derived": "keep", "sources": "keep", "quotes": "keep"}


METHODS = {"quarantine": "guards.quarantine", "release": "guards.release", "adjust": "memories.set_confidence"}


def method(ledger, verb):
    """Return the ledger's method for a verb of the oracle."""
    return attrgetter(METHODS.get(verb, verb))(ledger)


class Killed(BaseException):
    """The process ends here."""


class LedgerMachine(ProjectRules, RuleBasedStateMachine):
    """A ledger in a real file, and beside it the oracle; both must say the same."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-model-", dir=QUICK))
        self.time = START
        self.ledger = self.opened()
        for user in USERS:
            self.ledger.bind(user=user).policy.set(decay="all", expire=True)
        self.oracle = Oracle()
        self.past = []  # (position, user -> memories) as they were believed
        self.seen = {}  # id of an event or command -> first position of its command
        self.batch, self.kept = None, None
        self.tick()

    def teardown(self):
        try:
            if self.batch is not None:
                self.batch.__exit__(None, None, None)
            self.compare()
            self.look_closer()
            self.look_back(slice(None, None, 5))
            folded = self.ledger.proof.digest()
            assert probe.rebuild(self.ledger).digest == folded
            self.compare()
            assert problems(self.ledger) == []
        finally:
            self.ledger.close()
            shutil.rmtree(self.folder)

    # --- the machine's own ---------------------------------------------------------------------------------------

    def opened(self):
        return Ledger.open(self.folder / "memory.db", clock=lambda: self.time)

    def tick(self):
        self.oracle.now = self.time.isoformat(timespec="microseconds")[:26] + "Z"

    def command(self, user, actor, key, asked, call, decide):
        """One command, to the ledger and to the oracle; then once more with its key, which must append nothing."""
        before, asker = self.ledger.position, self.ledger.bind(user=user, actor=actor)
        try:
            known = self.oracle.known(user, key, asked)
            if known is None:
                self.oracle.check_actor(user, actor, decide(None))
        except Refused as refused:
            with pytest.raises(ERRORS[refused.kind]) as caught:
                call(asker, idempotency_key=key)
            assert not refused.rule or caught.value.rule == refused.rule
            assert not any(canary in str(caught.value) for canary in TEXTS)
            return None
        answer = call(asker, idempotency_key=key)
        if known is not None:
            assert answer.replayed and answer.id == known and self.ledger.position == before
            return None
        parts = decide(answer.id)
        new = any(part.subject is None for part in parts)
        assert not answer.replayed and new == (answer.id not in self.oracle.owners)
        assert new or not parts or parts[-1].verb in ("supersede", "unset") or answer.id == parts[0].subject
        assert (self.ledger.position > before) == bool(parts or key), "only what changes something is recorded"
        self.oracle.done(before + 1, user, actor, answer.id, parts, (key, asked) if key is not None else None)
        self.take_policies(user, before)
        if key is not None:
            position, again = self.ledger.position, call(asker, idempotency_key=key)
            assert again.replayed and again.id == answer.id
            assert self.ledger.position == position, "a command repeated with its key appended something"
        return answer

    def take_policies(self, user, before):
        """Tell the oracle what reinforcement and extraction recorded after a position.

        The oracle works out the effects by itself.
        """
        probe.writer(self.ledger).write_waiting()
        commands = {}
        for entry in reversed(self.ledger.bind(user=user).history.audit(limit=500)):
            if entry.position > before and entry.user == user and entry.command_id not in self.seen:
                commands.setdefault(entry.command_id, []).append(entry)
        for id, entries in commands.items():
            number = self.seen[id] = entries[0].position
            self.seen |= {entry.event_id: number for entry in entries}
            if entries[0].actor in ACTORS:  # a person's own command
                continue
            cause = next((self.seen.get(entry.causation_id) for entry in entries if entry.causation_id), None)
            if cause is not None:
                self.oracle.causes[number] = cause
            parts = [self.part(each) for each in entries]
            for entry, part in zip(entries, parts, strict=True):
                self.check_noes(user, entry, part)
            self.oracle.done(number, user, entries[0].actor, None, parts, None)

    def check_noes(self, user, entry, part):
        """Nothing comes back that somebody had turned down, also where the memory is gone; nothing else is dropped for it."""
        if entry.type == "MemoryCaptured":
            assert not self.oracle.turned_down(user, part.data), "what a person turned down came back"
        there = self.oracle.memories(user)
        for each in entry.data.get("dropped", ()) if entry.type == "CandidatesExtracted" else ():
            if each["why"] in ("rejected", "retracted") and each["memory"] not in there:
                assert self.oracle.no_to(each["memory"]) is not None, "nobody had turned that down"

    def part(self, entry):
        data = entry.data
        if entry.type == "MemoryReinforced":
            told = {"delta": data["delta"], "source": data["interaction"], "matched": data["matcher"]}
            return CommandPart("reinforce", entry.subject, told)
        if entry.type == "ReinforcementEvaluated":
            return CommandPart("deny", entry.subject, {"memories": [each["memory"] for each in data.get("denied", ())]})
        if entry.type in ("MemoryCaptured", "DuplicateAbsorbed"):
            told = {name: data[name] for name in ("kind", "status", "content", "confidence", "sources")}
            turn = self.oracle.turns(self.oracle.owners[data["sources"][0]])[data["sources"][0]]
            said = self.ledger.bind(user=entry.user).interactions.get(data["sources"][0])
            told |= {
                "project": turn["place"],
                "valid_from": min(entry.recorded_at, said.occurred_at or said.recorded_at),
            }
            return CommandPart(
                "say", entry.subject, told | {"again": (entry.actor, entry.session, tuple(data["sources"]))}
            )
        if entry.type == "MemoryRejected":
            return CommandPart("reject", entry.subject, {"idle": True})
        if entry.type == "MemorySuperseded":
            return CommandPart("supersede", entry.subject, {"by": None, "at": self.oracle.now})
        return CommandPart("note", entry.subject, {})

    def some(self, user, number, *statuses, kind="m"):
        """Return the id of a memory or turn of this user, or None if there is none.

        Subjects with one of the statuses are preferred; ``number`` chooses among them.
        """
        there = self.oracle.memories(user) if kind == "m" else self.oracle.turns(user)
        there = {id: state for id, state in there.items() if kind == "m" or id not in self.oracle.erased}
        found = [id for id, state in there.items() if state.get("status") in statuses] or list(there)
        return found[number % len(found)] if found else None

    # --- new memories --------------------------------------------------------------------------------------------

    @initialize()
    def something_to_work_on(self):
        self.begin_projects()
        for user, text in (("", TEXTS[0]), ("", TEXTS[2]), ("ann", TEXTS[0])):
            self.remember(user, text, None, None, 1_000_000, "", None, "preference", False, 0, False)
        self.remember("", TEXTS[3], None, None, 500_000, "", None, "knowledge", True, 0, False)
        self.simple("", 0, "eve", None, True, "promote")

    @rule(user=users, text=texts, project=projects, session=sessions, confidence=confidences, actor=actors, key=keys,
          kind=st.sampled_from(("preference", "knowledge", "project")), candidate=st.booleans(), number=numbers,
          sourced=st.booleans())  # fmt: skip
    def remember(self, user, text, project, session, confidence, actor, key, kind, candidate, number, sourced):
        verb = "propose" if candidate else "remember"
        source = self.some(user, number, kind="mi"[number % 2]) if sourced else None
        sources = (source,) if source is not None else ()
        place, project = self.place(user, project)
        data = {"kind": kind, "status": "candidate" if candidate else "active", "content": text, "project": place,
                "confidence": confidence, "sources": sources, "valid_from": self.oracle.now}  # fmt: skip
        told = {"kind": kind, "project": project, "session": session, "confidence": confidence / 1_000_000}
        self.command(
            user,
            actor,
            key,
            (verb, text, kind, project, session, confidence, sources),
            lambda ledger, **key: getattr(ledger, verb)(text, sources=sources, **told, **key),
            lambda id: self.oracle.remember(user, data, (actor, session, sources), id),
        )

    @rule(user=users, number=numbers, text=texts, actor=actors, key=keys)
    def supersede(self, user, number, text, actor, key):
        if (old := self.some(user, number, "active")) is None:
            return

        def decide(id):
            state = self.oracle.memories(user)[old]
            gone = self.oracle.ask("supersede", user, old, {"by": None, "at": self.oracle.now})
            data = {"kind": state["kind"], "project": state["place"], "tags": state["tags"]}
            data |= {"status": "active", "content": text, "confidence": 1_000_000, "valid_from": self.oracle.now}
            known = self.oracle.same(user, data)
            assert id is None or id in known or (not known and id not in self.oracle.owners), (
                "by what says the same, or new"
            )
            if old in known:
                return []
            return self.oracle.remember(user, data | {"supersedes": old}, (actor, None, ()), id) + gone

        call = lambda ledger, **key: ledger.supersede(old, text, **key)  # noqa: E731
        self.command(user, actor, key, ("supersede", old, text), call, decide)

    # --- changes -------------------------------------------------------------------------------------------------

    def ask(self, verb, user, id, actor, key, data, call):
        asked = (verb, id, *(data[name] for name in sorted(data)))
        self.command(user, actor, key, asked, call, lambda _: self.oracle.ask(verb, user, id, data))

    @rule(user=users, number=numbers, actor=actors, key=keys, fitting=st.booleans(),
          verb=st.sampled_from(("promote", "reject", "invalidate", "retract", "restore", "quarantine", "release")))  # fmt: skip
    def simple(self, user, number, actor, key, fitting, verb):
        statuses = {"promote": ("candidate",), "reject": ("candidate",), "restore": HIDDEN}.get(verb, OPEN)
        if (id := self.some(user, number, *(statuses if fitting else ()))) is not None:
            self.ask(verb, user, id, actor, key, {}, lambda ledger, **key: method(ledger, verb)(id, **key))

    @rule(
        user=users,
        number=numbers,
        actor=actors,
        other=actors,
        verb=st.sampled_from(("retract", "reject", "invalidate")),
    )
    def hide_and_restore(self, user, number, actor, other, verb):
        status = {"reject": "candidate", "invalidate": "active"}.get(verb)
        if (id := self.some(user, number, *([status] if status else OPEN))) is not None:
            self.ask(verb, user, id, actor, None, {}, lambda ledger, **key: method(ledger, verb)(id, **key))
            self.ask("restore", user, id, other, None, {}, lambda ledger, **key: ledger.restore(id, **key))

    @rule(user=users, number=numbers, actor=actors, key=keys, by=confidences, text=texts,
          verb=st.sampled_from(("reinforce", "adjust", "revise")))  # fmt: skip
    def change(self, user, number, actor, key, by, text, verb):
        turn = self.some(user, number, kind="i") if by else None
        more = {"source": turn} if turn is not None and verb == "reinforce" else {}
        if (id := self.some(user, number, "active")) is not None:
            data, given = {
                "reinforce": ({"delta": 20_000, "source": turn}, ()),
                "adjust": ({"confidence": by}, (by / 1_000_000,)),
                "revise": ({"content": text}, (text,)),
            }[verb]
            self.ask(
                verb, user, id, actor, key, data, lambda ledger, **key: method(ledger, verb)(id, *given, **more, **key)
            )

    @rule(user=users, number=numbers, actor=actors, key=keys, add=st.sets(st.sampled_from("abc")),
          remove=st.sets(st.sampled_from("abc")))  # fmt: skip
    def retag(self, user, number, actor, key, add, remove):
        add, remove = tuple(sorted(add)), tuple(sorted(remove))
        if (id := self.some(user, number)) is not None:
            call = lambda ledger, **key: ledger.memories.tag(id, add=add, remove=remove, **key)  # noqa: E731
            self.ask("retag", user, id, actor, key, {"add": add, "remove": remove}, call)

    @rule(user=users, number=numbers, actor=actors, key=keys, unset=st.sets(st.sampled_from("abc")),
          metadata=st.dictionaries(st.sampled_from("abc"), st.sampled_from((1, 1.0, True, None, "1"))))  # fmt: skip
    def describe(self, user, number, actor, key, metadata, unset):
        unset = tuple(sorted(unset))
        if (id := self.some(user, number)) is not None:
            call = lambda ledger, **key: ledger.memories.set_metadata(id, metadata, unset=unset, **key)  # noqa: E731
            asked = {"set": tuple(sorted((name, repr(value)) for name, value in metadata.items())), "unset": unset}
            self.ask("describe", user, id, actor, key, asked, call)

    @rule(user=users, number=numbers, actor=actors, key=keys, start=st.sampled_from((None, "2020-01-01T00:00:00.000000Z")),
          end=st.sampled_from((None, "2026-02-01T00:00:00.000000Z", "2031-01-01T00:00:00.000000Z")))  # fmt: skip
    def set_validity(self, user, number, actor, key, start, end):
        if (id := self.some(user, number)) is not None:
            call = lambda ledger, **key: ledger.memories.set_validity(id, valid_from=start, valid_to=end, **key)  # noqa: E731
            self.ask("set_validity", user, id, actor, key, {"start": start, "end": end}, call)

    @rule(user=users, number=numbers)
    def ask_for_anothers(self, user, number):
        """Ids of other users, and what does not exist, are not found, and nothing happens."""
        other = USERS[(USERS.index(user) + 1) % len(USERS)]
        id = self.some(other, number) or "m_0000000000000000"
        asker = self.ledger.bind(user=user)
        for call in (asker.promote, asker.reinforce, asker.retract):
            with pytest.raises(NotFoundError):
                call(id)
        assert absent(asker.memories.get, id)
        assert absent(asker.why, id)

    # --- interactions --------------------------------------------------------------------------------------------

    @rule(user=users, actor=actors, response=st.sampled_from(RESPONSES), project=projects, session=sessions, key=keys)
    def capture(self, user, actor, response, project, session, key):
        place, project = self.place(user, project)
        told = {"project": project, "session": session}
        self.command(
            user,
            actor,
            key,
            ("capture", response, project, session),
            lambda ledger, **key: ledger.capture("What?", response, **told, **key),
            lambda _: [CommandPart("turn", None, {"response": response, "project": place})],
        )

    @rule(user=users, actor=actors, number=numbers, response=st.sampled_from(RESPONSES[1:]), key=keys)
    def attach(self, user, actor, number, response, key):
        def decide(_):
            if self.oracle.turns(user)[id]["response"]:
                raise Refused("RejectedError", "transition")
            return [CommandPart("attach", id, {"response": response})]

        if (id := self.some(user, number, kind="i")) is not None:
            call = lambda ledger, **key: ledger.interactions.add_response(id, response, **key)  # noqa: E731
            self.command(user, actor, key, ("attach", id, response), call, decide)

    @rule(user=users, number=numbers)
    def extract(self, user, number):
        if (id := self.some(user, number, kind="i")) is not None:
            before = self.ledger.position
            self.ledger.bind(user=user, actor="extractor").extract(id)
            self.take_policies(user, before)
            position = self.ledger.position
            self.ledger.bind(user=user, actor="extractor").extract(id)
            assert self.ledger.position == position, "an interaction is extracted once"

    # --- the way back --------------------------------------------------------------------------------------------

    @rule(number=numbers)
    def undo(self, number):
        if standing := self.undoable():
            self.undo_command(standing[number % len(standing)])

    def undoable(self):
        """Return the commands in effect, without those that began a project.

        A project stands while other commands use it.
        """
        lasting = {part.number for part in self.oracle.parts if part.verb == "project"}
        return [number for number in self.oracle.in_effect() if number not in lasting]

    def undo_command(self, command):
        standing, out = self.oracle.in_effect(), self.oracle.out
        user = standing[command]
        falls = self.oracle.undo(command)
        expected = {part.number for part in falls if part not in out and not part.alone}
        with pytest.raises(NotFoundError):
            self.ledger.bind(user=USERS[(USERS.index(user) + 1) % len(USERS)]).undo(command)
        if expected - {command} - self.oracle.noes(Act(user, None, falls)):
            with pytest.raises(ConflictError):
                self.ledger.bind(user=user).undo(command)
        report = self.ledger.bind(user=user).undo(command, cascade=True)
        found = {self.seen[each] for each in report.commands}
        assert {each for each in found if each in standing} == expected
        self.oracle.take(report.command_id, Act(user, None, falls))

    @precondition(lambda self: self.oracle.noes())
    @rule(number=numbers)
    def undo_a_no(self, number):
        """Undo a refusal whose memory is gone: no other command falls with it, so no cascade is needed."""
        standing = sorted(self.oracle.noes())
        command = standing[number % len(standing)]
        falls = {part for part in self.oracle.parts if part.number == command}
        user = next(iter(falls)).user
        report = self.ledger.bind(user=user).undo(command)
        self.oracle.take(report.command_id, Act(user, None, falls))
        assert command not in self.oracle.noes()

    @precondition(lambda self: any(act.actor is None for act in self.oracle.acts.values()))
    @rule(number=numbers)
    def redo(self, number):
        undos = [id for id, act in self.oracle.acts.items() if act.actor is None]
        id = undos[number % len(undos)]
        self.put_back(id, lambda user: self.ledger.bind(user=user).redo(id))

    def put_back(self, id, call):
        user = self.oracle.acts[id].user
        if not self.oracle.fits_again(id):
            with pytest.raises(ConflictError):
                call(user)
            return
        call(user)
        self.oracle.give_back(id)

    @rule(user=users, actor=st.sampled_from(ACTORS[1:]))
    def distrust(self, user, actor):
        if self.oracle.distrusted(user, actor):
            return
        before, falls = self.oracle.memories(user), self.oracle.distrust(user, actor)
        report = self.ledger.bind(user=user).history.distrust(actor, kind="actor")
        self.oracle.take(report.command_id, Act(user, actor, falls))
        after = self.oracle.memories(user)
        assert {each for each in report.gone if each[0] == "m"} == {id for id in before if id not in after}

    @precondition(lambda self: any(act.actor is not None for act in self.oracle.acts.values()))
    @rule(number=numbers)
    def trust(self, number):
        distrusts = [id for id, act in self.oracle.acts.items() if act.actor is not None]
        id = distrusts[number % len(distrusts)]
        self.put_back(id, lambda user: self.ledger.bind(user=user).history.trust(id))

    @precondition(lambda self: self.batch is None and len({id for id in self.oracle.erased if id[0] == "m"}) < 2)
    @rule(user=users, number=numbers)
    def erase(self, user, number):
        id = self.some(user, number)
        if number % 4 == 0 and id is not None and id not in self.oracle.erased:
            assert self.ledger.bind(user=user).erase(id, **KEEP).state == "completed"
            self.oracle.erase(id)

    # --- the world -----------------------------------------------------------------------------------------------

    @rule(
        by=st.sampled_from(
            (timedelta(hours=-1), timedelta(days=3653), timedelta(), timedelta(days=45), timedelta(seconds=1))
        )
    )
    def the_clock_jumps(self, by):
        if self.time.year < 2100:
            self.time += by
            self.tick()

    @precondition(lambda self: self.batch is None)
    @rule()
    def reopen(self):
        digest = self.ledger.proof.digest()
        self.ledger.close()
        self.ledger = self.opened()
        assert self.ledger.proof.digest() == digest
        self.compare()

    @precondition(lambda self: self.batch is None)
    @rule()
    def rebuild(self):
        digest = self.ledger.proof.digest()
        assert probe.rebuild(self.ledger).digest == digest
        self.compare()

    @precondition(lambda self: self.batch is None)
    @rule(step=st.integers(1, 60))
    def a_rebuild_is_killed(self, step):
        store, left, digest = probe.store(self.ledger), [step], self.ledger.proof.digest()

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
            probe.rebuild(self.ledger)
        except Killed:
            pass
        finally:
            del store.transact, store.snapshot
        with store.transact() as transaction:  # the holder of a lease that it left behind would be dead
            transaction.connection.execute("DELETE FROM leases")
        assert self.ledger.proof.digest() == digest

    @precondition(lambda self: self.batch is None)
    @rule()
    def begin_a_batch(self):
        self.kept = (self.oracle.copy(), dict(self.seen), len(self.past))
        self.batch = self.ledger.batch()
        self.batch.__enter__()
        probe.batch(self.ledger).began = math.inf  # how long a step takes on this machine decides nothing

    @precondition(lambda self: self.batch is not None)
    @rule(user=users, text=texts, number=numbers, undoes=st.booleans())
    def the_batch_reaches_its_bound(self, user, text, number, undoes):
        """After 5 seconds (DESIGN 3) the next command commits what there is, and only the rest can be taken back."""
        self.kept = (self.oracle.copy(), dict(self.seen), len(self.past))
        probe.batch(self.ledger).began = -math.inf
        if undoes and self.undoable():
            self.undo(number)
        else:
            self.remember(user, text, None, None, 500_000, "", None, "knowledge", False, number, False)
        assert probe.batch(self.ledger).began > 0, "nothing was committed"
        probe.batch(self.ledger).began = math.inf

    @precondition(lambda self: self.batch is not None)
    @rule(fails=st.booleans())
    def end_the_batch(self, fails):
        batch, self.batch = self.batch, None
        if fails:
            error = ZeroDivisionError()
            with pytest.raises(ZeroDivisionError):
                batch.__exit__(ZeroDivisionError, error, None)
                raise error
            self.oracle, self.seen, known = self.kept
            del self.past[known:]
            self.tick()
        else:
            batch.__exit__(None, None, None)
        self.compare()

    @precondition(lambda self: self.batch is None)
    @rule(later=st.sampled_from((0, 0, 30, 50, 90)))
    def run_policies(self, later):
        self.the_clock_jumps(timedelta(days=later))
        before = self.ledger.position
        self.ledger.jobs.run(jobs=("reinforcement", "extraction"))
        for user in USERS:
            self.take_policies(user, before)
        states = {id: state for user in USERS for id, state in self.oracle.memories(user).items()}
        ends = {id: self.oracle.expires(id, state) for id, state in states.items()}
        before = self.ledger.position
        self.ledger.jobs.run(jobs=("expiry",))
        for user in USERS:
            self.take_policies(user, before)
        gone = {part.subject: part.verb for part in self.oracle.parts if part.number > before}
        must, may = ({id for id, each in ends.items() if each[which]} for which in (0, 1))
        assert must <= gone.keys() <= may, (self.oracle.now, [(id, states[id]) for id in gone.keys() ^ must])
        verbs = {"candidate": "reject", "active": "supersede"}
        assert gone == {id: verbs[states[id]["status"]] for id in gone}

    # --- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def compare(self):
        """Compare the memories and projects that the ledger lists with those of the oracle.

        Both are kept, so that a later rule can ask for them again as the past.
        """
        believed = {user: self.oracle.memories(user) for user in USERS}
        left = {user: [part for part in self.oracle.left if part.user == user] for user in USERS}
        self.compare_projects(lambda user: self.ledger.bind(user=user), left)
        for user, expected in believed.items():
            found = {
                memory.id: memory for memory in self.ledger.bind(user=user).memories.list(statuses=(), limit=1_000)
            }
            assert list(found)[::-1] == sorted(expected, key=self.oracle.rows.__getitem__)
            for id, memory in found.items():
                self.same(memory, expected[id])
        if self.batch is None and (not self.past or self.past[-1][0] != self.ledger.position):
            self.past.append((self.ledger.position, believed, left))

    @rule()
    def look_closer(self):
        for user in USERS:
            expected = self.oracle.memories(user)
            for id, state in expected.items():
                steps = self.ledger.bind(user=user).why(id).steps
                assert sum(round(step.delta * 1_000_000) for step in steps) == state["confidence"]
                assert [step.position for step in steps] == sorted(step.position for step in steps)
            for status in ("candidate", "active", "retracted"):
                ids = {id for id, state in expected.items() if state["status"] == status}
                assert {
                    memory.id for memory in self.ledger.bind(user=user).memories.list(statuses=(status,), limit=1_000)
                } == ids
            candidates = [id for id, state in expected.items() if state["status"] == "candidate"]
            waiting = {each.memory.id: each.contradicted_by for each in self.ledger.bind(user=user).review()}
            assert {id for id, turns in waiting.items() if turns} == self.oracle.contradicted(user)
            assert sorted(id for id, turns in waiting.items() if not turns) == sorted(candidates)
            self.look_into_projects(user, expected)
            turns = {turn.id: turn.response or "" for turn in self.ledger.bind(user=user).interactions.list(limit=500)}
            assert turns == {id: turn["response"] for id, turn in self.oracle.turns(user).items()}

    @rule(word=st.sampled_from(WORDS))
    def recall(self, word):
        for user in USERS:
            expected = {id for id, state in self.oracle.memories(user).items() if self.recalled(state, word)}
            assert {item.memory.id for item in self.ledger.bind(user=user).recall(word, limit=500).items} == expected

    @precondition(lambda self: self.past)
    @rule(number=numbers)
    def ask_for_the_past(self, number):
        place = number % len(self.past)
        self.look_back(slice(place, place + 1))

    def look_back(self, which):
        for position, believed, left in self.past[which]:
            self.compare_projects(lambda user, position=position: self.ledger.bind(user=user).at(position), left)
            for user, expected in believed.items():
                found = {
                    memory.id: memory
                    for memory in self.ledger.bind(user=user).at(position).memories.list(statuses=(), limit=1_000)
                }
                assert found.keys() == expected.keys()
                places = Places(left[user], self.oracle.erased)
                for id, memory in found.items():
                    self.same(memory, places.of(expected[id]) | (ERASED if id in self.oracle.erased else {}))

    def same(self, memory, state):
        state = state | {"project": state["called"]}
        names = ("kind", "status", "content", "project", "quarantined", "tags", "valid_from", "valid_to")
        names += ("superseded_by", "supersedes")
        if state["place"] in self.oracle.erased:  # which has no name any more
            state["project"] = memory.project
        metadata = tuple(sorted((name, repr(value)) for name, value in memory.metadata.items()))
        assert metadata == state["metadata"], (memory.id, metadata, state["metadata"])
        differ = {name: (getattr(memory, name), state[name]) for name in names if getattr(memory, name) != state[name]}
        assert not differ, f"(ledger, oracle) of {memory.id}: {differ}"
        assert (round(memory.confidence * 1_000_000), memory.reference_count) == (state["confidence"], state["count"])

    def recalled(self, state, word):
        now, words = self.oracle.now, (state["content"] or "").casefold().replace(".", " ").split()
        holds = state["valid_from"] <= now and (state["valid_to"] is None or now < state["valid_to"])
        return state["status"] == "active" and not state["quarantined"] and holds and word in words
