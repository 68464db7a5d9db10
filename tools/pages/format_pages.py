"""Writes the pages of the stored format: ``ledger/docs/events.md`` from the catalogue, the columns of ``schema.md`` from a file.

python tools/pages/format_pages.py            writes both
python tools/pages/format_pages.py --check    1 when one is not current
"""

from __future__ import annotations

import ast
import inspect
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ledger import Ledger, events
from projections.core.projector import projections
from projections.search import vectors

DOCS = Path(__file__).resolve().parents[2] / "ledger" / "docs"
COLUMNS = "## Columns"  # of schema.md; all from here on is written by this tool
INTRO = """# Events

Look up here what each event of the log stores. `tools/pages/format_pages.py` writes this page from `ledger/domain/events/`.

A row of the table `events` has the JSON below as its `state`; `position`, `stream`, `version` and `type` are columns next to
it. A field that has its default is left out. *erasable* fields hold what a person or a model wrote: an erasure makes them
null, or blackens a span of them. A *word* is from a closed vocabulary, an *id* names a subject, an event or a command, a
*time* is UTC with microseconds, a *keyed digest* is an HMAC under the secret of the ledger, *ranges* are pairs of positions,
both inclusive. A *blob* stands for a text above 256 KiB. Confidences, scores and shares are integers of one millionth. A
release never renames a type or a field; it may add types, and fields with defaults. The tables made from the log are in
[schema](schema.md).
"""
WORDS = {
    "Text": "text",
    "Code": "word",
    "Id": "id",
    "Time": "time",
    "KeyedDigest": "keyed digest",
    "Digest": "digest",
    "Secret": "secret",
    "Json": "JSON",
    "Body": "text or blob",
    "Ranges": "ranges",
    "Raw": "JSON",
    "str": "text",
    "int": "integer",
    "bool": "boolean",
    "Moved": "(first, last, to)",
}
SECTIONS = (
    ("Ledger", (events.ledger,)),
    ("Project and session", (events.project, events.session)),
    ("Document", (events.document,)),
    ("Interaction", (events.interaction,)),
    ("Memory", (events.memory,)),
    ("Merge and conflict", (events.merge,)),
    ("Observation", (events.observation,)),
    ("Keyed values", (events.value,)),
)
STRUCTS: tuple[type[Any], ...] = (
    *(events.Blob, events.Redaction, events.Acted, events.Delivered, events.Dropped, events.LeftOut, events.Shortened),
    *(events.Matched, events.Denied, events.Origin, events.EvidenceSource, events.Redacted),
)


# --- events.md -------------------------------------------------------------------------------------------------------


def sections() -> Iterator[tuple[str, list[str]]]:
    """Each heading of the page with the names of its types, in their order."""
    for title, streams in SECTIONS:
        yield (
            title,
            [name for name, kind in events.TYPES.items() if kind.__module__ in {each.__name__ for each in streams}],
        )


@cache
def written(module: str, kind: str) -> tuple[tuple[str, str], ...]:
    """The fields of a class with their types as its source has them."""
    if not module.startswith("ledger."):
        return ()
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    (made,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind)
    fields = (each for each in made.body if isinstance(each, ast.AnnAssign))
    return tuple((ast.unparse(each.target), ast.unparse(each.annotation)) for each in fields)


def spoken(annotation: str) -> str:
    """A type as a reader says it: "list of ids", "text or null"."""
    return _spoken(ast.parse(annotation, mode="eval").body)


def _spoken(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        parts = [_spoken(node.left), _spoken(node.right)]
        return " or ".join(dict.fromkeys(part for part in parts if part not in ("", "null")))
    if isinstance(node, ast.Subscript):
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [_spoken(each) for each in inside if not (isinstance(each, ast.Constant) and each.value is ...)]
        of = ", ".join(parts)
        if ast.unparse(node.value) == "dict":
            return "object"
        if ast.unparse(node.value) == "Annotated":
            return parts[0]
        return f"({of})" if len(parts) > 1 else f"list of {of}"
    if isinstance(node, ast.Constant):
        return "null" if node.value is None else ""
    name = ast.unparse(node)
    return "" if name in ("UnsetType", "T") else WORDS.get(name, f"[{name}](#{name.lower()})")


def fields(kind: type[Any]) -> list[str]:
    erasable = {name for name, what in events.string_fields(kind).items() if what == "text"}
    types = dict(each for base in reversed(kind.__mro__) for each in written(base.__module__, base.__name__))
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name == "data":
            continue
        said = "random hex" if field.name == "salt" else spoken(types[field.name])
        type_ = said + (", erasable" if field.name in erasable else "")
        rows.append(f"| `{field.encode_name}` | {type_} | {_default(field)} |")
    return ["| field | holds | default |", "|---|---|---|", *rows] if rows else []


def _default(field: Any) -> str:
    if field.default is msgspec.NODEFAULT:
        return "" if field.default_factory is msgspec.NODEFAULT else "`{}`"
    if field.default is msgspec.UNSET:
        return "as it is"
    if isinstance(field.default, msgspec.Raw):
        return f"`{bytes(field.default).decode()}`"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def described(kind: type[Any], level: str) -> list[str]:
    said = inspect.cleandoc(kind.__doc__ or "")
    text = [" ".join(part.split()).replace("``", "`") for part in said.split("\n\n")]
    return [f"{level} {kind.__name__}", "", *[line for part in text for line in (part, "")], *fields(kind), ""]


def events_page() -> str:
    lines = [INTRO, "## The envelope", "", *described(events.Envelope, "###")[2:]]
    for title, names in sections():
        lines += [f"## {title}", ""]
        for name in names:
            lines += described(events.TYPES[name], "###")
    lines += ["## Parts of events", ""]
    for kind in STRUCTS:
        lines += described(kind, "###")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


# --- schema.md -------------------------------------------------------------------------------------------------------


def columns() -> str:
    """Every table of a fresh file with its columns, those of a projection under its name and version."""
    owners = {table.name: f"{each.name} {each.version}" for each in projections(bytes(32)) for table in each.tables}
    owners |= {index.waiting.name: owners[index.name] for index in _indexes()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "memory.db")
        Ledger.open(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(vectors.SCHEMA)
            found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"))
            virtual = {name for name, sql in found.items() if sql.upper().startswith("CREATE VIRTUAL")}
            hidden = {f"{name}_{part}" for name in virtual for part in ("data", "idx", "content", "docsize", "config")}
            rows = []
            for name in found:
                if name not in hidden and not name.startswith("sqlite_"):
                    told = connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
                    names = ", ".join(f"{column} {kind}".strip() for column, kind in told)
                    rows.append(f"| `{name}` | {owners.get(name, '')} | {names} |")
    said = "Written by `tools/pages/format_pages.py` from a fresh file; the number after a projection's name is its version."
    return "\n".join([COLUMNS, "", said, "", "| table | projection | columns |", "|---|---|---|", *rows]) + "\n"


def _indexes() -> Iterator[Any]:
    for each in projections(bytes(32)):
        yield from (table for table in each.tables if hasattr(table, "waiting"))


def schema_page() -> str:
    said = (DOCS / "schema.md").read_text(encoding="utf-8").partition(COLUMNS)[0].rstrip("\n")
    return f"{said}\n\n{columns()}"


def main() -> int:
    pages = {DOCS / "events.md": events_page(), DOCS / "schema.md": schema_page()}
    old = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"{path.name} is not current; python tools/pages/format_pages.py writes it", file=sys.stderr)
        return int(bool(old))
    for path in old:
        path.write_text(pages[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
