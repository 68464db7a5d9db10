"""A generator of the pages of the Python API (``ledger/docs/api*.md``) from signatures and docstrings.

The public surface is ``Ledger``, ``Session`` and every namespace that a property of these leads to.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger.aio.area import OpenedLedger  # noqa: E402
from ledger.api import Ledger, PastLedger  # noqa: E402
from ledger.cli import manual  # noqa: E402
from ledger.cli.derive import BY_HAND, KEYWORD, PLACE, SESSION, command_parameters, method_of, plain  # noqa: E402
from ledger.cli.docstrings import Doc, doc_of, fields_of, line  # noqa: E402
from ledger.cli.methods import AREAS, OF_A_SESSION, PANELS, SHORT, cli_name, of_area  # noqa: E402
from ledger.types import SHARED  # noqa: E402

DOCS = ROOT / "ledger" / "docs"


class Method(NamedTuple):
    """A public method or property: the words that reach it, and its documentation."""

    name: str
    value: Any
    doc: Doc
    parameters: tuple[inspect.Parameter, ...]  # empty for a property

    @property
    def is_property(self) -> bool:
        return isinstance(self.value, property)


@cache
def own_types() -> dict[str, type]:
    """Return the classes that the facades of the features define, by name."""
    types: dict[str, type] = {}
    for path in sorted((ROOT / "ledger").glob("*/**/api.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        types |= {
            name: member
            for name, member in vars(module).items()
            if getattr(member, "__module__", "") == module.__name__
        }
    return types


def surface() -> dict[str, type]:
    """Return every namespace by the words before its methods, such as "ledger", "ledger.memories" and "session.summaries"."""
    areas: dict[str, type] = {"ledger": Ledger}
    own = own_types()
    if "Session" in own:
        areas["session"] = own["Session"]
    for prefix, area in tuple(areas.items()):
        for name, value in _members(area):
            namespace = own.get(_returned(value)) if isinstance(value, property) else None
            if namespace is not None:
                areas[f"{prefix}.{name}"] = namespace
    return areas


def methods(area: type, prefix: str = "") -> Iterator[Method]:
    """Yield the public methods and properties of a namespace in source order.

    Properties that lead to namespaces are left out.
    """
    own = own_types()
    for name, value in _members(area):
        if isinstance(value, property):
            if _returned(value) not in own:
                yield Method(prefix + name, value, doc_of(value), ())
        else:
            parameters = inspect.signature(value).parameters.values()
            yield Method(
                prefix + name,
                value,
                doc_of(value),
                tuple(parameter for parameter in parameters if parameter.name not in _SELF),
            )


_SELF = ("self", "cls")


def _members(area: type) -> Iterator[tuple[str, Any]]:
    names: dict[str, None] = {}
    for part in reversed(area.__mro__):
        names |= {name: None for name in vars(part) if not name.startswith("_")}
    for name in names:
        raw = inspect.getattr_static(area, name)
        if isinstance(raw, property):
            yield name, raw
        elif isinstance(raw, classmethod | staticmethod):
            yield name, raw.__func__
        elif inspect.isfunction(raw):
            yield name, raw


def _returned(value: property) -> str:
    """Return the name of the class that a property returns, without the types that a generic class takes."""
    return str(getattr(value.fget, "__annotations__", {}).get("return")).partition("[")[0]


@cache
def known_calls() -> frozenset[str]:
    """Return every way in which a text may name a public method, such as ``trust``, ``history.trust`` and ``Ledger.open``."""
    calls: set[str] = set()
    for prefix, area in surface().items():
        for method in methods(area):
            words = [*prefix.split("."), method.name]
            calls |= {".".join(words[start:]) for start in range(len(words))}
            if prefix in ("ledger", "session"):
                calls |= {f"{prefix.title()}.{method.name}"}
    calls |= {f"{name}{call}" for name in ("", "ledger.", "AsyncLedger.") for call in vars(OpenedLedger)}
    return frozenset(calls)


# --- the pages -------------------------------------------------------------------------------------------------------

CONTENTS = (
    "# Python API",
    "",
    "Look up here what every call takes and gives, and the [calls of a ledger itself](#ledger). `ledger` is an open `Ledger`,",
    "`session` is `ledger.session(name)`.",
    "",
    "- **Who.** `Ledger.open` and `ledger.bind` say for which user every call works and who acts. A call for one user",
    "  cannot see, name or match what another user's agent remembers; another user's id is `NotFoundError`.",
    "  Use one file per tenant all the same.",
    "- **Lists** answer a `Page`: a sequence with `next`, the cursor of the following page, `all()`, which goes through",
    "  every page, and `to_dict()`, its items and cursor as data.",
    "- **`get`** raises `NotFoundError`. A filter that names something unknown gives an empty page.",
    "- **Answers** are frozen objects; `to_dict()` gives dictionaries, and a `repr` is one short line. Each call reads one",
    "  consistent snapshot.",
    "- **Asyncio.** [`AsyncLedger`](async.md) has the same calls, awaited.",
    "- **Retries.** The same `idempotency_key` with the same arguments gives the first answer, marked `replayed`,",
    "  and appends nothing.",
    "- **Nothing to do.** The answer of a write to a memory or project that found nothing to change is marked `absorbed`.",
)
COMMANDS = (
    "# Commands",
    "",
    "Look up here how each command is called; `memory-ledger COMMAND --help` explains its arguments and options.",
    "",
    "A command has the name of its Python method, and its options the names of the keywords: `ledger.memories.list(kinds=…)` is",
    "`memory-ledger memories list --kinds …`. What Python takes by its place is an argument. An option of several values is",
    "given again for each: `--tags work --tags travel`. See [the command line](command-line.md) for what all commands share.",
    "",
    "- Every command: `--db PATH`, `--user NAME`, `--json`, `--quiet` (`-q`).",
    "- Reads that the past has: `--as-of MOMENT`, `--valid-at TIME`. Lists: `--limit`, `--after`, `--all`.",
    "- Writes: `--actor`, `--client`, `--channel`, `--agent`, `--idempotency-key`, `--occurred-at`, `--correlation-id`,",
    "  `--causation-id`, `--expected`.",
    "",
    "## The verbs of a ledger",
    "",
)
PAGES = {
    "api-records": (
        "Records and conversations",
        "memories, turns, documents, values, observations, conflicts, merges, the graph, conversations and projects",
        (
            *("memories", "interactions", "documents", "values", "observations", "conflicts", "merges", "graph"),
            *("session", "session.summaries", "sessions", "projects"),
        ),
    ),
    "api-operations": (
        "History and operations",
        "audit, trust, erasures, holds, guards, learning, policy, jobs, vectors, proofs, maintenance and projections of your own",
        (
            *("history", "erasures", "holds", "guards", "learning", "policy"),
            *("jobs", "vectors", "proof", "maintenance", "projections"),
        ),
    ),
}


def pages() -> dict[str, str]:
    """Return every page of the API by the name of its file."""
    areas = surface()
    written = {f"{name}.md": _page(name, areas) for name in PAGES if _areas_of(name, areas)}
    written |= {"api.md": _contents(areas), "commands.md": _commands(), "llms.txt": _index()}
    return {name: text.replace("``", "`") for name, text in written.items()}


def _index() -> str:
    """Return the pages with their first sentences, for agents that read them."""
    rows = [
        "# memory-ledger",
        "",
        "> A memory for LLM agents that keeps its whole history: an event log in one SQLite file.",
        "",
    ]
    return "\n".join([*rows, *(f"- [{page.page}]({page.page}.md): {page.about}" for page in manual.pages())]) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], list[inspect.Parameter], str]]:
    """Yield every command for the page of all commands: its words, its own parameters, and a line about it."""
    for name in (name for names in PANELS.values() for name in names):
        method = method_of(name)
        yield (name,), list(command_parameters(method)), plain(method.doc.first)
    for name in (name for name in BY_HAND if not any(name in names for names in PANELS.values())):
        method = method_of(name)
        yield (name,), list(command_parameters(method)), plain(method.doc.first)
    for area in AREAS:
        for method in (method for method in of_area(area) if method.key not in SHORT):
            above = ("session", area) if area == "summaries" else (area,)
            own = list(command_parameters(method))
            yield (
                (*above, cli_name(method.name)),
                [SESSION[0], *own] if area in OF_A_SESSION else own,
                plain(method.doc.first),
            )


def usage(words: Sequence[str], own: Sequence[inspect.Parameter]) -> str:
    """Return the line that shows the usage of a command."""
    parts = ["memory-ledger", *words]
    for parameter in own:
        name = "NAME" if parameter.name == "session_name" else parameter.name.upper().replace("_", "-")
        if parameter.kind is PLACE:
            parts.append(name if parameter.default is parameter.empty else f"[{name}]")
    keywords = [parameter for parameter in own if parameter.kind is KEYWORD]
    parts += [
        f"--{cli_name(parameter.name)} {parameter.name.upper()}"
        for parameter in keywords
        if parameter.default is parameter.empty
    ]
    parts += [f"[--{cli_name(parameter.name)}]" for parameter in keywords if parameter.default is not parameter.empty]
    return " ".join(parts)


def _commands() -> str:
    """Return the page of every command with its usage and its own options."""
    rows = [*COMMANDS]
    heading = ""
    for words, own, about in commands():
        group = " ".join(words[:-1])
        if group != heading:
            heading = group
            rows += ["", f"## `{group}`", ""]
        rows.append(f"- `{usage(words, own)}`  ")
        rows.append(f"  {about}")
    return "\n".join(rows) + "\n"


def _contents(areas: dict[str, type]) -> str:
    own = [*_of_area("ledger", areas["ledger"])]
    rows = [*CONTENTS, "", "| page | calls |", "|---|---|", _row_of_calls("The ledger", "#ledger", own)]
    for name, (title, _, _) in PAGES.items():
        if not _areas_of(name, areas):
            continue
        calls = [method for prefix, area in _areas_of(name, areas) for method in _of_area(prefix, area)]
        rows.append(_row_of_calls(title, f"{name}.md", calls))
    rows += ["", "## Parameters that many calls share", "", "| parameter | meaning |", "|---|---|"]
    rows += [f"| `{name}` | {text} |" for name, text in SHARED.items()]
    options = [*fields_of("GroupOptions"), *fields_of("WriteOptions")]
    for title, prefix, fields in (
        ("The options of every write", "WriteOptions", options),
        ("Parameters of a policy", "PolicyChanges", [*fields_of("PolicyChanges")]),
    ):
        rows += ["", f"## {title}", "", f"`ledger.types.{prefix}`:", "", "| name | meaning |", "|---|---|"]
        rows += [f"| `{name}: {annotation.replace('|', 'or')}` | {text} |" for name, annotation, text in fields]
    rows += [
        "",
        "## Errors",
        "",
        "`from ledger import …`; each is a `LedgerError`.",
        "",
        "| error | raised when |",
        "|---|---|",
    ]
    rows += [f"| `{name}` | {doc.first} |" for name, doc in _errors()]
    past = sorted(name for name, _ in _members(PastLedger))
    rows += [
        "",
        "## The past",
        "",
        f"`ledger.at(moment)` is a `PastLedger`. It has {_listed(past)}; of a namespace the reads.",
        "",
        "## `ledger`",
        "",
        *(row for method in own for row in _entry(method)),
    ]
    return "\n".join(rows).rstrip() + "\n"


def _row_of_calls(title: str, target: str, calls: Sequence[Method]) -> str:
    return f"| [{title}]({target}) | {' · '.join(f'`{call.name}`' for call in calls)} |"


def _errors() -> Iterator[tuple[str, Doc]]:
    package = importlib.import_module("ledger")
    for name in package.__all__:
        if name.endswith("Error"):
            yield name, doc_of(getattr(package, name))


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _areas_of(page: str, areas: dict[str, type]) -> list[tuple[str, type]]:
    names = [
        name if name.startswith("session") and name != "sessions" else f"ledger.{name}".rstrip(".")
        for name in PAGES[page][2]
    ]
    return [(name, areas[name]) for name in names if name in areas]


def _of_area(prefix: str, area: type) -> Iterator[Method]:
    yield from methods(area, "" if prefix == "ledger" else prefix.removeprefix("ledger.") + ".")


def _page(name: str, areas: dict[str, type]) -> str:
    title, about, _ = PAGES[name]
    rows = [f"# Python API: {title[0].lower()}{title[1:]}", "", f"Look up here the calls that are about {about}."]
    rows += ["What many calls share is explained once in [Python API](api.md#parameters-that-many-calls-share).", ""]
    for prefix, area in _areas_of(name, areas):
        rows += [f"## `{prefix}`", "", line(doc_of(area).first), ""]
        for method in _of_area(prefix, area):
            rows += _entry(method)
    return "\n".join(rows).rstrip() + "\n"


def _entry(method: Method) -> list[str]:
    if method.is_property:
        return [f"### `{method.name}`", "", method.doc.first, ""]
    rows = [f"### `{method.name}({_signature(method)})`", "", f"→ `{_type(_answer(method))}`. {method.doc.first}"]
    if method.doc.rest:
        rows += ["", *(line(part) for part in method.doc.rest.split("\n\n"))]
    rows.append("")
    rows += [f"- `{name}: {_type(_annotation(method, name))}`: {text}" for name, text in method.doc.args.items()]
    rows += [f"- raises `{name}`: {text}" for name, text in method.doc.raises.items()]
    return [*rows, ""] if rows[-1] else rows


def _signature(method: Method) -> str:
    parts, starred = [], False
    for parameter in method.parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        name = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        default = parameter.default
        parts.append(name if default is parameter.empty else f"{name}={_default(default)}")
    return ", ".join(parts)


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return value.name
    return repr(value) if isinstance(value, str | int | float | tuple | None) and len(repr(value)) < 40 else "…"


def _annotation(method: Method, name: str) -> str:
    return next((str(parameter.annotation) for parameter in method.parameters if parameter.name == name), "")


def _answer(method: Method) -> str:
    return str(getattr(method.value, "__annotations__", {}).get("return", ""))


def _type(annotation: str) -> str:
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", annotation).replace("|", "or")


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    print(", ".join(f"{name}: {len(text):,} characters" for name, text in pages().items()))


if __name__ == "__main__":
    main()
