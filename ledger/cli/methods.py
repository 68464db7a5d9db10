"""The methods of the library that are commands, with the properties that matter for a command line."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple, get_args, get_origin

from msgspec import Struct

from ledger.cli.docstrings import Doc, doc_of
from ledger.types import Page

OPTIONS = "options"  # the parameter of a command written by hand that has many options: a struct of them
AREAS = {  # the namespaces of a ledger with their classes
    "memories": "ledger.memories.api:Memories",
    "interactions": "ledger.interactions.api:Interactions",
    "documents": "ledger.documents.api:Documents",
    "values": "ledger.values.api:Values",
    "observations": "ledger.observations.api:Observations",
    "sessions": "ledger.sessions.api:Sessions",
    "session": "ledger.sessions.api:Session",
    "summaries": "ledger.sessions.api:Summaries",
    "projects": "ledger.projects.api:Projects",
    "conflicts": "ledger.review.api:Conflicts",
    "merges": "ledger.review.api:Merges",
    "graph": "ledger.graph.api:Relations",
    "history": "ledger.history.api:History",
    "policy": "ledger.policy.api:UserPolicy",
    "guards": "ledger.guards.api:Guards",
    "learning": "ledger.extraction.api:Learning",
    "jobs": "ledger.jobs.api:Jobs",
    "vectors": "ledger.vectors.api:Vectors",
    "erasures": "ledger.erasure.api:Erasures",
    "holds": "ledger.erasure.api:Holds",
    "proof": "ledger.proof.api:Proofs",
    "maintenance": "ledger.care.api:Maintenance",
    "projections": "ledger.projections.api:ProjectionsRead",
}
OF_A_SESSION = ("session", "summaries")  # the first argument of these commands is the name of a session
PANELS: dict[str, tuple[str, ...]] = {  # the commands outside the namespaces, grouped for the help
    "Record": ("add", "capture", "remember", "propose", "extract", "import"),
    "Change": (
        "promote", "reject", "revise", "supersede", "invalidate", "retract", "restore", "reinforce", "consolidate",
    ),
    "Look": ("context", "recall", "profile", "why", "review", "reopen", "query"),
    "Take back": ("undo", "redo", "erase"),
    "The file": ("doctor", "verify", "backup", "replay", "export", "export-log", "import-log", "recover"),
}  # fmt: skip
SHORT = {  # methods of a namespace whose commands have no namespace, because people look for them there
    ("maintenance", "backup"): "backup",
    ("maintenance", "export_log"): "export-log",
    ("proof", "verify"): "verify",
}
PROPERTIES = {("session", "abstract")}  # properties that are commands
NO_COMMANDS = {
    "open",
    "temporary",
    "close",
    "batch",
    "bind",
    "at",
    "session",
    "wait",
}  # methods that only a program needs
OF_THE_FILE = {("", "doctor"), ("", "import_log"), ("", "recover")}  # class methods, whose path is that of --db
SAME_AS_FLAT = {("maintenance", "doctor")}  # the same command exists without a namespace
OF_CLASSES = {("projections", "rows")}  # takes a class of the calling program, so it is no command
WRITE_WITHOUT_OPTIONS = {  # methods that write although they take no WriteOptions
    ("interactions", "import_file"), ("maintenance", "rebuild"), ("jobs", "run"), ("jobs", "work"), ("by hand", "import"),
    ("vectors", "update"), ("vectors", "remove"), ("guards", "scan"), ("erasures", "finish"), ("proof", "checkpoint"),
    ("learning", "unread"),
}  # fmt: skip
CREATE = {  # methods whose commands make the ledger file if it does not exist
    ("", "add"), ("", "capture"), ("", "remember"), ("", "propose"), ("interactions", "import_file"), ("documents", "add"),
    ("by hand", "import"), ("observations", "add"), ("projects", "add"), ("projects", "set_state"), ("policy", "set"),
    ("session", "append"), ("session", "reconcile"), ("session", "replace"), ("values", "put"),
}  # fmt: skip


class Method(NamedTuple):
    """A method of the library that is a command."""

    area: str  # "" for methods of the ledger itself
    name: str
    function: Callable[..., Any]
    of_the_past: bool  # the command takes --as-of

    @property
    def key(self) -> tuple[str, str]:
        return self.area, self.name

    @property
    def doc(self) -> Doc:
        return doc_of(self.function)

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters without ``self`` and ``call``; the fields of an options object in its place."""
        parameters = inspect.signature(self.function).parameters.values()
        chosen = [parameter for parameter in parameters if parameter.name not in ("self", "call")]
        return list(itertools.chain.from_iterable(map(self._expanded, chosen)))

    def _expanded(self, parameter: inspect.Parameter) -> list[inspect.Parameter]:
        kind = options_type(self.function) if parameter.name == OPTIONS else None
        if kind is None:
            return [parameter]
        fields = inspect.signature(kind).parameters.values()
        return [field.replace(annotation=kind.__annotations__[field.name]) for field in fields]

    @property
    def names(self) -> set[str]:
        return {parameter.name for parameter in self.parameters}

    @property
    def options(self) -> str | None:
        """Return the name of the typed dictionary that declares the ``**options``, or None."""
        last = self.parameters[-1:]
        if not last or last[0].kind is not inspect.Parameter.VAR_KEYWORD:
            return None
        return str(last[0].annotation).removeprefix("Unpack[").removesuffix("]")

    @property
    def writes(self) -> bool:
        return self.options is not None or self.key in WRITE_WITHOUT_OPTIONS

    @property
    def creates(self) -> bool:
        return self.key in CREATE

    @property
    def pages(self) -> bool:
        """Return True if the method returns a page of a listing."""
        return "after" in self.names

    @property
    def lists(self) -> bool:
        """Return True if the answer is a list of rows, which can be printed as CSV or JSON Lines."""
        return (self.pages and self.key != ("history", "follow")) or self.key == ("", "query")

    @property
    def columns(self) -> Sequence[str]:
        """Return the fields of the rows; empty for SQL, whose columns depend on the query."""
        annotation = eval(self.function.__annotations__["return"], inspect.unwrap(self.function).__globals__)
        row = get_args(annotation)[:1] if get_origin(annotation) is Page else ()
        return getattr(row[0], "__struct_encode_fields__", ("value",)) if row else ()

    @property
    def warns(self) -> bool:
        """Return True if the answer of a write is a memory, whose own warnings are printed."""
        return self.function.__annotations__.get("return") == "answers.Memory"

    @property
    def progresses(self) -> bool:
        return "progress" in self.names


def options_type(function: Callable[..., object]) -> type[Struct] | None:
    """Return the struct that a command written by hand takes as its ``options``, or None."""
    kind: object = vars(sys.modules[function.__module__]).get(str(function.__annotations__.get(OPTIONS)))
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None


def cli_name(name: str) -> str:
    return name.strip("_").replace("_", "-")


def of_ledger() -> Iterator[Method]:
    """Yield the methods of ``Ledger`` that are commands."""
    from ledger.api import Ledger

    for method in _methods("", Ledger):
        if method.name not in NO_COMMANDS:
            yield method


def of_area(area: str) -> Iterator[Method]:
    """Yield the methods of a namespace that are commands."""
    module, _, name = AREAS[area].partition(":")
    for method in _methods(area, getattr(import_module(module), name)):
        if method.key not in SAME_AS_FLAT | OF_CLASSES and not (area == "session" and method.name == "bind"):
            yield method


def method_named(area: str, name: str) -> Method:
    return next(method for method in (of_area(area) if area else of_ledger()) if method.name == name)


def _methods(area: str, owner: type) -> Iterator[Method]:
    """Yield the public methods of a class in the order of the source, those that read first."""
    seen = set[str]()
    for kind in reversed(owner.__mro__):
        of_the_past = kind.__name__.endswith("Read")
        for name in vars(kind):
            value = getattr(owner, name)
            if isinstance(value, property) and (area, name) in PROPERTIES:
                value = value.fget
            if name.startswith("_") or name in seen or not callable(value):
                continue
            seen.add(name)
            yield Method(area, name, value, of_the_past)
