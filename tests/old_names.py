"""The names that the older tests call, on nothing but the public ``Ledger``: who asks is said per call, what is missing is None.

``call`` makes a method of one public one: where it is, and what its arguments are called there. What differs in more than
names is written out. The product knows nothing of these names, and new tests do not use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from typing import Any, get_args

from ledger import AmbiguousIdError, NotFoundError
from ledger import Ledger as Public
from ledger.types import EVERYTHING, Corpus, DocumentPath, Event, Project, SessionName, SessionPatterns

CAP = 1_000
PLURAL = {"kinds", "statuses", "tags", "sources", "among", "jobs", "trends"}
EVERYWHERE = {"key": "idempotency_key", "session_id": "session", "source": "sources", "edges": "relations"}


def told(given: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    """Arguments under the names that they have now."""
    names = EVERYWHERE | renamed
    return {names.get(name, name): value for name, value in given.items()}


def several(given: dict[str, Any]) -> dict[str, Any]:
    """One text where any number is taken now."""
    for name in PLURAL & given.keys():
        if isinstance(given[name], str):
            given[name] = () if given[name] == "all" else (given[name],)
    return given


def call(
    target: str,
    *names: str,
    who: tuple[str, ...] = ("user", "actor"),
    answer: Callable[[Any], Any] | None = None,
    absent: Any = NotFoundError,
    limit: int | None = -1,
    **renamed: str,
) -> Any:
    """A method: ``names`` are those of its positional arguments, ``absent`` is the answer where there is nothing, and ``limit``
    the old default of a listing (None for no bound; -1 where the method lists nothing)."""
    find = attrgetter(target)

    def method(self: Any, *args: Any, **given: Any) -> Any:
        found = find(self._for({name: given.pop(name, None) for name in who}))
        if len(args) > len(names):
            raise TypeError(f"{target} takes {len(names)} positional arguments, and got {len(args)}")
        given = dict(zip(names, args, strict=False)) | told(given, renamed)
        given = given if target == "erase" else several(given)  # whose ``sources`` is a choice
        try:
            if limit != -1:
                return listed(found, given, limit)
            result = found(**given)
        except AmbiguousIdError:
            raise
        except NotFoundError:
            if absent is NotFoundError:
                raise
            return absent() if callable(absent) else absent
        return answer(result) if answer is not None else result

    return method


def listed(listing: Any, given: dict[str, Any], default: int | None) -> list[Any]:
    """So many items as were asked for, through as many pages as that takes."""
    wanted = given.pop("limit", default)
    if wanted is not None and (not isinstance(wanted, int) or wanted <= CAP):
        return list(listing(limit=wanted, **given))
    return list(islice(listing(limit=CAP, **given).all(), wanted))


def got(target: str, *names: str, **more: Any) -> Any:
    """What is read by its id, None where it is not there."""
    return call(target, *names, who=("user",), absent=more.pop("absent", None), **more)


def of_lists(target: str, *names: str, limit: int | None = 50, **renamed: str) -> Any:
    return call(target, *names, who=("user",), limit=limit, **renamed)


def filed(target: str, *names: str, **more: Any) -> Any:
    """What is of the whole file, whoever asks."""
    return call(target, *names, who=more.pop("who", ()), **more)


class Reads:
    """What can be asked, of now and of a moment."""

    public: Any

    def _for(self, who: dict[str, Any]) -> Any:
        raise NotImplementedError

    _recall = got("recall", "query", absent=NotFoundError, k="limit", status="statuses")
    user_profile = got("profile")
    why = got("why", "id")
    memory = got("memories.get", "id")
    memories = of_lists("memories.list", limit=None, status="statuses", kind="kinds", tag="tags")
    confidence = got("memories.confidence", "id", answer=list, absent=list)
    review = of_lists("review", limit=500)
    interaction = got("interactions.get", "id")
    interactions = of_lists("interactions.list")
    document = got("documents.get", "id")
    documents = of_lists("documents.list", status="statuses", tag="tags")
    chunk = got("documents.get_chunk", "id")
    observation = got("observations.get", "id")
    observations = of_lists("observations.list", status="statuses", trend="trends")
    conflict = got("conflicts.get", "id")
    conflicts = of_lists("conflicts.list", "statuses", limit=None, status="statuses")
    merge_of = got("merges.get", "id")
    merges = of_lists("merges.list", "statuses", limit=None, status="statuses")
    project = got("projects.get", "name")
    projects = of_lists("projects.list", limit=None)
    project_context = got("projects.context", "project", absent=NotFoundError)
    sessions = of_lists("sessions.list")
    quarantined = of_lists("guards.quarantined")
    refusals = of_lists("guards.refusals")
    model_calls = of_lists("history.model_calls")
    history = call("history.events", "subject", who=("user",), limit=None, absent=None, id="subject")
    stats = got("maintenance.stats")
    digest = got("proof.digest")
    policy = got("policy.get", answer=lambda policy: policy.to_dict())

    def recall(self, query: str, *, among: Any = ("memories", "chunks"), unit: str = "chars", **by: Any) -> Any:
        return self._recall(query, among=get_args(Corpus) if among == "all" else among, unit=unit, **by)

    def graph(self, text: str, *, user: str | None = None, supplied_only: bool = False, **filters: Any) -> Any:
        return self._for({"user": user}).graph.neighbors(text, extracted=not supplied_only, **filters)

    def state(
        self, project: str, category: Any = None, name: str | None = None, *, history: bool = False, user: Any = None
    ) -> list[Any]:
        asked = self._for({"user": user}).projects
        try:
            return list(asked.state(project, category=category, name=name, history=history))
        except NotFoundError:
            return []

    def audit(
        self, *, user: str | None = None, before: int | None = None, limit: Any = 50, **filters: Any
    ) -> list[Any]:
        asked = self._for({"user": user}).history.audit
        if before is None:
            return listed(asked, told(filters, {}), limit)
        found = asked(limit=CAP, **told(filters, {})).all()
        return list(islice((each for each in found if each.position < before), limit))

    def distrusted(self, *, user: str | None = None) -> list[Any]:
        """Oldest first."""
        return list(self._for({"user": user}).history.distrusted(limit=CAP).all())[::-1]

    def session(self, id: str, *, project: str | None = None, user: str | None = None) -> Session:
        return Session(self._for({"user": user}), id, project)

    @property
    def path(self) -> str:
        return self.public.path

    @property
    def position(self) -> int:
        return self.public.position

    def __repr__(self) -> str:
        return repr(self.public)


class Past(Reads):
    """A ledger as it was known at a moment."""

    def __init__(self, ledger: Ledger, moment: Any, valid: Any = None) -> None:
        self._ledger, self._asked = ledger, (moment, valid)
        self.public = self._for({})
        self.as_of, self.valid = self.public.as_of, self.public.valid_at

    def _for(self, who: dict[str, Any]) -> Any:
        if who.get("user") is None and hasattr(self, "public"):
            return self.public
        moment, valid = self._asked
        return self._ledger._for(who).at(moment, valid_at=valid)


class Ledger(Reads):
    """One open file, whoever asks."""

    def __init__(self, public: Any) -> None:
        self.public = public
        self._bound: dict[Any, Any] = {}

    def _for(self, who: dict[str, Any]) -> Any:
        """The ledger of whoever asks: one for each, for they are many calls."""
        given = tuple(value for value in who.values())
        if given.count(None) == len(given):
            return self.public
        names = (*who, *given)
        try:
            return self._bound[names]
        except KeyError:
            return self._bound.setdefault(names, self.public.bind(**who))
        except TypeError:  # what cannot be a name
            return self.public.bind(**who)

    @classmethod
    def open(cls, path: Any, *, ignored_sessions: Any = (), stateless_sessions: Any = (), **given: Any) -> Ledger:
        sessions = SessionPatterns(tuple(ignored_sessions), tuple(stateless_sessions))
        renamed = {"after_capture": "jobs_after_capture"}
        return cls(
            Public.open(path, sessions=sessions, **{renamed.get(name, name): each for name, each in given.items()})
        )

    examine, import_log = staticmethod(Public.doctor), staticmethod(Public.import_log)
    recover = staticmethod(Public.recover)

    def close(self) -> None:
        self.public.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def batch(self) -> Iterator[Ledger]:
        with self.public.batch():
            yield self

    @property
    def id(self) -> str:
        return str(self.public.id)

    @property
    def redactions(self) -> Any:
        return self.public.guards.redactions

    def at(self, moment: Any, valid: Any = None) -> Past:
        return Past(self, moment, valid)

    # --- memories and turns

    capture = call("capture", "prompt", "response", response_summary="summary", context_pack="context")
    _attach = call("interactions.add_response", "id", "response", response_summary="summary")
    remember = call("remember", "content", "kind")
    propose = call("propose", "content", "kind")
    promote = call("promote", "id", "reason", note="reason")
    reject = call("reject", "id", "reason")
    revise = call("revise", "id", "content", "reason")
    supersede = call("supersede", "id", "content", "reason")
    invalidate = call("invalidate", "id", "reason")
    retract = call("retract", "id", "reason")
    restore = call("restore", "id", "reason")
    retag = call("memories.tag", "id", "add", "remove")
    describe = call("memories.set_metadata", "id", "metadata", "unset")
    set_validity = call("memories.set_validity", "id", "valid_from", "valid_to", "reason")
    adjust = call("memories.set_confidence", "id", "confidence", "reason")
    relate = call("graph.relate", "memory", "subject", "relation", "object")
    unrelate = call("graph.unrelate", "memory", "subject", "relation", "object", "reason")
    reopen = got("reopen", "receipt")
    extract = call("extract", "interaction", preview="dry_run", using="method", cancelled="cancel")
    consolidate = call("consolidate", "over", using="method")
    import_file = call("interactions.import_file", "path", who=("user", "actor", "client", "channel", "agent"))

    def attach_response(self, id: str, response: str = "", **by: Any) -> Any:
        return self._attach(id, response, **by)

    def reinforce(self, id: str, delta: float | None = None, *, user: Any = None, actor: Any = None, **by: Any) -> Any:
        asked, source = self._for({"user": user, "actor": actor}), by.pop("source", None)
        if isinstance(id, str) and id.startswith("i_"):
            return asked.interactions.reinforce(id, **told(by, {}))
        return asked.reinforce(id, amount=delta, source=source, **told(by, {}))

    # --- documents, observations, projects

    ingest = call("documents.add", "source", source="source", doc_type="type")
    remove_document = call("documents.remove", "id", "reason")
    restore_document = call("documents.restore", "id", "reason")
    observe = call("observations.add", "content", "sources", text="content", why="reason")
    withdraw_source = call("observations.withdraw", "sources", "reason", ids="sources")
    register_project = call("projects.add", "name", "description")
    add_alias = call("projects.add_alias", "project", "alias")
    set_state = call("projects.set_state", "project", "category", "name", "value", source="source")
    invalidate_state = call("projects.remove_state", "project", "category", "name", "reason")

    # --- conflicts and merges

    find_conflicts = call("conflicts.find")
    find_merges = call("merges.find")
    reject_merge = call("merges.reject", "id", "reason")
    _keep = call("conflicts.resolve", "id", "keep")
    _accept = call("conflicts.accept", "id")
    _apply = call("merges.apply", "proposal", "content", "reason")
    _combine = call("merges.combine", "memories", "content", "reason")

    def resolve(self, id: str, keep: Any = None, *, both: bool = False, **by: Any) -> Any:
        return self._accept(id, **by) if both else self._keep(id, keep, **by)

    def merge(self, memories: Any, *args: Any, **by: Any) -> Any:
        return (self._apply if isinstance(memories, str) else self._combine)(memories, *args, **by)

    # --- the way back

    redo = call("redo", "target", "reason")
    distrust = call("history.distrust", "origin", "reason", source="origin")
    trust = call("history.trust", "origin", source="origin")
    diff = got("history.diff", "start", "end", absent=NotFoundError)
    what_if = got("history.what_if", absent=NotFoundError)
    _undo = call("undo", "target", "reason")
    _undo_all = call("history.undo_all")

    def undo(self, target: Any = None, reason: str = "", **by: Any) -> Any:
        if by.get("session") is None and by.get("command") is None:
            by = {name: value for name, value in by.items() if name not in ("session", "command")}
            return self._undo(target, reason, **by)
        return self._undo_all(reason=reason, **by)

    # --- erasure

    erasures = filed("erasures.list", limit=None)
    finish_erasures = filed("erasures.finish", answer=list)
    certificates = filed("erasures.certificates", answer=list)
    holds = got("holds.list", answer=lambda page: list(page.all())[::-1])
    _erase = call("erase", "subject", "reason", sources="sources")
    _hold = call("holds.add", "subject", "reason")
    lift_hold = call("holds.remove", "hold", "reason")

    def erase(
        self, subject: Any = EVERYTHING, reason: str = "", *, fields: Any = (), spans: Any = (), **by: Any
    ) -> Any:
        if fields or spans or (isinstance(subject, int) and not isinstance(subject, bool)):
            return self._erase(Event(subject, fields, spans), reason, **by)
        return self._erase(_subject(subject, by), reason, **by)

    def hold(self, subject: Any = EVERYTHING, reason: str = "", **by: Any) -> Any:
        return self._hold(_subject(subject, by), reason, **by)

    # --- guards, policy, jobs, vectors

    quarantine = call("guards.quarantine", "subject", "reason")
    release = call("guards.release", "subject", "reason")
    rescan = filed("guards.scan")
    run_policies = filed("jobs.run", only="jobs", as_of="now")
    work = filed("jobs.work", only="jobs", stop="cancel")

    def adopt_policy(self, *, by: Any = None, **parameters: Any) -> dict[str, Any]:
        by = dict(by or {})
        if "extracted" in parameters:
            parameters["admit"] = {"candidate": "review", "active": "by_source"}.get(parameters.pop("extracted"), "?")
        asked = self._for({name: by.pop(name, None) for name in ("user", "actor")})
        return dict(asked.policy.set(**told(by, {}), **parameters).to_dict())

    def embed(self, *, drop: bool = False, model: Any = None, batch: int | None = None, **given: Any) -> Any:
        if drop:
            return self.public.vectors.remove(model)
        sized = {} if batch is None else {"batch_size": batch}
        return self.public.vectors.update(model=model, **sized, **given)

    # --- the file

    verify = filed("proof.verify")
    checkpoint = filed("proof.checkpoint", who=("actor",), sign="signing_key")
    prove = got("proof.prove", "position", absent=NotFoundError, state="include_state")
    rebuild = filed("maintenance.rebuild")
    doctor = filed("maintenance.doctor")
    backup = filed("maintenance.backup", "path")
    export_file = filed("maintenance.export_log", "path")


def _subject(given: Any, by: dict[str, Any]) -> Any:
    """What is meant, as one value."""
    for name, kind in (("project", Project), ("session", SessionName), ("document", DocumentPath)):
        if (named := by.pop(name, None)) is not None:
            assert given == EVERYTHING
            return kind(named)
    return given


class Session:
    """One conversation, of now or of a moment."""

    def __init__(self, asked: Any, name: str, project: str | None) -> None:
        self.public, self._sessions = asked.session(name, project=project), asked.sessions

    def _for(self, who: dict[str, Any]) -> Any:
        return self.public if who.get("actor") is None else self.public.bind(actor=who["actor"])

    id = property(attrgetter("public.id"))
    name = property(attrgetter("public.name"))
    user = property(attrgetter("public.user"))
    summary = property(attrgetter("public.abstract"))

    info = got("info")
    message = got("message", "position")
    assemble = got("window", "budget", absent=NotFoundError, record="receipt", budget_tokens="budget")
    reopen = got("reopen", "receipt")
    expand = got("expand", "ids", what="ids")
    dag = got("summaries.graph", everything="include_replaced")
    append = call("append", "role", "content", created_at="occurred_at")
    compact = call("compact", "budget", summarizer="summarizer")
    set_summary = call("set_abstract", "text", summary="text")
    seed_extraction = call("skip_extraction", "parent", "until", up_to="until")
    extract = call("extract", using="method", cancelled="cancel")
    reconcile = call("reconcile", "transcript")
    replace = call("replace", "messages")
    truncate = call("truncate", "keep", keep_last="keep")
    clear = call("clear")
    add_alias = call("add_alias", "alias")
    invalidate_summary = call("summaries.invalidate", "id", "reason")
    restore_summary = call("summaries.restore", "id", "reason")
    rebuild_summary = call("summaries.rewrite", "id", summarizer="summarizer")

    def grep(self, pattern: str, *, everywhere: bool = False, **asked: Any) -> Any:
        asked = told(asked, {"before": "until", "last": "since", "hidden": "include_hidden"})
        return (self._sessions if everywhere else self.public).grep(pattern, **asked)

    def messages(self, limit: int | None = None, *, before: int | None = None, hidden: bool = False) -> list[Any]:
        if limit is not None and before is None and 0 <= limit <= CAP:
            return list(self.public.messages(limit=limit, include_hidden=hidden))
        found = list(self.public.messages(limit=CAP, include_hidden=hidden).all())
        found = sorted((each for each in found if before is None or each.position < before), key=attrgetter("position"))
        return found if limit is None else found[max(0, len(found) - limit) :]

    def window(self) -> list[Any]:
        return list(self.public.items())

    def summaries(self, status: str = "") -> list[Any]:
        wanted: Iterable[Any] = (status,) if status else ()
        return list(self.public.summaries.list(statuses=wanted, limit=CAP).all())[::-1]

    def compact_until_under(self, budget: int, **given: Any) -> Any:
        return self.compact(budget, until_under=True, **given)
