"""The importer of the kind "mem0": what ``get_all`` and ``history`` return, and the table ``history`` of its SQLite database.

A memory of mem0 has one id and, one after the other, several texts. Each text is a statement, whose key has the id and the text,
so that the same text in a history and in a list of all memories is one statement. A list has no earlier texts: a text that an
earlier import brought is replaced by the text that the memory has now. A model found them, so their channel is "agent".
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator

from ledger.importers.records import MovedEnding, MovedStatement, Record
from ledger.importers.source import DATABASES, Object, Part, Source, pairs

CLIENT = "mem0"
_LISTS = ("results", "memories")
_KEY = re.compile(r"(mem0:.*):[0-9a-f]{16}(?::\d+)?", re.S)
_FIELDS = ("user_id", "agent_id", "run_id", "app_id", "role", "metadata")


def recognizes(source: Source) -> bool:
    """Return True if a file has memories of mem0, or a database has its history."""
    for part in source.files(".json", *DATABASES):
        head = source.head(part)
        if b'"memory_id"' in head and (b'"new_memory"' in head or b'"old_memory"' in head):
            return True
        if b'"memory"' in head and b'"id"' in head and (b'"hash"' in head or b'"user_id"' in head):
            return True
        if {"memory_id", "old_memory", "new_memory", "event"} <= source.columns(part, "history"):
            return True
    return False


def records(source: Source) -> Iterator[Record]:
    """Yield the histories, and then the memories that no history tells of."""
    ends = (record for record in _read(Source(source.path), ()) if isinstance(record, MovedEnding))
    yield from _read(source, {hash(ending.key) for ending in ends})


def subject(key: str) -> str:
    """Return the part of a key that names the memory of mem0."""
    found = _KEY.fullmatch(key)
    return found[1] if found else key


def _read(source: Source, over: Collection[int]) -> Iterator[Record]:
    reader = _Mem0Reader(source, over)
    for part in source.files(*DATABASES):
        if "new_memory" in source.columns(part, "history"):
            for row in source.rows(part, "history", "rowid"):
                yield from reader.change(row)
    lists = [part for part in source.files(".json") if not source.columns(part, "history")]
    lists.sort(key=lambda part: b'"new_memory"' not in source.head(part))
    for part in lists:
        for entry in _entries(source, part):
            yield from reader.change(entry) if "event" in entry and "memory_id" in entry else reader.memory(entry)


def _entries(source: Source, part: Part) -> Iterator[Object]:
    """Yield the objects of a list, or of the list within a page of results."""
    if source.head(part).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        yield from source.elements(part)
        return
    for page in source.json(part):
        yield from _of_page(source, part, page)


def _of_page(source: Source, part: Part, page: object) -> Iterator[Object]:
    """Yield the objects of the list within a page of results."""
    entries = next((page[name] for name in _LISTS if name in page), None) if isinstance(page, dict) else None
    if not isinstance(page, dict) or not isinstance(entries, list):
        source.skip("a file without memories of mem0")
        return
    if isinstance(relations := page.get("relations"), list) and relations:
        source.skip("a relation of the graph, which its memory says in words", len(relations))
    if page.get("next"):
        source.note(part.name, "it is one page of several: its field next names another page")
    for entry in entries:
        if isinstance(entry, dict):
            yield entry
        else:
            source.skip("an element that is no JSON object")


class _Mem0Reader:
    """A source that is being read, with the text that each memory has by now, and the hashes of the keys that end later."""

    def __init__(self, source: Source, over: Collection[int]) -> None:
        self._source, self._over = source, over
        self._current, self._times = dict[str, str](), Counter[str]()
        self._users = set[str]()

    def memory(self, entry: Object) -> Iterator[Record]:
        """Yield a memory of a list."""
        id, text = str(entry.get("id") or ""), entry.get("memory", entry.get("data", entry.get("text")))
        if not id or not isinstance(text, str):
            self._source.skip("a memory without an id or a text")
            return
        self._check_user(entry.get("user_id"))
        yield self._statement(_key(id, text), text, id, entry, entry.get("updated_at") or entry.get("created_at"))

    def change(self, row: Object) -> Iterator[Record]:
        """Yield what one change of a memory says: a new text, the end of the text before, or both."""
        id, event = str(row.get("memory_id") or ""), str(row.get("event") or "").upper()
        at, text = row.get("updated_at") or row.get("created_at") or row.get("timestamp"), row.get("new_memory")
        before = self._current.get(id)
        if event == "NONE":
            self._source.skip("a change that changed nothing")
        elif event not in ("ADD", "UPDATE", "DELETE"):
            self._source.meet(f"event {row.get('event')}")
        elif not id or (event != "DELETE" and not isinstance(text, str)):
            self._source.skip("a change without an id or a text")
        elif event == "DELETE":
            old = row.get("old_memory")
            if before is None and isinstance(old, str):  # the history begins later than the memory
                before = self._place(id, old)
                yield self._statement(before, old, id, row, row.get("created_at"))
            if before is None:
                self._source.skip("a change without an id or a text")
                return
            yield MovedEnding(key=before, status="retracted", at=at, reason="deleted in mem0")
            self._current.pop(id, None)
        elif isinstance(text, str):
            old = row.get("old_memory")
            if event == "UPDATE" and before is None and isinstance(old, str) and old != text:
                before = self._place(id, old)
                yield self._statement(before, old, id, row, row.get("created_at"))
            if before is not None and before.startswith(_key(id, text)):
                self._source.skip("a change that changed nothing")
                return
            self._current[id] = key = self._place(id, text)
            yield self._statement(key, text, id, row, at, before)
            if before is not None:  # counts where the new text was known, or was left out
                yield MovedEnding(key=before, status="superseded", at=at, reason="changed in mem0")

    def _place(self, id: str, text: str) -> str:
        """Return the key of a text; a text that comes back after another one has a key of its own."""
        key = _key(id, text)
        self._times[key] += 1
        return key if self._times[key] == 1 else f"{key}:{self._times[key]}"

    def _statement(
        self, key: str, text: str, id: str, entry: Object, at: object, supersedes: str | None = None
    ) -> MovedStatement:
        categories = entry.get("categories")
        run, metadata = entry.get("run_id"), entry.get("metadata")
        more = metadata if isinstance(metadata, dict) else {}
        return MovedStatement(
            key=key,
            content=text,
            status="candidate" if hash(key) in self._over else "active",
            at=at,
            supersedes=supersedes,
            valid_to=entry.get("expiration_date"),
            session=run if isinstance(run, str) and run else None,
            tags=tuple(map(str, categories)) if isinstance(categories, list) else (),
            actor=actor if isinstance(actor := entry.get("actor_id"), str) and actor else None,
            channel="agent",
            metadata=pairs({"mem0": id, **{name: entry.get(name) for name in _FIELDS if name != "metadata"}, **more}),
        )

    def _check_user(self, user: object) -> None:
        if isinstance(user, str) and user not in self._users:
            self._users.add(user)
            if len(self._users) > 1:
                self._source.note(user, "memories of several users came into the memory of one; metadata has user_id")


def _key(id: str, text: str) -> str:
    return f"mem0:{id}:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
