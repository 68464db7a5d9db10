"""The answers of a ledger by plain rules on plain values. Imports nothing of the product, so that it can disagree with it.

The oracle keeps the commands as they were given, and what it is told of the answers: ids, and what policies recorded. To know
what is believed, it drops what is undone or distrusted and runs the rest again from nothing. What no longer makes sense then,
or stands on nothing, falls too: an undo takes whole commands along, a distrust parts of them.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from oracle_projects import Places

ONE = 1_000_000  # confidences are millionths
OPEN, HIDDEN = ("candidate", "active"), ("superseded", "invalid", "retracted")
NEEDS = {  # the statuses in which a request makes sense; the rest needs only that there is something
    "promote": ("candidate",), "reject": ("candidate",), "reinforce": ("active",), "supersede": ("active",),
    "invalidate": ("active",), "retract": OPEN, "restore": HIDDEN, "revise": OPEN,
}  # fmt: skip
ASKS = NEEDS | dict.fromkeys(("adjust", "retag", "describe", "set_validity", "quarantine", "release"), OPEN)
ALREADY = {"promote": ("active",), "reject": ("invalid",), "invalidate": ("invalid",), "retract": ("retracted",),
           "restore": OPEN}  # fmt: skip
NOES = ("reject", "invalidate", "retract")
BEGINS = ("say", "turn", "project")
SETTLES = ("promote", "restore", "adjust", "revise")  # after which a memory is as fresh as a new one
CANDIDATE_DAYS, FRESH_DAYS, KEPT_A_DAY, LEAST = 90, 30, 0.97, 300_000
BECOMES = {"reject": "invalid", "invalidate": "invalid", "retract": "retracted", "supersede": "superseded"}


class Refused(Exception):
    """The ledger must refuse too: ``kind`` is RejectedError, NotFoundError or ConflictError."""

    def __init__(self, kind: str, rule: str = "") -> None:
        super().__init__(kind, rule)
        self.kind, self.rule = kind, rule


@dataclass(eq=False)
class CommandPart:
    """The change that a command makes to one subject. Several parts are one command."""

    verb: str
    subject: str | None
    data: dict[str, Any]
    number: int = 0  # the position of the command's first event
    user: str = ""
    actor: str = ""
    time: str = ""

    @property
    def is_no(self) -> bool:
        """Return True if somebody turned a memory down; an end for lack of a decision says nothing of its text."""
        return self.verb in NOES and not self.data.get("idle")

    @property
    def alone(self) -> bool:
        """Return True if it falls without its command, as what a memory gained that a turn restates."""
        return bool(self.data.get("matched"))


@dataclass(eq=False)
class Act:
    """An undo, or the distrust of an actor, and the parts that it took."""

    user: str
    actor: str | None  # None for an undo
    parts: set[CommandPart]


@dataclass(eq=False)
class Key:
    user: str
    name: str
    asked: tuple[Any, ...]
    subject: str | None
    bearer: CommandPart
    lost: bool = False  # what was asked is not known any more


@dataclass
class Oracle:
    parts: list[CommandPart] = field(default_factory=list)
    acts: dict[str, Act] = field(default_factory=dict)  # those in effect, by the id of their command
    causes: dict[int, int] = field(default_factory=dict)  # command of a policy -> the command that it reacted to
    keys: list[Key] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # subject -> the first position that it ever had
    erased: set[str] = field(default_factory=set)
    touched: dict[str, list[str]] = field(default_factory=dict)  # subject -> when anything happened to it, void or not
    now: str = ""

    def copy(self) -> Oracle:
        return copy.deepcopy(self)

    # --- what is believed ----------------------------------------------------------------------------------------

    @property
    def out(self) -> set[CommandPart]:
        return {part for act in self.acts.values() for part in act.parts}

    def replay(self, out: Collection[CommandPart]) -> tuple[dict[str, dict[str, Any]], list[CommandPart]]:
        """Subject -> state, when all but some parts are run again; and the parts that make no sense then."""
        left = [part for part in self.parts if part not in out]
        there, numbers = standing(left), {part.number for part in left}
        world: dict[str, dict[str, Any]] = {}
        senseless = []
        for part in left:
            state = world.get(part.subject or "")
            caused = self.causes.get(part.number, part.number)
            if caused in numbers and fits(state, part, there):
                change(world, state, part)
            else:
                senseless.append(part)
        return world, senseless

    def world(self) -> dict[str, dict[str, Any]]:
        world, senseless = self.replay(self.out)
        assert not senseless, f"what is in effect makes no sense: {senseless}"
        return world

    @property
    def left(self) -> list[CommandPart]:
        """Return the parts that are in effect."""
        out = self.out
        return [part for part in self.parts if part not in out]

    def places(self, user: str) -> Places:
        """Return a user's projects, built from the commands in effect."""
        return Places([part for part in self.left if part.user == user], self.erased)

    def memories(self, user: str) -> dict[str, dict[str, Any]]:
        """One user's memories as they are to be read: ``project`` is the one that each is found under, ``place`` its own."""
        found, places = self.world().items(), self.places(user)
        states = {id: state for id, state in found if id[0] == "m" and self.owners[id] == user}
        return {id: places.of(state) | (ERASED if id in self.erased else {}) for id, state in states.items()}

    def turns(self, user: str) -> dict[str, dict[str, Any]]:
        found, places = self.world().items(), self.places(user)
        states = {id: state for id, state in found if id[0] == "i" and self.owners[id] == user}
        return {id: places.of(state) | ({"response": ""} if id in self.erased else {}) for id, state in states.items()}

    def same(self, user: str, wanted: dict[str, Any], besides: str | None = None) -> list[str]:
        """Return the ids of the memories that say the same as ``wanted``.

        Kind, project and status must be equal, and the text but for case and white space.
        """
        found, wanted = self.memories(user).items(), self.places(user).of(wanted)
        return [id for id, state in found if id != besides and meaning(state) == meaning(wanted)]

    def no_to(self, id: str) -> tuple[dict[str, Any], int] | None:
        """Return the last state of a memory that is gone and the command that turned it down, or None.

        Only a refusal that still holds counts: no act took the refusal and left the memory, and the actor who refused is
        not distrusted.
        """
        parts = [part for part in self.parts if part.subject == id]
        taking = [act for act in self.acts.values() if any(part.verb == "say" for part in parts if part in act.parts)]
        world: dict[str, dict[str, Any]] = {}
        number = 0
        for part in parts:
            acts = [act for act in self.acts.values() if part in act.parts]
            said = part.is_no or part.verb == "restore"
            if any(act not in taking for act in acts) or (said and any(act.actor == part.actor for act in acts)):
                continue
            if part.verb == "restore" and world[id]["status"] not in HIDDEN:
                continue  # what it took back was said by somebody who is distrusted
            change(world, world.get(id), part)
            number = (part.number if part.is_no else 0) if said else number
        return (world[id], number) if number and id not in self.erased and id not in self.world() else None

    def noes(self, *acts: Act) -> set[int]:
        """Return the commands that turned down memories that are gone, as if ``acts`` had been done too."""
        then = replace(self, acts=self.acts | {str(number): act for number, act in enumerate(acts)})
        return {found[1] for id in then.owners if (found := then.no_to(id)) is not None}

    def turned_down(self, user: str, wanted: dict[str, Any]) -> bool:
        """Return True if a no to this text outlives its memory: nobody said or promoted it since."""
        noes = [found for id, owner in self.owners.items() if owner == user and (found := self.no_to(id)) is not None]
        places = self.places(user)
        wanted = places.of(wanted)
        last = max(
            (number for state, number in noes if meaning(places.of(state), "") == meaning(wanted, "")), default=0
        )
        saying = {id for id, state in self.memories(user).items() if meaning(state, "") == meaning(wanted, "")}
        later = (part for part in self.parts if part.number > last and part.subject in saying and part not in self.out)
        since = (part for part in later if not part.actor.startswith("policy:"))
        return bool(last) and not any(part.verb == "promote" or part.data.get("status") == "active" for part in since)

    def contradicted(self, user: str) -> set[str]:
        """Return the active memories that a turn was found to deny and that no command decided about since."""
        out = self.out
        left = [part for part in self.parts if part not in out]
        turns = self.turns(user)
        found = {}
        for part in left:
            if part.verb == "deny" and part.subject in turns:
                for id in part.data["memories"]:
                    first = min(each.number for each in left if each.verb == "deny" and each.subject == part.subject
                                 and id in each.data["memories"])  # fmt: skip
                    found[id] = max(first, found.get(id, 0))
        states = self.memories(user)
        return {
            id
            for id, number in found.items()
            if id in states and states[id]["status"] == "active" and not states[id]["quarantined"]
            and not any(each.subject == id and each.number > number and not each.data.get("matched") for each in left)
        }  # fmt: skip

    def distrusted(self, user: str, actor: str) -> bool:
        return any((act.user, act.actor) == (user, actor) for act in self.acts.values())

    # --- what nobody looks at -----------------------------------------------------------------------------------

    def expires(self, id: str, state: dict[str, Any]) -> tuple[bool, bool]:
        """Tell if a memory must be given up by now, and if it may be: the clock may have gone back since it was touched.

        A candidate that nobody decided about, or an active one that nobody ever referred to and of whose confidence too little
        is left; but none that anything happened to lately, an undo or a redo included.
        """
        wait = CANDIDATE_DAYS if state["status"] == "candidate" else FRESH_DAYS
        touched = self.touched[id]
        must, may = (since(each, self.now) >= timedelta(wait) for each in (max(touched), touched[-1]))
        ends = state["status"] == "candidate" or self.has_faded(state)
        return must and ends, may and ends

    def has_faded(self, state: dict[str, Any]) -> bool:
        idle = since(state["fresh"], self.now)
        left = state["confidence"] * KEPT_A_DAY ** max(0, idle.days - FRESH_DAYS)
        return (
            state["status"] == "active" and not state["count"] and idle > timedelta(FRESH_DAYS) and round(left) < LEAST
        )

    # --- commands ------------------------------------------------------------------------------------------------

    def known(self, user: str, key: str | None, asked: tuple[Any, ...]) -> str | None:
        """Return the subject that a repeated key is answered with, or None for a new key.

        Raises:
            Refused: The key was used for another request.
        """
        for each in self.keys:
            if (each.user, each.name) == (user, key) and each.bearer not in self.out:
                if each.asked != asked and not (each.lost and each.asked[0] == asked[0]):
                    raise Refused("ConflictError")
                return each.subject
        return None

    def erase(self, id: str) -> None:
        """Erase a memory's text, and with it the requests of keys that could confirm a guess at the text.

        These are the keys of commands on the memory, and of commands that only answered with a memory derived from it.
        """
        self.erased.add(id)
        derived = self.derived(id)
        for key in self.keys:
            if key.subject == id or (key.bearer.verb == "answer" and key.subject in derived):
                key.lost = True

    def derived(self, id: str) -> set[str]:
        """Return the subjects that cite a memory, directly or through other subjects."""
        found: set[str] = set()
        waiting = {id}
        while waiting:
            at = waiting.pop()
            citing = {str(part.subject) for part in self.parts if at in self.sources(part)}
            waiting |= citing - found
            found |= citing
        return found

    @staticmethod
    def sources(part: CommandPart) -> tuple[str, ...]:
        """Return the sources that a memory's statement cites, be it the memory's first or a later one."""
        again = part.data.get("again")
        return tuple(again[2] if again is not None else part.data.get("sources", ()))

    def check_actor(self, user: str, actor: str, parts: list[CommandPart]) -> None:
        if parts and self.distrusted(user, actor):
            raise Refused("RejectedError", "trust")

    def remember(
        self, user: str, data: dict[str, Any], attempt: tuple[Any, ...], named: str | None = None
    ) -> list[CommandPart]:
        """Return the parts of a ``remember``: a new memory, or one more statement of a memory like it.

        Where several memories say the same, ``named`` chooses one. There are no parts if the statement was made before.
        """
        known = self.same(user, data)
        if not known:
            return [CommandPart("say", None, data)]
        id, out = named if named in known else known[0], self.out
        again = {"again": attempt}
        if any(part.subject == id and part.data.get("again") == attempt and part not in out for part in self.parts):
            return []
        return [CommandPart("say", id, data | again)]

    def ask(self, verb: str, user: str, id: str, data: dict[str, Any]) -> list[CommandPart]:
        """Return the parts of a request about one memory; none if the request would change nothing.

        Raises:
            Refused: The memory does not exist, or a rule forbids the request.
        """
        state = self.memories(user).get(id)
        if state is None:
            raise Refused("NotFoundError")
        if verb == "promote" and id in self.contradicted(user):  # kept: one more reason, that adds nothing
            return [CommandPart("reinforce", id, {"delta": 0, "source": None})]
        if state["status"] in ALREADY.get(verb, ()) or (verb == "reinforce" and data["source"] in state["counted"]):
            return []
        if state["status"] not in ASKS[verb]:
            raise Refused("RejectedError", "transition")
        if verb == "retag":  # what is so already is not asked for
            added = [each for each in data["add"] if each not in state["tags"]]
            data = {"add": added, "remove": [t for t in data["remove"] if t in state["tags"] and t not in data["add"]]}
        if verb == "describe":
            known = dict(state["metadata"])
            new = [each for each in data["set"] if each[0] not in data["unset"] and known.get(each[0]) != each[1]]
            data = {"set": tuple(new), "unset": tuple(each for each in data["unset"] if each in known)}
        after = state.copy()
        change({id: after}, after, CommandPart(verb, id, data, time=state["fresh"]))
        if verb == "set_validity" and is_empty(state, data):
            raise Refused("RejectedError", "validity")
        if after == state and verb not in ("reinforce", "supersede"):
            return []
        if verb in ("promote", "restore", "revise") and self.same(user, after, besides=id):
            raise Refused("RejectedError", "duplicate")
        return [CommandPart(verb, id, data)]

    def done(
        self,
        number: int,
        user: str,
        actor: str,
        subject: str | None,
        parts: list[CommandPart],
        key: tuple[str, tuple[Any, ...]] | None,
    ) -> None:
        """Record a command that was carried out; ``subject`` is the ledger's id of what began with it."""
        bearer = next((part for part in reversed(parts) if part.subject in (None, subject)), None)
        if key is not None and bearer is None:
            parts = [*parts, bearer := CommandPart("answer", None, {})]
        for part in parts:
            if part.verb != "answer":
                part.subject = part.subject or subject
                self.owners.setdefault(str(part.subject), user)
                self.rows.setdefault(str(part.subject), number)
            if part.verb == "supersede":
                part.data["by"] = subject
            part.number, part.user, part.actor, part.time = number, user, actor, self.now
        self.parts += parts
        self.touch(parts)
        if key is not None and bearer is not None:
            self.keys.append(Key(user, *key, subject, bearer))

    def touch(self, parts: Iterable[CommandPart]) -> None:
        for subject in {part.subject for part in parts if part.subject is not None}:
            self.touched.setdefault(subject, []).append(self.now)

    # --- the way back --------------------------------------------------------------------------------------------

    def take(self, id: str, act: Act) -> None:
        """Record an undo or a distrust, and what it took out of effect."""
        self.touch(act.parts - self.out)
        self.acts[id] = act

    def give_back(self, id: str) -> None:
        parts = self.acts.pop(id).parts
        self.touch(parts - self.out)

    def in_effect(self) -> dict[int, str]:
        """Return the commands that have at least one part in effect, each with its user."""
        out = self.out
        return {part.number: part.user for part in self.parts if part not in out}

    def undone(self) -> set[CommandPart]:
        return {part for act in self.acts.values() if act.actor is None for part in act.parts}

    def fall(self, first: Iterable[CommandPart], *, whole: bool) -> set[CommandPart]:
        """Return the parts that fall when the parts in ``first`` are taken out of effect.

        With ``whole``, commands fall as a whole, and nothing falls that was undone already. A part that is out of effect
        now falls too if it would have no subject or no sources, whatever is put back: a later redo must not bring it back.
        """
        before = self.undone() if whole else set()
        taken = {part.number for part in before if not part.alone}
        before = {part for part in before if part.number in taken}
        falls, size = set(first) - before, -1
        while size != len(falls):
            size = len(falls)
            found = self.replay(self.out | falls)[1]
            there = standing(part for part in self.parts if part not in falls)
            out = self.out
            found += [part for part in self.parts if part in out and part not in falls and not stands(part, there)]
            numbers = {part.number for part in found if whole and not part.alone}
            falls |= {part for part in self.parts if part.number in numbers} | set(found)
            falls -= before
        return falls

    def undo(self, number: int) -> set[CommandPart]:
        return self.fall((part for part in self.parts if part.number == number), whole=True)

    def distrust(self, user: str, actor: str) -> set[CommandPart]:
        by = (part for part in self.parts if (part.user, part.actor) == (user, actor) and part.verb != "answer")
        return self.fall(by, whole=False)

    def fits_again(self, act: str) -> bool:
        """Return True if what an act took fits what there is now, and no key of it was used again."""
        rest = {part for name, other in self.acts.items() if name != act for part in other.parts}
        back = self.acts[act].parts - rest
        names = {(each.user, each.name) for each in self.keys if each.bearer in back}
        again = any((each.user, each.name) in names and each.bearer not in self.out for each in self.keys)
        return not again and not self.replay(rest)[1] and self.places_fit(back, rest)

    def places_fit(self, back: Iterable[CommandPart], rest: Collection[CommandPart]) -> bool:
        """Return True if names that come back are free, and projects that are joined again stand by themselves."""
        before = {*back, *rest}
        return all(
            Places([each for each in self.parts if each.user == part.user and each not in before], self.erased).takes(
                part
            )
            for part in back
        )


ERASED = {"status": "erased", "content": None, "tags": (), "metadata": ()}


def meaning(state: dict[str, Any], status: str | None = None) -> tuple[Any, ...]:
    said = " ".join((state["content"] or "").casefold().split())
    return state["kind"], state["project"], state["status"] if status is None else status, said


def standing(parts: Iterable[CommandPart]) -> dict[str, int]:
    """Return the subjects that exist, each with the position where it begins.

    A subject begins without sources, or by citing a subject that exists.
    """
    beginning = [part for part in parts if part.verb in BEGINS and part.subject is not None]
    there: dict[str, int] = {}
    before: dict[str, int] | None = None
    while there != before:
        before = there.copy()
        for part in beginning:
            sources = part.data.get("sources", ())
            if not sources or not there.keys().isdisjoint(sources):
                there[str(part.subject)] = min(part.number, there.get(str(part.subject), part.number))
    return there


def stands(part: CommandPart, there: Mapping[str, int]) -> bool:
    """Return True if a part's subject has begun by then, and what it cites or names is there."""
    if part.verb == "answer":
        return True
    if part.subject not in there or part.number < there[part.subject]:
        return False
    sources = part.data.get("sources") or [each for each in (part.data.get("source"), part.data.get("by")) if each]
    return not sources or any(each in there for each in sources)


def fits(state: dict[str, Any] | None, part: CommandPart, there: Mapping[str, int]) -> bool:
    if not stands(part, there):
        return False
    if part.verb in (*BEGINS, "answer"):
        return True
    if state is not None and part.verb == "set_validity" and is_empty(state, part.data):
        return False
    fitting = (*NEEDS.get(part.verb, (*OPEN, *HIDDEN)), *ALREADY.get(part.verb, ()))
    return state is not None and ("status" not in state or state["status"] in fitting)


def since(start: str, end: str) -> timedelta:
    return datetime.fromisoformat(end) - datetime.fromisoformat(start)


def is_empty(state: dict[str, Any], data: dict[str, Any]) -> bool:
    return data["end"] is not None and bool(data["end"] <= (data["start"] or state["valid_from"]))


def change(world: dict[str, dict[str, Any]], state: dict[str, Any] | None, part: CommandPart) -> None:
    """Run one part on the state of its subject.

    A memory that is hidden keeps its former status and end of validity, for the time when it is restored.
    """
    verb, data = part.verb, part.data
    if part.subject is None or (state is None and verb not in BEGINS):
        return
    if verb in SETTLES and state is not None:
        state["fresh"] = part.time
    if state is None and verb in ("turn", "project"):
        world[part.subject] = dict(data)
    elif state is None:
        fresh: dict[str, Any] = {
            "count": 0,
            "quarantined": False,
            "tags": (),
            "metadata": (),
            "valid_to": None,
            "counted": (),
        }
        fresh |= {"superseded_by": None, "supersedes": None, "fresh": part.time}
        world[part.subject] = fresh | {name: value for name, value in data.items() if name != "again"}
    elif verb == "attach":
        state["response"] = data["response"]
    elif verb in ALREADY and state["status"] in ALREADY[verb]:
        pass
    elif verb == "promote":
        state["status"] = "active"
    elif verb in BECOMES:
        state["was"] = (state["status"], state["valid_to"])
        state["status"] = BECOMES[verb]
        if verb == "supersede":
            ends = [each for each in (state["valid_to"], max(data["at"], state["valid_from"])) if each is not None]
            state |= {"valid_to": min(ends), "superseded_by": data["by"]}
    elif verb == "restore":
        status, valid_to = state["was"]
        if state["status"] == "superseded":
            state |= {"valid_to": valid_to, "superseded_by": None}
        state["status"] = status
    elif verb == "reinforce":
        state["confidence"] = min(ONE, state["confidence"] + data["delta"])
        state["count"] += 1
        state["counted"] = (*state["counted"], *([data["source"]] if data["source"] else []))
    elif verb == "adjust":
        state["confidence"] = data["confidence"]
    elif verb == "revise":
        state["content"] = data["content"]
    elif verb == "retag":
        tags = dict.fromkeys((*state["tags"], *data["add"]))
        state["tags"] = tuple(each for each in tags if each not in data["remove"])
    elif verb == "describe":
        pairs = dict(state["metadata"]) | dict(data["set"])
        state["metadata"] = tuple(sorted((name, value) for name, value in pairs.items() if name not in data["unset"]))
    elif verb == "set_validity":
        state |= {"valid_from": data["start"] or state["valid_from"], "valid_to": data["end"]}
    elif verb in ("quarantine", "release"):
        state["quarantined"] = verb == "quarantine"
