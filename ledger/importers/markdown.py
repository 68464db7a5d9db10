"""The importer of the kind "markdown": a folder of notes, as agents and people keep them.

Such folders are the ``/memories`` of Anthropic's memory tool, the ``memory/`` of Claude Code, the blocks of Letta, and the notes
of basic-memory. Each list item and each paragraph is a statement. ``- [category] text #tag`` is an observation and
``- relation [[Note]]`` a relation, as basic-memory writes them. Nobody can tell who wrote a note, so the channel is "file".
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ledger.importers.records import MovedStatement
from ledger.importers.source import Part, Source, clean, pairs

CLIENT = "markdown"
_ENDINGS = (".md", ".markdown", ".txt")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(.*)")
_HEADING = re.compile(r"#{1,6}\s+([^\s#].*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_RULER = re.compile(r"\s*([-*_])(\s*\1){2,}\s*")
_TASK = re.compile(r"\[[ xX-]\]\s+")
_OBSERVATION = re.compile(r"\[([^\[\]()]+)\]\s+(.+)", re.S)
_RELATION = re.compile(r"(\"[^\"]*\"|'[^']*'|[^\s\[\]]*)\s*\[\[([^\[\]]+)\]\]\s*(\([^()]*\))?", re.S)
_ENTRY = re.compile(r"\[[^\]]*\]\([^)\s]+\.md\)")
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")
_LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_FIELD = re.compile(r"([A-Za-z][\w -]*):\s*(.*)")
_KINDS = ("preference", "rule", "goal", "fact", "identity")
_TIMES = ("updated", "updated_at", "modified", "date", "created", "created_at", "timestamp")

Fields = dict[str, str | list[str]]


def recognizes(source: Source) -> bool:
    """Return True for a folder or an archive with a note."""
    return source.is_several and any(part.name.lower().endswith(_ENDINGS[:2]) for part in source.parts)


def records(source: Source) -> Iterator[MovedStatement]:
    """Yield the statements of all notes."""
    for part in source.parts if len(source.parts) == 1 else source.files(*_ENDINGS):
        for text in source.text(part):
            note = _note(part, text.removeprefix("\ufeff").replace("\r\n", "\n"))
            for block in _blocks(note.body):
                if block.is_item and _ENTRY.match(block.text):
                    source.skip("an entry of a table of contents")
                else:
                    yield _statement(note, block)
    left = len(source.parts) - sum(1 for _ in source.files(*_ENDINGS))
    if left:
        source.skip("a file that is no note", left)


class _Note(NamedTuple):
    """A note: the fields of its front matter, and the text below them."""

    name: str
    title: str
    at: object
    fields: Fields
    body: str


class _Block(NamedTuple):
    """A list item or a paragraph, with the heading above it."""

    text: str
    heading: str
    is_item: bool


def _note(part: Part, text: str) -> _Note:
    fields, body = _front_matter(text)
    title = fields.get("title") or fields.get("name")
    at: object = next((value for name in _TIMES if isinstance(value := fields.get(name), str) and value), None)
    if at is None and not part.member:
        with suppress(OSError):
            at = os.stat(part.path).st_mtime
    return _Note(part.name, title if isinstance(title, str) and title else part.stem, at, fields, body)


def _front_matter(text: str) -> tuple[Fields, str]:
    """Return the fields between two lines of three dashes at the beginning, of texts and lists of texts, and the rest."""
    head, dashes, body = text.removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not dashes:
        return {}, text
    fields, name = Fields(), ""
    for line in head.splitlines():
        if (item := re.fullmatch(r"\s*-\s+(.*)", line)) and name:
            known = fields.get(name)
            fields[name] = [*(known if isinstance(known, list) else []), _plain(item[1])]
        elif field := _FIELD.fullmatch(line):
            name, value = field[1].casefold(), field[2].strip()
            is_list = value.startswith("[") and value.endswith("]")
            fields[name] = list(filter(None, map(_plain, value[1:-1].split(",")))) if is_list else _plain(value)
        elif line.startswith((" ", "\t")) and isinstance(known := fields.get(name), str):
            fields[name] = f"{'' if known in ('|', '>') else known} {line.strip()}".strip()
    return fields, body


def _plain(value: str) -> str:
    value = value.strip()
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the list items and the paragraphs; code belongs to the paragraph or the item before it."""
    lines, heading, is_item, is_code = list[str](), "", False, False

    def block() -> Iterator[_Block]:
        joined = "\n".join(lines).strip()
        lines.clear()
        if joined:
            yield _Block(joined, heading, is_item)

    for line in _without_comments(text).splitlines():
        if _FENCE.match(line):
            is_code = not is_code
            lines.append(line)
        elif is_code:
            lines.append(line)
        elif (title := _HEADING.fullmatch(line)) or _RULER.fullmatch(line):
            yield from block()
            heading, is_item = title[1].rstrip("# \t") if title else heading, False
        elif item := _ITEM.fullmatch(line):
            yield from block()
            is_item = True
            lines.append(item[1])
        elif not line.strip():
            yield from block()
            is_item = False
        else:
            lines.append(line.strip())
    yield from block()


def _without_comments(text: str) -> str:
    first, *others = text.split("<!--")
    parts = ((part, *part.partition("-->")) for part in others)
    return first + "".join(after if end else f"<!--{part}" for part, _, end, after in parts)


def _statement(note: _Note, block: _Block) -> MovedStatement:
    text, kind, relations = block.text, "", list[tuple[str, str, str]]()
    task = _TASK.match(text) if block.is_item else None
    if block.is_item and task is None:
        if observation := _OBSERVATION.fullmatch(text):
            kind, text = observation[1].strip(), observation[2]
        elif (relation := _RELATION.fullmatch(text)) and (relation[1] or not relation[3]):
            name = relation[1].strip("\"' ") or "relates to"
            relations = [(clean(note.title), clean(name), clean(relation[2].strip()))]
            text = f"{note.title} {name.replace('_', ' ')} {relation[2].strip()} {relation[3] or ''}"
    elif task is not None:
        text = text[task.end() :]
        kind = "done" if task[0][1] in "xX" else "to do"
    content = _LINK.sub(lambda link: link[1], " ".join(text.split()) if "```" not in text else text)
    known, tags = note.fields.get("tags"), _TAG.findall(text)
    tags += known if isinstance(known, list) else re.split(r"[,\s]+", known) if isinstance(known, str) else []
    return MovedStatement(
        key=f"markdown:{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:32]}",
        content=content,
        kind=kind.casefold() if kind.casefold() in _KINDS else "knowledge",
        at=note.at,
        tags=tuple(dict.fromkeys(tag.strip("#").casefold() for tag in tags if 0 < len(tag.strip("#")) <= 100)),
        entities=tuple(dict.fromkeys(clean(name.strip()) for name in (note.title, *_LINK.findall(block.text)))),
        relations=tuple(relations),
        channel="file",
        metadata=pairs({
            "file": note.name, "heading": block.heading, "category": kind, "type": note.fields.get("type"),
            "permalink": note.fields.get("permalink"), "description": note.fields.get("description"),
        }),
    )  # fmt: skip
