"""The importer of the kind "claude": the export of Claude.ai, as one archive, several archives, or a folder.

Conversations become turns, and the instructions of a project rules of it. What Claude remembers of the person is its own text, so
its statements wait for review. No conversation names its project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.errors import RejectedError
from ledger.importers.records import MovedStatement, MovedTurn, Record
from ledger.importers.source import Object, Part, Source
from ledger.importers.statements import statements
from ledger.importers.summary import candidate

CLIENT = "claude"
_CONVERSATIONS = re.compile(r"(.*/)?conversations([-_]?\d+)?\.json", re.I)
_PROJECTS = re.compile(r"(.*/)?(projects\.json|projects/[^/]+\.json)", re.I)
_MEMORIES = re.compile(r"(.*/)?memories\.json", re.I)
_MANIFEST = re.compile(r"(.*/)?[^/]*manifest[^/]*\.json", re.I)
_OTHERS = re.compile(r"(.*/)?(users|design_chats|custom_styles)\.json|.*\.(html|txt|md)", re.I)
_ARCHIVE = re.compile(rb'"([^"]+\.zip)"', re.I)
_UNSUPPORTED = "This block is not supported on your current device yet."


def recognizes(source: Source) -> bool:
    """Return True for an export of Claude.ai, also for its manifest without the archives that it names."""
    for part in source.files(".json"):
        head = source.head(part)
        if b'"chat_messages"' in head or b'"conversations_memory"' in head or b'"project_memories"' in head:
            return True
        if _PROJECTS.fullmatch(part.name) and b'"prompt_template"' in head:
            return True
        if _MANIFEST.fullmatch(part.name) and _ARCHIVE.search(head):
            return True
    return False


def records(source: Source) -> Iterator[Record]:
    """Yield the projects' instructions, the memories, and the turns of all conversations."""
    parts = list(source.files(".json"))
    _check_manifest(source, parts)
    names = dict[str, str]()
    for part in (part for part in parts if _PROJECTS.fullmatch(part.name)):
        yield from _projects(source, part, names)
    for part in (part for part in parts if _MEMORIES.fullmatch(part.name)):
        yield from _memories(source, part, names)
    for part in parts:
        if _CONVERSATIONS.fullmatch(part.name) or (len(parts) == 1 and not source.is_folder and not names):
            if not _MEMORIES.fullmatch(part.name) and not _PROJECTS.fullmatch(part.name):
                for conversation in source.elements(part):
                    yield from _turns(source, conversation)
        elif not any(form.fullmatch(part.name) for form in (_PROJECTS, _MEMORIES, _MANIFEST, _OTHERS)):
            source.skip("a file of the export that is not known")


def _check_manifest(source: Source, parts: list[Part]) -> None:
    """Raise ``RejectedError`` if a manifest names archives that are not there."""
    for part in (part for part in parts if _MANIFEST.fullmatch(part.name)):
        named = {name.decode("utf-8", "replace").rpartition("/")[2] for name in _ARCHIVE.findall(source.head(part))}
        there = {part.path.replace("\\", "/").rpartition("/")[2] for part in source.parts if part.member}
        if missing := sorted(named - there):
            raise RejectedError(
                f"{part.name} is the list of an export, and {len(missing)} of its archives are not beside it"
                f" ({', '.join(missing)[:200]}): download them into the same folder, and import the folder",
                rule="source",
            )


# --- conversations ---------------------------------------------------------------------------------------------------


def _turns(source: Source, conversation: Object) -> Iterator[MovedTurn]:
    messages = conversation.get("chat_messages")
    if not isinstance(messages, list):
        source.skip("a conversation without messages")
        return
    asked, answers = None, list[str]()
    for message in messages:
        if not isinstance(message, dict):
            source.skip("a message that is no JSON object")
            continue
        sender, text = message.get("sender"), _text(message)
        if sender == "human":
            if asked is not None:
                yield _turn(conversation, asked, answers)
            asked, answers = message, []
        elif sender == "assistant":
            if text and asked is None:
                source.skip("an answer without a question")
            elif text:
                answers.append(text)
        else:
            source.meet(f"sender {sender}")
    if asked is not None:
        yield _turn(conversation, asked, answers)


def _turn(conversation: Object, asked: Object, answers: list[str]) -> MovedTurn:
    title, session = conversation.get("name"), str(conversation.get("uuid") or "")
    return MovedTurn(
        key=str(asked.get("uuid") or f"claude:{session}:{asked.get('created_at')}"),
        prompt=_text(asked),
        response="\n\n".join(answers),
        session=session or None,
        at=asked.get("created_at") or conversation.get("created_at"),
        metadata={"title": title} if isinstance(title, str) and title.strip() else {},
    )


def _text(message: Object) -> str:
    """Return the words of a message: its blocks of text, or else the field text, which is empty in newer exports."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    words = "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
    if words.strip():
        return words
    text = message.get("text")
    return "" if not isinstance(text, str) or text.strip().strip("`").strip() == _UNSUPPORTED else text


# --- projects and memories -------------------------------------------------------------------------------------------


def _objects(source: Source, part: Part) -> Iterator[object]:
    """Yield the elements of a JSON list, or the one value of a file that is no list."""
    for found in source.json(part):
        yield from found if isinstance(found, list) else [found]


def _projects(source: Source, part: Part, names: dict[str, str]) -> Iterator[MovedStatement]:
    for project in _objects(source, part):
        if not isinstance(project, dict) or not isinstance(project.get("name"), str):
            source.skip("a project without a name")
            continue
        id, name = str(project.get("uuid")), str(project["name"])
        names[id] = name
        if isinstance(docs := project.get("docs"), list) and docs:
            source.skip("a document of a project, which documents.add takes", len(docs))
        instructions = project.get("prompt_template")
        if isinstance(instructions, str) and instructions.strip():
            yield MovedStatement(
                key=f"claude:{id}:instructions",
                content=instructions,
                kind="rule",
                at=project.get("updated_at"),
                project=name,
            )


def _memories(source: Source, part: Part, names: dict[str, str]) -> Iterator[MovedStatement]:
    for memories in _objects(source, part):
        if not isinstance(memories, dict):
            source.skip("memories that are no JSON object")
            continue
        texts = {"": memories.get("conversations_memory")}
        if isinstance(of_projects := memories.get("project_memories"), dict):
            texts |= {str(id): text for id, text in of_projects.items()}
        for id, text in texts.items():
            for stated in statements(text) if isinstance(text, str) else ():
                project = names.get(id, id) or None
                yield candidate(
                    CLIENT, stated.text, at=stated.date, kind=stated.kind, heading=stated.heading, project=project
                )
        for name in memories.keys() - {"conversations_memory", "project_memories", "account_uuid"}:
            source.meet(f"memories {name}")
