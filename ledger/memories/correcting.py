"""The command that corrects the kind, the project and the entities of a memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledger.core.pipeline import Writer
from ledger.core.who import Who
from ledger.core.work import Work
from ledger.domain.text import check_reason, check_word, plural, text_list
from ledger.memories import admission, answers
from ledger.memories import rules as memory_rules
from ledger.memories.commands import change, emit, with_kind
from ledger.memories.rules import MemoryState


def correct(
    writer: Writer,
    asker: Who,
    id: str,
    *,
    kind: str | None = None,
    project: str | None = None,
    entities: Iterable[str] | None = None,
    reason: str = "",
) -> answers.Memory:
    """Correct the kind, the project or the entities of a memory; None keeps the present value."""
    if kind is not None:
        kind = check_word("a kind", kind, memory_rules.KINDS, memory_rules.SYNONYMS)
    names = None if entities is None else text_list("entities", plural("entities", entities))
    request = memory_rules.Correct(kind, entities=names, reason=check_reason("reason", reason))

    def body(work: Work, memory: MemoryState) -> None:
        command = replace(request, entities=work.cleaned(request.entities))
        if project is not None:
            work.project = None  # the event that adds a new project belongs to no project
            project_id = work.project_named(project)
            moved = project_id not in work.together(memory.project)
            work.project = project_id if moved else memory.project
            command = replace(command, moved=moved)
        if memory.status in ("candidate", "active"):
            corrected = replace(memory, kind=kind or memory.kind, project=work.project)
            admission.admit(work, corrected, memory.status, "correct", frees=memory)
        emit(work, memory, command)

    return with_kind(change(writer, asker, "memories.correct", id, body, (id, request, project)))
