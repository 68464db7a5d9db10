"""A generator of the types of ``AsyncLedger`` and its namespaces (``ledger/aio/ledger.pyi``), for type checkers and editors.

It reads the syntax trees of the plain classes, so that parameters, defaults and types are the same; ``ledger/aio/made.py`` makes
the classes themselves.

python tools/pages/async_classes.py            writes the file
python tools/pages/async_classes.py --check    exit code 1 if the file is not current
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

from ledger.aio.made import AT_ONCE, BY_HAND, KEPT, MODULES  # noqa: E402

STUB = ROOT / "ledger" / "aio" / "ledger.pyi"
BASES = {"Area": "AsyncArea", "Ledger": "OpenedLedger, AsyncLedgerRead"}
NOT_MADE = {"group_commit"}  # parameters that are always on
SENTENCE = "``AsyncLedger``, ``AsyncPastLedger`` and their namespaces: the plain ledger, with calls that are awaited."
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
    for module in MODULES:
        for node in ast.parse(_path(module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name != "BoundLedger":
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
        """Return the types of the counterpart of a class."""
        base = BASES.get(plain.name) or BASES.get(plain.base) or f"Async{plain.base}"
        lines = [f"class Async{plain.name}({base}):", f'    """{_sentence(plain.node)}"""']
        for function in plain.functions:
            lines += ["", *self._method(plain, function)]
        return "\n".join(lines)

    def _method(self, plain: Plain, function: ast.FunctionDef) -> list[str]:
        decorators = {node.id for node in function.decorator_list if isinstance(node, ast.Name)}
        returns, name = function.returns, function.name
        assert returns is not None
        kind = ast.unparse(returns.value if isinstance(returns, ast.Subscript) else returns)
        shown = self._parameters(function, 0 if "staticmethod" in decorators else 1)
        answer, awaited = self._types.text(returns), True
        if kind in self._classes:
            answer, awaited = f"Async{kind}", "property" not in decorators and name not in AT_ONCE
        elif kind == "Iterator":
            self._imports.setdefault("collections.abc", set()).add("AsyncIterator")
            answer, awaited = f"AsyncIterator[{self._types.text(returns.slice)}]", False  # type: ignore[attr-defined]
        elif kind in ("Page", "Hits"):
            answer = f"AsyncPage[{self._types.text(returns.slice)}]" if kind == "Page" else "AsyncHits"  # type: ignore[attr-defined]
            self._imports.setdefault("ledger.aio.pages", set()).add(answer.partition("[")[0])
        elif kind == "Self":
            self._imports.setdefault("typing", set()).add("Self")
            self._imports.setdefault("ledger.aio.area", set()).add("Opening")
            answer, awaited = "Opening[Self]", False
        kept = "property" in decorators and (name in KEPT or f"{plain.name}.{name}" in KEPT)
        if kept or ("property" in decorators and not awaited):
            return ["    @property", *_written(f"def {name}", [], answer, function)]
        first = "cls" if "classmethod" in decorators else "self"
        written = _written(f"{'async ' * awaited}def {name}", shown, answer, function, first)
        return ["    @classmethod", *written] if first == "cls" else written

    def _parameters(self, function: ast.FunctionDef, start: int) -> list[str]:
        """Return the parameters after ``self`` or ``cls``, each as it is written."""
        arguments, shown = function.args, list[str]()
        places = arguments.args[start:]
        defaults: list[ast.expr | None] = [None] * (len(places) - len(arguments.defaults)) + [*arguments.defaults]
        for place, default in zip(places, defaults, strict=True):
            shown.append(self._parameter(place, default))
        if arguments.vararg is not None:
            shown.append("*" + self._parameter(arguments.vararg, None))
        elif arguments.kwonlyargs:
            shown.append("*")
        for named, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if named.arg not in NOT_MADE:
                shown.append(self._parameter(named, default))
        if arguments.kwarg is not None:
            shown.append("**" + self._parameter(arguments.kwarg, None))
        return shown

    def _parameter(self, argument: ast.arg, default: ast.expr | None) -> str:
        assert argument.annotation is not None
        text = f"{argument.arg}: {self._types.text(argument.annotation)}"
        return text if default is None else f"{text} = {self._default(default)}"

    def _default(self, default: ast.expr) -> str:
        """Return a default as a literal; an object such as ``SessionPatterns()`` is written as it stands."""
        if isinstance(default, ast.Call):
            name = ast.unparse(default.func)
            self._imports.setdefault(self._names.imported[name][0], set()).add(name)
            return f"{name}()  # noqa: B008 - a named tuple"
        value = eval(ast.unparse(default), dict(vars(self._names.live)))
        if isinstance(default, ast.Name) and not isinstance(value, int | float | str | tuple):
            self._imports.setdefault(self._names.imported[default.id][0], set()).add(default.id)
            return default.id
        if isinstance(value, str):
            return '"' + value + '"'
        return ast.unparse(ast.Constant(value)) if not isinstance(value, tuple) else _tuple(value)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _tuple(values: tuple[str, ...]) -> str:
    inner = ", ".join(f'"{value}"' for value in values)
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def _sentence(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the first sentence of a docstring; that of a property becomes one of a method."""
    text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    if isinstance(node, ast.FunctionDef) and text.startswith("The "):
        text = f"Return the {text[4:]}"
    return text


def _written(head: str, shown: Sequence[str], answer: str, function: ast.FunctionDef, first: str = "self") -> list[str]:
    return [*_wrapped(f"    {head}(", [first, *shown], f") -> {answer}:"), *_docstring(_sentence(function))]


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


# --- files -----------------------------------------------------------------------------------------------------------


def source() -> str:
    """Return the whole text of the generated file."""
    classes, imports = plain_classes(), dict[str, set[str]]()
    makers = {plain.module: Maker(plain.module, classes, imports) for plain in classes.values()}
    text = "\n\n".join(makers[plain.module].made(plain) for plain in classes.values())
    imports.setdefault("ledger.aio.area", set()).update(("AsyncArea", "OpenedLedger"))
    early = "import os\n" if imports.pop("", None) else ""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    for module in sorted(imports):  # a name that two modules export is imported from the first
        imports[module] &= used
        used -= imports[module]
    imports = {module: names for module, names in imports.items() if names}
    head = f'"""{SENTENCE}\n\n``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.\n"""\n\n'
    return f"{head}# fmt: off\n\n{early}" + "\n".join(_from(imports, "")) + f"\n\n{text}\n"


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
    text = source()
    if STUB.exists() and STUB.read_text(encoding="utf-8") == text:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"not current: {STUB.name}; run python tools/pages/async_classes.py")
    STUB.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
