"""A generator of the pages of the stored format: ``events.md`` from the catalogue, the columns of ``schema.md`` from a file.

python tools/pages/format_pages.py            writes both
python tools/pages/format_pages.py --check    exit code 1 if a page is not current
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
from ledger.documents import events as of_documents
from ledger.interactions import events as of_interactions
from ledger.log import events as of_ledger
from ledger.memories import events as of_memories
from ledger.observations import events as of_observations
from ledger.projects import events as of_projects
from ledger.review import events as of_review
from ledger.sessions import events as of_sessions
from ledger.values import events as of_values
from projections.core.projector import projections
from projections.search import vectors

DOCS = Path(__file__).resolve().parents[2] / "ledger" / "docs"
COLUMNS = "## Columns"  # this tool writes schema.md from this heading on
INTRO = """# Events

Look up here what each event of the log stores. `tools/pages/format_pages.py` writes this page from the
`events.py` of the features.

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
    ("Ledger", (of_ledger,)),
    ("Project and session", (of_projects, of_sessions)),
    ("Document", (of_documents,)),
    ("Interaction", (of_interactions,)),
    ("Memory", (of_memories,)),
    ("Merge and conflict", (of_review,)),
    ("Observation", (of_observations,)),
    ("Keyed values", (of_values,)),
)
STRUCTS: tuple[type[Any], ...] = (
    *(events.Blob, events.Redaction, events.Acted, events.Delivered, events.Dropped, events.LeftOut, events.Shortened),
    *(events.Matched, events.Denied, events.Origin, events.EvidenceSource, events.Redacted),
)


# --- events.md -------------------------------------------------------------------------------------------------------


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield each heading of the page with the names of its event types, in their order."""
    for title, streams in SECTIONS:
        yield (
            title,
            [name for name, kind in events.TYPES.items() if kind.__module__ in {stream.__name__ for stream in streams}],
        )


@cache
def written(module: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a class with their types as written in its source."""
    if not module.startswith("ledger."):
        return ()
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    (made,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    fields = (node for node in made.body if isinstance(node, ast.AnnAssign))
    return tuple((ast.unparse(node.target), ast.unparse(node.annotation)) for node in fields)


def spoken(annotation: str) -> str:
    """Return a type in words, such as "list of ids" or "text or null"."""
    return _spoken(ast.parse(annotation, mode="eval").body)


def _spoken(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        parts = [_spoken(node.left), _spoken(node.right)]
        return " or ".join(dict.fromkeys(part for part in parts if part not in ("", "null")))
    if isinstance(node, ast.Subscript):
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [_spoken(node) for node in inside if not (isinstance(node, ast.Constant) and node.value is ...)]
        content = ", ".join(parts)
        if ast.unparse(node.value) == "dict":
            return "object"
        if ast.unparse(node.value) == "Annotated":
            return parts[0]
        return f"({content})" if len(parts) > 1 else f"list of {content}"
    if isinstance(node, ast.Constant):
        return "null" if node.value is None else ""
    name = ast.unparse(node)
    return "" if name in ("UnsetType", "T") else WORDS.get(name, f"[{name}](#{name.lower()})")


def fields(kind: type[Any]) -> list[str]:
    erasable = {name for name, traits in events.string_fields(kind).items() if traits == "text"}
    types = dict(
        field_type for base in reversed(kind.__mro__) for field_type in written(base.__module__, base.__name__)
    )
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name == "data":
            continue
        stored_as = "random hex" if field.name == "salt" else spoken(types[field.name])
        type_ = stored_as + (", erasable" if field.name in erasable else "")
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
    docstring = inspect.cleandoc(kind.__doc__ or "")
    text = [" ".join(part.split()).replace("``", "`") for part in docstring.split("\n\n")]
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
    """Return the section with every table of a fresh file and its columns, and the name and version of its projection."""
    owners = {table.name: f"{view.name} {view.version}" for view in projections(bytes(32)) for table in view.tables}
    owners |= {index.waiting.name: owners[index.name] for index in _indexes()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "memory.db")
        Ledger.open(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(vectors.SCHEMA)
            tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"))
            virtual = {name for name, sql in tables.items() if sql.upper().startswith("CREATE VIRTUAL")}
            hidden = {f"{name}_{part}" for name in virtual for part in ("data", "idx", "content", "docsize", "config")}
            rows = []
            for name in tables:
                if name not in hidden and not name.startswith("sqlite_"):
                    table_columns = connection.execute(
                        "SELECT name, type FROM pragma_table_info(?)", (name,)
                    ).fetchall()
                    names = ", ".join(f"{column} {kind}".strip() for column, kind in table_columns)
                    rows.append(f"| `{name}` | {owners.get(name, '')} | {names} |")
    source = "Written by `tools/pages/format_pages.py` from a fresh file; the number after a projection's name is its version."
    return "\n".join([COLUMNS, "", source, "", "| table | projection | columns |", "|---|---|---|", *rows]) + "\n"


def _indexes() -> Iterator[Any]:
    for projection in projections(bytes(32)):
        yield from (table for table in projection.tables if hasattr(table, "waiting"))


def schema_page() -> str:
    above = (DOCS / "schema.md").read_text(encoding="utf-8").partition(COLUMNS)[0].rstrip("\n")
    return f"{above}\n\n{columns()}"


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
