"""The ``SessionStore`` of the Claude Agent SDK over the sessions of a ledger.

An entry of a transcript is a message: the words that the person or the agent said are its content, and the entry itself is its
``raw``, with marks in the place of secrets. A summary is computed from the entries when it is asked for, with the SDK of the
extra ``claude``, and never stored. So an undo and an erasure reach it too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING

from ledger import RejectedError
from ledger.doors.agent_transcripts import said
from ledger.doors.given import bound, to_the_end
from ledger.doors.transcribing import check_objects, extend
from ledger.types import Json

if TYPE_CHECKING:
    from ledger import Ledger, Session
    from ledger.answers import SessionInfo

PAGE = 1_000
MANY = 30  # entries; to look for each of more takes longer than to read every message
UUID_CHARS = 200  # a longer uuid is no uuid
PROJECT, SESSION, SUBPATH = "claude_project", "claude_session", "claude_subpath"  # metadata of a session
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)")

Entry = Mapping[str, object]
Key = Mapping[str, object]


class LedgerSessionStore:
    """The sessions of a ledger's user as a ``SessionStore``: ``ClaudeAgentOptions(session_store=…)``.

    The ledger names the user, and through which channel the texts come: ``ledger.bind(user=…, channel=…)``. The ledger stays the
    caller's: nothing here closes it. A transcript is the session ``claude/PROJECT_KEY/SESSION_ID``, of a subagent with
    ``/SUBPATH`` behind it; a slash in the first two is ``%2F``.

    Args:
        ledger: An open ledger.
        project: The ledger's project of the sessions that begin here.
    """

    def __init__(self, ledger: Ledger, *, project: str | None = None) -> None:
        self._ledger, self._project = bound(ledger, self, client="claude-agent-sdk"), project

    # --- the contract --------------------------------------------------------------------------------------------

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Add entries in one commit; an entry whose uuid the transcript has already is left out.

        Raises:
            RejectedError: An entry is no JSON object, or has a secret that the policy refuses; no entry was added.
        """
        where = _checked(key)
        given = list(entries)
        check_objects(given, "entry")
        if given:
            await to_the_end(lambda: self._append(where, given))

    async def load(self, key: Key) -> list[Json] | None:
        """Return the entries of a transcript in their order; None for a transcript without entries, or a deleted one."""
        where = _checked(key)
        return await asyncio.to_thread(lambda: list(self._entries(where))) or None

    async def list_sessions(self, project_key: str) -> list[Json]:
        """Return the transcripts of a project, without those of subagents, each with the time of its last change."""

        def read() -> list[Json]:
            return [{"session_id": id, "mtime": _mtime(info)} for id, info in self._main(project_key)]

        return await asyncio.to_thread(read)

    async def list_session_summaries(self, project_key: str) -> list[Json]:
        """Return the SDK's summary of each transcript of a project, computed from all entries of the transcript.

        Raises:
            ImportError: The SDK is not installed.
        """
        try:
            fold = import_module("claude_agent_sdk").fold_session_summary
        except ImportError as error:
            raise ImportError(
                'the summaries of ledger.doors.claude need the Claude Agent SDK: pip install "belief-ledger[claude]"'
            ) from error

        def read() -> list[Json]:
            summaries = []
            for id, info in self._main(project_key):
                key = {"project_key": project_key, "session_id": id}
                summaries.append({**fold(None, key, list(self._entries(key))), "mtime": _mtime(info)})
            return summaries

        return await asyncio.to_thread(read)

    async def delete(self, key: Key) -> None:
        """Hide a transcript, and with a main transcript those of its subagents; they stay in the log until they are erased."""
        where = _checked(key)

        def delete() -> None:
            with self._ledger.batch(whole=True):
                names = [_name(where)] if "subpath" in where else [_name(where), *self._below(where).values()]
                for name in names:
                    self._ledger.session(name).clear()

        await to_the_end(delete)

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the subpaths of the subagents' transcripts under a session."""
        where = _checked(key)
        return await asyncio.to_thread(lambda: list(self._below(where)))

    # --- on a thread ---------------------------------------------------------------------------------------------

    def _session(self, key: Key) -> Session:
        return self._ledger.session(_name(key), project=self._project)

    def _append(self, key: Key, entries: Sequence[Entry]) -> None:
        with self._ledger.batch(whole=True):
            session = self._session(key)
            begins, known = session.id is None, self._known(session, entries)
            new: list[Entry] = []
            for entry in entries:
                uuid = _uuid(entry)
                if uuid and uuid in known:
                    continue
                known.add(uuid)
                new.append(entry)
            is_subagent = "subpath" in key
            extend(session, new, worded=lambda entry: _message(entry, is_subagent=is_subagent), bare=_bare)
            if begins and session.id is not None:  # no pattern keeps the session out
                names = {"project_key": PROJECT, "session_id": SESSION, "subpath": SUBPATH}
                session.set_metadata({names[name]: str(value) for name, value in key.items()})

    @staticmethod
    def _known(session: Session, entries: Sequence[Entry]) -> set[str]:
        """Return the uuids of entries that a session has, by a look at every message for many entries."""
        uuids = set(filter(None, map(_uuid, entries)))
        if len(uuids) > MANY:
            messages = session.messages(limit=PAGE).all()
            return uuids.intersection(str(message.metadata.get("uuid")) for message in messages)
        return {uuid for uuid in uuids if session.messages(metadata={"uuid": uuid}, limit=1)}

    def _entries(self, key: Key) -> Iterator[Json]:
        messages = self._session(key).messages(limit=PAGE, oldest_first=True).all()
        return (message.raw for message in messages if message.raw is not None)

    def _main(self, project_key: str) -> Iterator[tuple[str, SessionInfo]]:
        for info in self._ledger.sessions.list(metadata={PROJECT: project_key}, limit=PAGE).all():
            if info.messages and SUBPATH not in info.metadata:
                yield str(info.metadata[SESSION]), info

    def _below(self, key: Key) -> dict[str, str]:
        """Return the names of the sessions of a transcript's subagents by their subpaths."""
        pairs = {PROJECT: str(key["project_key"]), SESSION: str(key["session_id"])}
        infos = self._ledger.sessions.list(metadata=pairs, limit=PAGE).all()
        return {str(info.metadata[SUBPATH]): info.id for info in infos if info.messages and SUBPATH in info.metadata}


def _checked(key: Key) -> Key:
    """Return the key of a transcript.

    Raises:
        RejectedError: A part of the key is missing or no text.
    """
    fields = ("project_key", "session_id", "subpath")
    where = {name: key[name] for name in fields if key.get(name) is not None}
    for name in (*fields[:2], *(("subpath",) if "subpath" in where else ())):
        if not isinstance(where.get(name), str) or not where[name]:
            raise RejectedError(
                f"the key of a transcript has the texts project_key and session_id, and subpath only for a subagent; its {name}"
                f" is {where.get(name)!r:.40}"
            )
    return where


def _name(key: Key) -> str:
    names = [str(key[name]).replace("%", "%25").replace("/", "%2F") for name in ("project_key", "session_id")]
    return "/".join(["claude", *names, *([str(key["subpath"])] if "subpath" in key else ())])


def _uuid(entry: Entry) -> str:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) and uuid.strip() and len(uuid) <= UUID_CHARS else ""


def _bare(entry: Entry) -> dict[str, object]:
    uuid = _uuid(entry)
    return {"role": "assistant", "raw": entry, "metadata": {"uuid": uuid} if uuid else {}}


def _message(entry: Entry, *, is_subagent: bool) -> dict[str, object]:
    """Return an entry as a message with its words; what no person and no agent said to a person is ``raw`` alone."""
    message, at = _bare(entry), entry.get("timestamp")
    if isinstance(at, str) and _TIME.fullmatch(at):
        message["created_at"] = at
    if not is_subagent:
        role, text = said(entry)
        message |= {"role": role, "content": text} if text else {}
    return message


def _mtime(info: SessionInfo) -> int:
    return int(datetime.fromisoformat(info.updated_at).timestamp() * 1_000)
