"""The importer of the kind "mcp": the file of the reference memory server of MCP, with an entity or a relation on each line.

The file has no times and no ids, so the words are the keys. An observation says its entity only by its place: where the name of
the entity is missing in the words, it comes before them. A model wrote them, so their channel is "agent".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ledger.importers.records import MovedStatement
from ledger.importers.source import Object, Source, clean

CLIENT = "mcp"


def recognizes(source: Source) -> bool:
    """Return True if the first lines of a file have an entity or a relation."""
    return any(any(map(_is_known, source.head_objects(part))) for part in source.files(".jsonl", ".json"))


def records(source: Source) -> Iterator[MovedStatement]:
    """Yield a statement for each observation, each relation, and each entity that has no observations."""
    for part in source.files(".jsonl", ".json"):
        for number, line in source.objects(part):
            if line.get("type") not in ("entity", "relation"):
                source.meet(f"type {line.get('type')}")
            elif not _is_known(line):
                source.skip("an entity or a relation without its names")
                source.note(f"{part.name}, line {number}", "an entity or a relation without its names")
            elif line["type"] == "relation":
                yield _relation(str(line["from"]), str(line["relationType"]), str(line["to"]))
            else:
                yield from _entity(source, line)


def _is_known(line: Object) -> bool:
    names = {"entity": ("name",), "relation": ("from", "to", "relationType")}.get(str(line.get("type")))
    is_server = names is not None and ("entityType" in line or "relationType" in line or "observations" in line)
    return is_server and all(isinstance(line.get(name), str) and str(line[name]).strip() for name in names or ())


def _entity(source: Source, line: Object) -> Iterator[MovedStatement]:
    name, kind, observations = str(line["name"]), line.get("entityType"), line.get("observations")
    texts = observations if isinstance(observations, list) else []
    said = [text for text in texts if isinstance(text, str) and text.strip()]
    if len(said) < len(texts):
        source.skip("an observation that is no text", len(texts) - len(said))
    if not said and isinstance(kind, str) and kind.strip():
        said = [f"{name} is of the type {kind}."]
    metadata = {"entity_type": clean(kind)[:250]} if isinstance(kind, str) and kind.strip() else {}
    for text in said:
        content = text if _words(name) in _words(text) else f"{name}: {text}"
        yield MovedStatement(
            key=_key(f"{name}\0{text}"), content=content, entities=(clean(name),), channel="agent", metadata=metadata
        )


def _relation(subject: str, relation: str, object: str) -> MovedStatement:
    return MovedStatement(
        key=_key(f"{subject}\0{relation}\0{object}"),
        content=f"{subject} {relation.replace('_', ' ')} {object}",
        relations=((clean(subject), clean(relation), clean(object)),),
        channel="agent",
    )


def _words(text: str) -> str:
    return " ".join(text.replace("_", " ").casefold().split())


def _key(text: str) -> str:
    return f"mcp:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"
