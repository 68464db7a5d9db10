"""The parts of public docstrings, which become the help of commands and the reference pages."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ledger import types

BLOCK = re.compile(r"^(Args|Raises):\n((?:(?: {4}.*)?\n)*)", re.M)
ENTRY = re.compile(r"^ {4}(\w+): ((?:.*\n)(?: {5}.*\n)*)", re.M)


class Doc(NamedTuple):
    """A docstring in parts: the first paragraph, the other paragraphs, and the texts of parameters and errors."""

    first: str
    rest: str
    args: dict[str, str]
    raises: dict[str, str]


class Field(NamedTuple):
    """A key of a typed dictionary: its name, its annotation as source text, and the text below it."""

    name: str
    annotation: str
    text: str


@cache
def doc_of(value: object) -> Doc:
    text = (inspect.getdoc(value) or "") + "\n"
    blocks = {name: dict(_entries(body)) for name, body in BLOCK.findall(text)}
    first, _, further = BLOCK.sub("", text).strip().partition("\n\n")
    return Doc(line(first), further.strip(), blocks.get("Args", {}), blocks.get("Raises", {}))


def _entries(body: str) -> Iterator[tuple[str, str]]:
    for name, text in ENTRY.findall(body):
        yield name, line(text)


def line(text: str) -> str:
    return " ".join(text.split())


@cache
def first_lines(module: str) -> dict[str, str]:
    """Return the first paragraph of the docstring of each method in a module of the product, by the method's name.

    The module is parsed and not imported, so that help is fast.
    """
    place = Path(str(types.__file__)).parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(place.read_text(encoding="utf-8"))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("Past"))
    methods = (node for kind in classes for node in kind.body if isinstance(node, ast.FunctionDef))
    return {node.name: line(text.partition("\n\n")[0]) for node in methods if (text := ast.get_docstring(node))}


@cache
def fields_of(name: str) -> tuple[Field, ...]:
    """Return the keys of a typed dictionary of ``ledger.types`` without inherited keys.

    The module is parsed once in a process. An area has many commands with the same options.
    """
    return tuple(_fields(classes_of_types()[name]))


@cache
def classes_of_types() -> dict[str, list[ast.stmt]]:
    module = ast.parse(Path(str(types.__file__)).read_text(encoding="utf-8"))
    return {node.name: node.body for node in module.body if isinstance(node, ast.ClassDef)}


def _fields(body: list[ast.stmt]) -> Iterator[Field]:
    for field, under in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(under, ast.Expr):
            text = line(str(ast.literal_eval(under.value)))
            yield Field(ast.unparse(field.target), ast.unparse(field.annotation), text)
