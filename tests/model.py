"""What a ledger should say, as plain dicts: written from DESIGN §4 alone, so that it can disagree with the product.

The model keeps every event of every command. The state of a memory is the fold of its events in force, each time anew. It
knows nothing of matching or extraction: what these policies found is told to it as the events they recorded.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from ledger.domain.errors import Conflict, NotFound, Rejected

ONE = 1_000_000
HIDDEN = ("superseded", "invalid", "retracted")
OPEN = ("candidate", "active")

# Which status an event needs; what is not here needs only a memory.
NEEDS = {
    "promoted": ("candidate",),
    "rejected": ("candidate",),
    "reinforced": ("active",),
    "superseded": ("active",),
    "invalidated": ("active",),
    "retracted": OPEN,
    "restored": HIDDEN,
    "revised": OPEN,
}


@dataclass
class Event:
    position: int
    command: int  # the position of the command's first event
    type: str
    subject: str
    data: dict


@dataclass
class Outcome:
    subject: str
    appended: int
    absorbed: bool = False
    replayed: bool = False


@dataclass
class Model:
    events: list[Event] = field(default_factory=list)
    position: int = 1  # LedgerCreated
    out: set[int] = field(default_factory=set)
    undos: dict[str, set[int]] = field(default_factory=dict)  # command id of an undo -> positions it took out
    keys: dict[tuple[str, str], tuple] = field(default_factory=dict)
    key_at: dict[int, tuple[str, str]] = field(default_factory=dict)
    refusals: set[tuple] = field(default_factory=set)
    users: dict[str, str] = field(default_factory=dict)  # subject -> user
    names: dict[tuple[str, str], str] = field(default_factory=dict)  # registered name -> project
    labels: dict[str, str] = field(default_factory=dict)  # project -> its name as first given
    sessions: set[tuple[str, str]] = field(default_factory=set)
    interactions: dict[str, dict] = field(default_factory=dict)
    now: str = ""
    pending: list = field(default_factory=list)

    def copy(self) -> Model:
        return copy.deepcopy(self)

    # --- folding -------------------------------------------------------------------------------------------------

    def stream(self, subject, out=None):
        out = self.out if out is None else out
        return [event for event in self.events if event.subject == subject and event.position not in out]

    def memory(self, subject, out=None):
        """The memory as it stands, or None."""
        state = None
        for event in self.stream(subject, out):
            state = evolve(state, event)
        if state is not None:  # a subject stands where it first began, also when that first event is out of force
            state["row"] = self.stream(subject, set())[0].position
        return state

    def memories(self, user):
        """Subject -> state of one user's memories, oldest first."""
        subjects = [subject for subject, owner in self.users.items() if owner == user and subject.startswith("m_")]
        states = {subject: self.memory(subject) for subject in subjects}
        return {subject: state for subject, state in states.items() if state is not None}

    def illegal(self, out=None):
        """Events in force that make no sense on what is before them."""
        found = []
        for subject in {event.subject for event in self.events if event.subject.startswith("m_")}:
            state = None
            for event in self.stream(subject, out):
                if not admits(state, event):
                    found.append(event)
                state = evolve(state, event)
        for subject in {event.subject for event in self.events if event.subject.startswith("i_")}:
            events = self.stream(subject, out)  # what was evaluated or attached needs its interaction in force
            found += events if all(event.type != "turn" for event in events) else []
        return found

    def twin(self, user, kind, project, content, status, besides=None):
        said = normal(content)
        for subject, state in self.memories(user).items():
            same = (state["kind"], state["project"], normal(state["content"]), state["status"])
            if subject != besides and same == (kind, project, said, status):
                return subject
        return None

    def project(self, user, name):
        """The project that a name or an alias in force stands for."""
        if (user, form(name)) in self.names:
            return self.names[user, form(name)]
        for subject, owner in self.users.items():
            if owner == user and subject.startswith("p_"):
                aliases = {form(each.data["alias"]) for each in self.stream(subject) if each.type == "alias"}
                if form(name) in aliases:
                    return subject
        return None

    def state(self, project):
        """(category, key) -> value of the trusted state of a project."""
        return {each.data["place"]: each.data["value"] for each in self.stream(project) if each.type == "state"}

    def refusal(self, rule, verb, user, actor, arguments):
        """A refusal by a rule is recorded once for the same verb, text, actor and session."""
        if (rule, verb, user, actor, arguments) not in self.refusals:
            self.refusals.add((rule, verb, user, actor, arguments))
            self.position += 1
        return Rejected(rule, rule=rule)

    # --- commands ------------------------------------------------------------------------------------------------

    def run(self, verb, user, actor, arguments, body, key=None):
        """``body`` gives (subject, events, absorbed); a subject that begins here is None until the ledger has named it."""
        if key is not None and (known := self.keys.get((user, key))) and not known[3] & self.out:
            if known[:2] != (verb, arguments):
                raise Conflict("the key was used")
            return Outcome(known[2], 0, replayed=True)
        before = self.position
        try:
            subject, events, absorbed = body()
        except Rejected as error:
            raise self.refusal(error.rule, verb, user, actor, arguments) from None
        for event in events:
            self.position += 1
            event.position, event.command = self.position, before + 1
        bearer = [event for event in events if event.subject == subject]
        if key is not None and not bearer:
            self.position += 1  # CommandAnswered
        if key is not None:
            place = bearer[-1].position if bearer else self.position
            self.keys[user, key] = (verb, arguments, subject, {place}, before + 1)
            self.key_at[place] = (user, key)
        self.pending = [event for event in events if event.subject is None]
        self.events += [event for event in events if event.type != "named"]
        return Outcome(subject, self.position - before, absorbed=absorbed)

    def named(self, user, key, subject):
        """The ledger has named the subject that began with the last command."""
        for event in self.pending:
            event.subject = subject
        for event in self.events:
            if event.type == "superseded" and event.data["by"] is None:
                event.data["by"] = subject
        self.pending = []
        self.users.setdefault(subject, user)
        if key is not None and self.keys[user, key][2] is None:
            verb, arguments, _, *rest = self.keys[user, key]
            self.keys[user, key] = (verb, arguments, subject, *rest)

    def naming(self, user, project, session=None):
        """The events that register names not known yet, and the project's subject (its name until it has an id)."""
        events = []
        subject = None
        if project is not None:
            subject = self.project(user, project)
            if subject is None:
                subject = f"p_{user}/{form(project)}"
                self.names[user, form(project)] = subject
                self.users[subject] = user
                self.labels[subject] = project
                events.append(Event(0, 0, "named", "name", {}))
        if session is not None and (user, session) not in self.sessions:
            self.sessions.add((user, session))
            events.append(Event(0, 0, "named", "name", {}))
        return subject, events

    def capture_memory(self, user, kind, status, content, project, confidence, attempt, **more):
        """(subject, events, absorbed): a new memory, or the attempt absorbed into the one that says it already."""
        data = {"user": user, "kind": kind, "status": status, "content": content, "project": project}
        data |= {"confidence": confidence, "valid_from": self.now, "attempt": attempt} | more
        known = self.twin(user, kind, project, content, status)
        if known is None:
            return None, [Event(0, 0, "captured", None, data)], False
        done = attempt in self.memory(known)["attempts"]
        return known, [] if done else [Event(0, 0, "absorbed", known, data)], True

    def remember(self, user, content, *, kind, status, project, session, confidence, actor, key=None):
        def body():
            subject, events = self.naming(user, project, session)
            attempt = (actor, session, ())
            found, more, absorbed = self.capture_memory(user, kind, status, content, subject, confidence, attempt)
            return found, events + more, absorbed

        verb = "remember" if status == "active" else "propose"
        return self.run(verb, user, actor, (content, kind, project, session, confidence), body, key)

    def change(self, verb, user, actor, id, arguments, decide, key=None):
        """A command on one memory; ``decide`` gives (type, data) pairs for the state."""

        def body():
            state = self.memory(id) if self.users.get(id) == user else None
            if state is None:
                raise NotFound(id)
            return id, [Event(0, 0, type, id, data) for type, data in decide(state)], False

        return self.run(verb, user, actor, arguments, body, key)

    def simple(self, verb, user, actor, id, key=None):
        """promote, reject, invalidate, retract, restore, quarantine, release."""

        def decide(state):
            status = state["status"]
            if verb == "promote" and status == "candidate":
                self.refuse_twin(user, state, id, "active")
            if verb == "restore" and status in HIDDEN:
                self.refuse_twin(user, state, id, state["before"])
            event = {"promote": "promoted", "reject": "rejected", "invalidate": "invalidated", "retract": "retracted",
                     "restore": "restored", "quarantine": "quarantined", "release": "released"}[verb]  # fmt: skip
            already = {"promote": "active", "reject": "invalid", "invalidate": "invalid", "retract": "retracted"}
            allowed = {"promote": ("candidate",), "reject": ("candidate",), "invalidate": ("active",), "retract": OPEN,
                       "restore": HIDDEN, "quarantine": OPEN, "release": OPEN}[verb]  # fmt: skip
            if status == already.get(verb) or (verb == "restore" and status in OPEN):
                return []
            if status not in allowed:
                raise Rejected("transition", rule="transition")
            if verb in ("quarantine", "release") and state["quarantined"] == (verb == "quarantine"):
                return []
            return [(event, {})]

        arguments = (id, "", None) if verb == "promote" else (id, "")
        return self.change(verb, user, actor, id, arguments, decide, key)

    def refuse_twin(self, user, state, id, status, content=None):
        said = state["content"] if content is None else content
        if self.twin(user, state["kind"], state["project"], said, status, besides=id):
            raise Rejected("duplicate", rule="duplicate")

    def open_only(self, state, found):
        if state["status"] not in OPEN:
            raise Rejected("transition", rule="transition")
        return found

    def reinforce(self, user, actor, id, source=None, echo_of=(), key=None):
        def decide(state):
            if source is not None and source in state["counted"]:
                return []
            if state["status"] != "active":
                raise Rejected("transition", rule="transition")
            return [("reinforced", {"delta": 20_000, "source": source})]

        return self.change("reinforce", user, actor, id, (id, "amount", source), decide, key)

    def adjust(self, user, actor, id, confidence, key=None):
        def decide(state):
            same = confidence == state["confidence"]
            return self.open_only(state, [] if same else [("adjusted", {"confidence": confidence})])

        return self.change("adjust", user, actor, id, (id, "confidence", confidence), decide, key)

    def revise(self, user, actor, id, content, key=None):
        def decide(state):
            same = content == state["content"]
            if not same and state["status"] in OPEN:
                self.refuse_twin(user, state, id, state["status"], content)
            return self.open_only(state, [] if same else [("revised", {"content": content})])

        return self.change("revise", user, actor, id, (id, "content", content), decide, key)

    def retag(self, user, actor, id, add, remove, key=None):
        def decide(state):
            added = [tag for tag in add if tag not in state["tags"]]
            removed = [tag for tag in remove if tag in state["tags"] and tag not in add]
            return self.open_only(
                state, [("retagged", {"added": added, "removed": removed})] if added or removed else []
            )

        return self.change("retag", user, actor, id, (id, "tags", add, remove), decide, key)

    def set_validity(self, user, actor, id, start, end, key=None):
        def decide(state):
            begin = start or state["valid_from"]
            self.open_only(state, None)
            if end is not None and end <= begin:
                raise Rejected("validity", rule="validity")
            same = (begin, end) == (state["valid_from"], state["valid_to"])
            return [] if same else [("validity", {"valid_from": start, "valid_to": end})]

        return self.change("set_validity", user, actor, id, (id, "validity", start, end), decide, key)

    def supersede(self, user, actor, id, content, key=None):
        def body():
            old = self.memory(id) if self.users.get(id) == user else None
            if old is None:
                raise NotFound(id)
            if old["status"] != "active":
                raise Rejected("transition", rule="transition")
            if self.twin(user, old["kind"], old["project"], content, "active") == id:
                return id, [], False
            more = {"tags": old["tags"], "supersedes": id}
            given = (user, old["kind"], "active", content, old["project"], ONE, (actor, None, ()))
            subject, events, absorbed = self.capture_memory(*given, **more)
            superseded = Event(0, 0, "superseded", id, {"by": subject, "valid_to": self.now})
            return subject, [*events, superseded], absorbed

        return self.run("supersede", user, actor, (id, "supersede", content), body, key)

    def set_state(self, user, actor, project, place, value, key=None):
        def body():
            subject, events = self.naming(user, project)
            same = self.state(subject).get(place) == value
            data = {"place": place, "value": value}
            return subject, [*events, *([] if same else [Event(0, 0, "state", subject, data)])], False

        # A project begun here carries the key itself; a known one only when something is set.
        return self.run("set_state", user, actor, (project, place, value), body, key)

    def add_alias(self, user, actor, project, alias, key=None):
        def body():
            subject = self.project(user, project)
            if subject is None:
                raise NotFound(project)
            known = self.project(user, alias)
            if known not in (None, subject):
                raise Conflict(alias)
            return subject, [] if known == subject else [Event(0, 0, "alias", subject, {"alias": alias})], False

        return self.run("add_alias", user, actor, (project, alias), body, key)

    def capture(self, user, actor, prompt, response, project, session, used, key=None):
        def body():
            subject, events = self.naming(user, project, session)
            data = {"project": subject, "session": session, "prompt": prompt, "response": response, "used": used}
            return None, [*events, Event(0, 0, "turn", None, data)], False

        return self.run("capture", user, actor, (prompt, response, project, session, used), body, key)

    def attach(self, user, actor, id, response, key=None):
        def body():
            if self.users.get(id) != user or (turn := self.turn(id)) is None:
                raise NotFound(id)
            if turn["response"]:
                raise Rejected("transition", rule="transition")
            return id, [Event(0, 0, "attached", id, {"response": response})], False

        return self.run("attach_response", user, actor, (id, response), body, key)

    def turn(self, id):
        """An interaction as it stands, or None."""
        state = None
        for event in self.stream(id):
            if event.type == "turn":
                state = dict(event.data)
            elif event.type == "attached" and state is not None:
                state["response"] = event.data["response"]
        return state

    def recorded(self, events):
        """What a policy recorded: (position, first position of its command, subject, type, data) of each of its events."""
        for position, command, subject, type, data in events:
            self.position += 1
            assert position == self.position
            self.events.append(Event(position, command, type, subject, data))

    # --- the way back --------------------------------------------------------------------------------------------

    def positions_of(self, command):
        return {event.position for event in self.events if event.command == command} - self.out

    def undo(self, undo_id, commands):
        """These commands (the positions of their first events) are out of force."""
        fallen = {position for command in commands for position in self.positions_of(command)}
        # A key without an event of its own, a CommandAnswered, is taken out too.
        for *_, places, command in self.keys.values():
            fallen |= places if command in commands else set()
        self.out |= fallen
        self.undos[undo_id] = fallen
        self.position += 1

    def may_put_back(self, undo_id):
        """Whether what an undo took out still fits what happened since."""
        back = self.undos[undo_id]
        taken = {self.key_at[place] for place in back if place in self.key_at}
        again = any(not self.keys[each][3] & self.out and not self.keys[each][3] & back for each in taken)
        aliases = [event for event in self.events if event.position in back and event.type == "alias"]
        names = [(event, self.project(self.users[event.subject], event.data["alias"])) for event in aliases]
        taken_over = any(known not in (None, event.subject) for event, known in names)
        return not again and not taken_over and not self.illegal(self.out - back)

    def put_back(self, undo_id):
        self.out -= self.undos.pop(undo_id)
        self.position += 1


def normal(text):
    return " ".join(text.casefold().split())


def form(name):
    return " ".join(name.split()).casefold()


def admits(state, event):
    if state is None:
        return event.type in ("captured", "absorbed")
    if event.type == "validity" and event.data["valid_to"] is not None:
        return (event.data["valid_from"] or state["valid_from"]) < event.data["valid_to"]
    return event.type not in NEEDS or state["status"] in NEEDS[event.type]


def evolve(state, event):
    type, data = event.type, event.data
    if state is None:
        if type not in ("captured", "absorbed"):
            return None
        fresh = {"row": event.position, "count": 0, "quarantined": False, "before": None, "superseded_by": None}
        fresh |= {"supersedes": None, "tags": (), "valid_to": None, "until_before": None, "counted": frozenset()}
        fresh |= {name: value for name, value in data.items() if name != "attempt"}
        return fresh | {"attempts": frozenset([data["attempt"]] if type == "absorbed" else [])}
    state = dict(state)
    if type == "absorbed":
        state["attempts"] |= {data["attempt"]}
    elif type == "promoted":
        state["status"] = "active"
    elif type in ("rejected", "invalidated", "retracted", "superseded"):
        after = {"rejected": "invalid", "invalidated": "invalid"}.get(type, type)
        state |= {"before": state["status"], "status": after}
        if type == "superseded":
            ends = [end for end in (state["valid_to"], max(data["valid_to"], state["valid_from"])) if end is not None]
            state |= {"until_before": state["valid_to"], "valid_to": min(ends), "superseded_by": data["by"]}
    elif type == "restored":
        if state["status"] == "superseded":
            state |= {"valid_to": state["until_before"], "until_before": None}
        state |= {"status": state["before"], "before": None, "superseded_by": None}
    elif type == "reinforced":
        state |= {"confidence": min(ONE, state["confidence"] + data["delta"]), "count": state["count"] + 1}
        state["counted"] |= {data["source"]} - {None}
    elif type == "adjusted":
        state["confidence"] = data["confidence"]
    elif type == "revised":
        state["content"] = data["content"]
    elif type == "retagged":
        state["tags"] = tuple(tag for tag in (*state["tags"], *data["added"]) if tag not in data["removed"])
    elif type == "validity":
        state |= {"valid_from": data["valid_from"] or state["valid_from"], "valid_to": data["valid_to"]}
    elif type in ("quarantined", "released"):
        state["quarantined"] = type == "quarantined"
    return state
