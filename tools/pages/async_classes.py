"""A generator of the classes behind ``AsyncLedger`` (``ledger/aio/ledger.py``, ``areas.py``, ``sessions.py``).

It reads the syntax trees of the plain classes, so that parameters, defaults and types are the same.

python tools/pages/async_classes.py            writes the files
python tools/pages/async_classes.py --check    exit code 1 if a file is not current
"""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

AIO = ROOT / "ledger" / "aio"
FILES = {  # file -> its modules, and its first sentence
    "sessions": (("ledger.sessions.api",), "A session and the sessions of a user, with calls that are awaited."),
    "areas": (
        (
            *(
                "ledger.memories.api",
                "ledger.interactions.api",
                "ledger.documents.api",
                "ledger.values.api",
                "ledger.projects.api",
            ),
            *("ledger.observations.api", "ledger.review.api", "ledger.graph.api"),
            *("ledger.history.api", "ledger.erasure.api", "ledger.guards.api", "ledger.policy.api", "ledger.jobs.api"),
            *("ledger.vectors.api", "ledger.proof.api", "ledger.projections.api", "ledger.care.api"),
        ),
        "The namespaces of an ``AsyncLedger``, with calls that are awaited.",
    ),
    "ledger": (
        ("ledger.api",),
        "``AsyncLedger`` and ``AsyncPastLedger``: the plain ledger, with calls that are awaited.",
    ),
}
BASES = {"Area": "AsyncArea", "Ledger": "OpenedLedger, AsyncLedgerRead"}
KEPT = {"path", "id of Ledger", "name", "user", "as_of", "valid_at", "redactions"}  # properties that read no file
BY_HAND = {"batch", "close"}  # in ledger/aio/area.py
AT_ONCE = {"bind", "session"}  # these return an object and read no file
WAITING = {"wait"}  # these may wait for as long as they like
NOT_MADE = {"group_commit"}  # parameters that are always on
BOUND = '''
@shown_as(AsyncLedger)
class AsyncBoundLedger(AsyncLedger):
    """The same file for another user or actor. Closing it is left to the code that opened the file."""

    __slots__ = ()

    async def aclose(self) -> None:
        """Do nothing: the code that opened the ledger closes it."""
'''
WIDTH, PROSE_WIDTH = 120, 130  # of code, and of a docstring on one line


class Plain(NamedTuple):
    """A plain class, with the module that defines it."""

    node: ast.ClassDef
    module: str

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def base(self) -> str:
        """Return the name of the base class; "Area" if there is none."""
        return self.node.bases[0].id if self.node.bases and isinstance(self.node.bases[0], ast.Name) else "Area"

    @property
    def functions(self) -> Iterator[ast.FunctionDef]:
        return (
            member
            for member in self.node.body
            if isinstance(member, ast.FunctionDef) and member.name[0] != "_" and member.name not in BY_HAND
        )


# --- the plain classes -----------------------------------------------------------------------------------------------


def plain_classes() -> dict[str, Plain]:
    """Return every class that the generator makes a counterpart of, by name."""
    classes: dict[str, Plain] = {}
    for modules, _ in FILES.values():
        for module in modules:
            for node in ast.parse(_path(module).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and node.name not in ("BoundLedger",):
                    classes[node.name] = Plain(node, module)
    return classes


def _path(module: str) -> Path:
    return ROOT / Path(*module.split(".")).with_suffix(".py")


class Names:
    """The names of one module: the modules from which they are imported, and the types that it defines itself."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.live: ModuleType = importlib.import_module(module)
        self.imported: dict[str, tuple[str, str]] = {}
        self.aliases: dict[str, ast.expr] = {}
        for node in ast.walk(ast.parse(_path(module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.aliases.setdefault(node.targets[0].id, node.value)


class Types(ast.NodeTransformer):
    """The annotations of one module as the generated file writes them, and the imports that they need."""

    def __init__(self, names: Names, classes: dict[str, Plain], imports: dict[str, set[str]]) -> None:
        self._names, self._classes, self._imports = names, classes, imports

    def text(self, annotation: ast.expr) -> str:
        return ast.unparse(self.visit(_expression(ast.unparse(annotation))))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Turn ``answers.Memory`` into ``Memory``."""
        assert isinstance(node.value, ast.Name)
        if node.value.id == "os":
            self._imports.setdefault("", set()).add("os")
            return node
        home, name = self._names.imported[node.value.id]
        return self._named(f"{home}.{name}", node.attr)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name == "PastLedger":  # a type variable of the history
            return self._named("ledger.api", name)
        if name in self._names.imported:
            return self._named(*self._names.imported[name])
        if name in self._names.aliases:
            alias: ast.expr = self.visit(_expression(ast.unparse(self._names.aliases[name])))
            return alias
        if name in self._classes:
            return self._named(self._classes[name].module, name)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node

    def _named(self, home: str, name: str) -> ast.Name:
        found = getattr(importlib.import_module(home), name, None)
        if isinstance(found, type) and found.__module__.split(".")[0] in ("ledger", "projections"):
            home = found.__module__
        self._imports.setdefault(home, set()).add(name)
        return ast.Name(name)


# --- one method ------------------------------------------------------------------------------------------------------


class Maker:
    """The writer of the counterparts of the classes of one module."""

    def __init__(self, module: str, classes: dict[str, Plain], imports: dict[str, set[str]]) -> None:
        self._names, self._classes = Names(module), classes
        self._types = Types(self._names, classes, imports)
        self._imports = imports

    def made(self, plain: Plain) -> str:
        """Return the source of the counterpart of a class."""
        text = self._types.text(_expression("History[PastLedger]" if plain.name == "History" else plain.name))
        base = BASES.get(plain.name) or BASES.get(plain.base) or f"Async{plain.base}"
        lines = [
            f"class Async{plain.name}({base}):",
            f'    """{_sentence(plain.node)}"""',
            "",
            "    __slots__ = ()",
            "",
        ]
        lines += [f"    _sync: {text}"]
        for function in plain.functions:
            lines += ["", *self._method(plain, function)]
        return "\n".join(lines)

    def _method(self, plain: Plain, function: ast.FunctionDef) -> list[str]:
        decorators = {node.id for node in function.decorator_list if isinstance(node, ast.Name)}
        assert function.returns is not None
        if "property" in decorators:
            return self._property(plain, function)
        shown, passed = self._parameters(function, 0 if "staticmethod" in decorators else 1)
        if "classmethod" in decorators:
            return self._class_method(function, shown, passed)
        returns, call = function.returns, f"self._sync.{function.name}({passed})"
        kind = returns.value if isinstance(returns, ast.Subscript) else returns
        made = ast.unparse(kind)
        if made in self._classes:
            name = {"Ledger": "AsyncBoundLedger"}.get(made, f"Async{made}")
            if function.name in AT_ONCE:
                return _written(
                    f"def {function.name}", shown, f"Async{made}", function, f"{name}({call}, self._threads)"
                )
            body = f"{name}(await self._read(lambda: {call}), self._threads)"
            return _written(f"async def {function.name}", shown, f"Async{made}", function, body)
        if made == "Iterator":
            self._imports.setdefault("collections.abc", set()).add("AsyncIterator")
            answer = f"AsyncIterator[{self._types.text(returns.slice)}]"  # type: ignore[attr-defined]
            body = f"self._iterate(lambda stop: {call.replace('cancel=cancel', 'cancel=stop')}, cancel)"
            return _written(f"def {function.name}", shown, answer, function, body)
        if function.name in WAITING:
            body = f"await self._wait(lambda stop: {call.replace('cancel=cancel', 'cancel=stop')}, cancel)"
            return _written(f"async def {function.name}", shown, self._types.text(returns), function, body)
        body = f"await self.{_way(plain, function)}(lambda: {call})"
        if made in ("Page", "Hits"):
            answer = f"AsyncPage[{self._types.text(returns.slice)}]" if made == "Page" else "AsyncHits"  # type: ignore[attr-defined]
            self._imports.setdefault("ledger.aio.pages", set()).add(answer.partition("[")[0])
            return _written(f"async def {function.name}", shown, answer, function, f"self._{made.lower()}({body})")
        return _written(f"async def {function.name}", shown, self._types.text(returns), function, body)

    def _property(self, plain: Plain, function: ast.FunctionDef) -> list[str]:
        assert function.returns is not None
        name, returned = function.name, ast.unparse(function.returns).partition("[")[0]
        if returned in self._classes:
            body = f"Async{returned}(self._sync.{name}, self._threads)"
            return ["    @property", *_written(f"def {name}", [], f"Async{returned}", function, body)]
        answer = self._types.text(function.returns)
        if name in KEPT or f"{name} of {plain.name}" in KEPT:
            return ["    @property", *_written(f"def {name}", [], answer, function, f"self._sync.{name}")]
        return _written(f"async def {name}", [], answer, function, f"await self._read(lambda: self._sync.{name})")

    def _class_method(self, function: ast.FunctionDef, shown: list[str], passed: str) -> list[str]:
        assert function.returns is not None
        answer = self._types.text(function.returns)
        if answer == "Self":
            self._imports.setdefault("typing", set()).add("Self")
            self._imports.setdefault("ledger.aio.area", set()).add("Opening")
            body = f'cls._opened("{function.name}", lambda plain: plain.{function.name}({passed}, group_commit=True))'
            return [
                "    @classmethod",
                *_written(f"def {function.name}", shown, "Opening[Self]", function, body, "cls"),
            ]
        body = f"await cls._apart(lambda plain: plain.{function.name}({passed}))"
        return ["    @classmethod", *_written(f"async def {function.name}", shown, answer, function, body, "cls")]

    def _parameters(self, function: ast.FunctionDef, start: int) -> tuple[list[str], str]:
        """Return the parameters after ``self`` or ``cls``, each as it is written, and the arguments that pass them on."""
        arguments = function.args
        shown, passed = list[str](), list[str]()
        places = arguments.args[start:]
        defaults: list[ast.expr | None] = [None] * (len(places) - len(arguments.defaults)) + [*arguments.defaults]
        for place, default in zip(places, defaults, strict=True):
            shown.append(self._parameter(place, default))
            passed.append(place.arg)
        if arguments.vararg is not None:
            shown.append("*" + self._parameter(arguments.vararg, None))
            passed.append("*" + arguments.vararg.arg)
        elif arguments.kwonlyargs:
            shown.append("*")
        for named, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if named.arg not in NOT_MADE:
                shown.append(self._parameter(named, default))
                passed.append(f"{named.arg}={named.arg}")
        if arguments.kwarg is not None:
            shown.append("**" + self._parameter(arguments.kwarg, None))
            passed.append("**" + arguments.kwarg.arg)
        return shown, ", ".join(passed)

    def _parameter(self, argument: ast.arg, default: ast.expr | None) -> str:
        assert argument.annotation is not None
        text = f"{argument.arg}: {self._types.text(argument.annotation)}"
        return text if default is None else f"{text} = {self._default(default)}"

    def _default(self, default: ast.expr) -> str:
        """Return a default as a literal; an object such as ``SessionPatterns()`` is written as it stands."""
        if isinstance(default, ast.Call):
            name = ast.unparse(default.func)
            self._imports.setdefault(f"!{self._names.imported[name][0]}", set()).add(name)
            return f"{name}()  # noqa: B008 - a named tuple"
        value = eval(ast.unparse(default), dict(vars(self._names.live)))
        if isinstance(default, ast.Name) and not isinstance(value, int | float | str | tuple):
            self._imports.setdefault(f"!{self._names.imported[default.id][0]}", set()).add(default.id)
            return default.id
        if isinstance(value, str):
            return '"' + value + '"'
        return ast.unparse(ast.Constant(value)) if not isinstance(value, tuple) else _tuple(value)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _tuple(values: tuple[str, ...]) -> str:
    inner = ", ".join(f'"{value}"' for value in values)
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def _way(plain: Plain, function: ast.FunctionDef) -> str:
    """Return the way of a call: a read, one command that decides without a plan, or work that may take long."""
    if plain.name.endswith("Read") or plain.name == "PastLedger":
        return "_read"
    last = function.body[-1]
    call = last.value if isinstance(last, ast.Return) else None
    if isinstance(call, ast.Call) and call.args and ast.unparse(call.args[0]) == "self._engine.writer":
        return "_decide"
    return "_work"


def _sentence(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the first sentence of a docstring; that of a property becomes one of a method."""
    text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    if isinstance(node, ast.FunctionDef) and text.startswith("The "):
        text = f"Return the {text[4:]}"
    return text


def _written(
    head: str, shown: Sequence[str], answer: str, function: ast.FunctionDef, body: str, first: str = "self"
) -> list[str]:
    lines = _wrapped(f"    {head}(", [first, *shown], f") -> {answer}:")
    return [*lines, *_docstring(_sentence(function)), *_call(f"        return {body}")]


def _docstring(sentence: str) -> list[str]:
    """Return a docstring on one line, or a first sentence on one line and the rest below."""
    if len(sentence) + 14 <= PROSE_WIDTH:
        return [f'        """{sentence}"""']
    first, _, rest = sentence.partition(". ")
    lines = [f'        """{first}.'] if rest else []
    parts = textwrap.wrap(rest or sentence, WIDTH - 10, initial_indent=" " * 8, subsequent_indent=" " * 8)
    if not rest:
        parts[0] = '        """' + parts[0].strip()
    return [*lines, *([""] if rest else []), *parts, '        """']


def _wrapped(head: str, parts: Sequence[str], tail: str) -> list[str]:
    """Return a head, parts between commas, and a tail, on one line or on lines filled to the width."""
    whole = f"{head}{', '.join(parts)}{tail}"
    if len(whole) <= WIDTH and "# noqa" not in whole:
        return [whole]
    indent, lines, line = " " * (len(head) - len(head.lstrip()) + 4), [head], ""
    for part in parts:
        text, _, remark = part.partition("  # ")
        if line and len(indent) + len(line) + len(text) + 3 > WIDTH:
            lines.append(indent + line)
            line = ""
        line += f"{' ' if line else ''}{text},"
        if remark:
            lines.append(f"{indent}{line}  # {remark}")
            line = ""
    return [*lines, *([indent + line] if line else []), f"{' ' * (len(indent) - 4)}{tail}"]


def _call(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    start = line.index("(", line.index("self._sync." if "self._sync." in line else "plain."))
    depth, end = 0, start
    for end in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if not depth:
            break
    return _wrapped(line[: start + 1], line[start + 1 : end].split(", "), line[end:])


# --- files -----------------------------------------------------------------------------------------------------------


def source(file: str) -> str:
    """Return the whole text of a generated file."""
    modules, sentence = FILES[file]
    classes, imports = plain_classes(), dict[str, set[str]]()
    parts = [Maker(plain.module, classes, imports).made(plain) for plain in classes.values() if plain.module in modules]
    text = "\n\n\n".join(parts)
    if file == "ledger":
        text += "\n\n" + BOUND.rstrip("\n")
    head = f'"""{sentence}\n\n``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.\n"""\n\n'
    return f"{head}# fmt: off\n\nfrom __future__ import annotations\n\n{_imports(file, text, imports)}\n\n\n{text}\n"


def _imports(file: str, text: str, imports: dict[str, set[str]]) -> str:
    own = {name: {*names} for name, names in imports.items()}
    own.setdefault("!ledger.aio.area", set()).update(
        name for name in ("AsyncArea", "OpenedLedger") if f"({name}" in text
    )
    for other in FILES:
        if other != file:
            made = {f"Async{plain.name}" for plain in plain_classes().values() if plain.module in FILES[other][0]}
            if used := {name for name in made if f"{name}(self._sync" in text or f"({name})" in text}:
                own[f"!ledger.aio.{other}"] = used
    at_once = {name[1:]: names for name, names in own.items() if name.startswith("!")}
    late = {
        name: {each for each in names if each not in at_once.get(name, ())}
        for name, names in own.items()
        if name and not name.startswith("!")
    }
    if file == "ledger":
        at_once["ledger.domain.late"] = {"shown_as"}
    lines = ["from typing import TYPE_CHECKING", "", *_from(at_once, "")]
    lines += ["", "if TYPE_CHECKING:", *(["    import os"] if own.get("") else [])]
    return "\n".join([*lines, *_from({name: names for name, names in late.items() if names}, "    ")])


def _from(imports: dict[str, set[str]], indent: str) -> list[str]:
    lines: list[str] = []
    ours = None
    for module in sorted(imports, key=lambda name: (name.split(".")[0] in ("ledger", "projections"), name)):
        if ours is False and module.split(".")[0] in ("ledger", "projections"):
            lines.append("")
        ours = module.split(".")[0] in ("ledger", "projections")
        names = sorted(imports[module], key=lambda name: (not name.isupper(), name))
        line = f"{indent}from {module} import {', '.join(names)}"
        lines += [line] if len(line) <= WIDTH else _wrapped(f"{indent}from {module} import (", names, ")")
    return lines


def main() -> None:
    stale = []
    for file in FILES:
        path, text = AIO / f"{file}.py", source(file)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        raise SystemExit(f"not current: {', '.join(stale)}; run python tools/pages/async_classes.py")


if __name__ == "__main__":
    main()
