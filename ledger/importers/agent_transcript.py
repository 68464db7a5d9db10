"""The common parts of transcripts of coding agents: turns of a session, of which the last may go on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

from ledger.doors.agent_transcripts import Entry, channel_of, turns
from ledger.importers.records import MovedTurn
from ledger.importers.source import Object, Part, Source

HEADS = 50  # the most files that are looked into to tell the kind


def heads(source: Source) -> Iterator[list[Object]]:
    """Yield the objects on the first lines of the first files, to tell the kind of a source."""
    return map(source.head_objects, islice(source.files(".jsonl"), HEADS))


class AgentTranscript(ABC):
    """A transcript that is being read.

    ``_entries`` keeps the folder of the current line, and whether the last line that counts was the agent's and not an answer.
    """

    def __init__(self, source: Source, part: Part, session: str) -> None:
        self._source, self._part, self._session = source, part, session
        self._folder = ""
        self._is_working = False

    def turns(self) -> Iterator[MovedTurn]:
        """Yield the turns of the transcript, oldest first."""
        for turn in turns(self._entries()):
            # The agent that runs the import writes on: its answer is added by the next hook, or by the next import.
            is_open = turn.is_last and self._is_working and self._part.is_fresh
            yield MovedTurn(
                key=turn.key,
                prompt=turn.prompt,
                response="" if is_open else turn.response,
                session=self._session,
                at=turn.at,
                folder=self._folder,
                channel=channel_of(turn),
            )

    @abstractmethod
    def _entries(self) -> Iterator[Entry]: ...
