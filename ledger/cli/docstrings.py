"""What public docstrings say, in parts: the help of commands and the reference pages read the same text."""

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
    """A docstring in its parts: the first sentence or two, what follows, and what it says of parameters and errors."""

    first: str
    rest: str
    args: dict[str, str]
    raises: dict[str, str]


class Field(NamedTuple):
    """A key of a typed dictionary: its annotation as it is written, and the text under it."""

    name: str
    annotation: str
    text: str


def doc_of(value: object) -> Doc:
    text = (inspect.getdoc(value) or "") + "\n"
    blocks = {name: dict(_entries(body)) for name, body in BLOCK.findall(text)}
    first, _, rest = BLOCK.sub("", text).strip().partition("\n\n")
    return Doc(line(first), rest.strip(), blocks.get("Args", {}), blocks.get("Raises", {}))


def _entries(body: str) -> Iterator[tuple[str, str]]:
    for name, text in ENTRY.findall(body):
        yield name, line(text)


def line(text: str) -> str:
    return " ".join(text.split())


@cache
def first_lines(module: str) -> dict[str, str]:
    """What the functions of the product's module say in the first line, by name, without loading it: help is asked for often."""
    place = Path(str(types.__file__)).parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(place.read_text(encoding="utf-8"))
    kinds = (each for each in tree.body if isinstance(each, ast.ClassDef) and not each.name.startswith("Past"))
    methods = (each for kind in kinds for each in kind.body if isinstance(each, ast.FunctionDef))
    return {each.name: line(text.partition("\n\n")[0]) for each in methods if (text := ast.get_docstring(each))}


def fields_of(name: str) -> Iterator[Field]:
    """The own keys of a typed dictionary of ``ledger.types``, without those that it inherits."""
    module = ast.parse(Path(str(types.__file__)).read_text(encoding="utf-8"))
    body = next(each.body for each in module.body if isinstance(each, ast.ClassDef) and each.name == name)
    for field, under in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(under, ast.Expr):
            text = line(str(ast.literal_eval(under.value)))
            yield Field(ast.unparse(field.target), ast.unparse(field.annotation), text)
