"""The ``ledger.interactions`` namespace, which lists and reads captured turns, adds responses, and imports files of turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from msgspec.structs import replace

from ledger.core.area import LIMIT, Area, callback, found, page
from ledger.core.call import Who
from ledger.core.reads import place_in_time
from ledger.core.steps import Stopping
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import NO_PAIRS
from ledger.domain.text import one_of, plural, texts
from ledger.domain.times import moment, with_offset
from ledger.interactions import answers, importing, queries
from ledger.interactions import commands as interaction_commands
from ledger.interactions.dates import DateReader
from ledger.types import Cancel, Metadata, Order, Page, Since, Time, WriteOptions
from projections.views.interactions import InteractionFilter

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class InteractionsRead(Area):
    """The interactions of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        project: str | None = None,
        session: str | None = None,
        client: str | None = None,
        metadata: Metadata | None = None,
        since: Since | None = None,
        until: Since | None = None,
        text: bool = True,
        order: Order = "recorded",
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.Interaction]:
        """List interactions, newest first.

        Args:
            client: Only interactions captured through this program.
            metadata: Only interactions that have all of these keys with exactly these values; None is a value too.
            text: False for a list to choose from: the prompt and the summary, and None for the response and the context.
            order: "recorded", or "occurred" for the order in which they happened, as after an import of old conversations.

        Raises:
            RejectedError: A limit, cursor, order or time is not valid.
        """
        one_of("order", order, get_args(Order))
        by_time = order == "occurred"
        filters: dict[str, object] = {"project": project, "session": session, "client": client, "since": since}
        filters |= {"until": until, "metadata": (pairs := pairs_of.checked(metadata))}
        texts(client=client)
        filter_of_rows = InteractionFilter(
            user=self._scope.user, client=client or None, metadata=pairs, **self._bounds(since, until)
        )

        def fetch(count: int, start: str | None) -> list[answers.Interaction]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    filter_of_rows,
                    project=project,
                    session=session,
                    text=text,
                    limit=count,
                    after=start,
                    oldest_first=oldest_first,
                    by_time=by_time,
                )

        def place(interaction: answers.Interaction) -> str:
            time = moment("occurred_at", interaction.occurred_at)
            return place_in_time(time, interaction.id) if by_time else interaction.id

        return page(
            "interactions",
            filters | {"user": self._scope.user, "order": order},
            limit,
            after,
            fetch,
            place,
            oldest_first=oldest_first,
        )

    def get(self, id: str) -> answers.Interaction:
        """Return an interaction with its texts.

        Raises:
            NotFoundError: This user has no such interaction.
            AmbiguousIdError: Several ids begin so.
        """
        with self._engine.snapshot() as snapshot:
            return found("interaction", id, queries.get(snapshot, self._scope.user, id))


class Interactions(InteractionsRead):
    """The interactions of a user."""

    _engine: Engine

    def add_response(
        self,
        id: str,
        response: str,
        *,
        summary: str = "",
        memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (),
        metadata: Metadata | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Interaction:
        """Add the response to an interaction that was captured without a response; the response cannot be replaced.

        Args:
            response: The text of the response; "" if there is only a summary.
            summary: A summary of the response.
            memories_used: Ids (or their beginnings) of memories that the model had been shown; a response that restates such a
                memory counts as an echo. Other texts are kept, named in ``warnings`` and not counted.
            chunks_used: Ids of chunks that the model had been shown.
            metadata: Further metadata; a key that the interaction already has gets the new value.

        Raises:
            RejectedError: Both texts are blank, or the interaction has a response already.
        """
        return interaction_commands.attach_response(
            self._engine,
            self._scope.asker(options),
            id,
            response,
            summary=summary,
            memories_used=plural("memories_used", memories_used),
            chunks_used=plural("chunks_used", chunks_used),
            metadata=NO_PAIRS if metadata is None else metadata,
        )

    def reinforce(self, id: str, **options: Unpack[WriteOptions]) -> answers.Reinforcement:
        """Search again for memories that a response restates, and reinforce the memories that it has not reinforced yet.

        Returns:
            The memories with their confidence before and after.
        """
        if not isinstance(id, str) or not id.startswith("i_"):
            raise RejectedError(
                f"{id!r:.40} is not the id of an interaction, like i_…; reinforce(id) reinforces a memory"
            )
        return interaction_commands.reinforce_again(self._engine, self._scope.asker(options), id)

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        project: str | None = None,
        strict: bool = False,
        occurred_at: Time | None = None,
        dates: str | None = None,
        zone: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.ImportReport:
        """Capture the interactions of a file; importing the same file again adds nothing.

        The file is JSONL, one object a line, or a JSON list of conversations; either may be gzipped. The time of a line needs an
        offset. The ``date_time`` of a conversation is UTC if it has no offset; if it cannot be read without guessing, the file is
        refused. Without a bound actor the actor is "import", and without a bound client the client of conversations is
        "conversation". The channel is "file" unless another channel than "user" is bound. Reinforcement and extraction are left
        to ``jobs.run``.

        Args:
            path: The file.
            project: The project of lines without a project. A bound client is the client of lines without a client.
            strict: True to write nothing and raise if a line is bad; False to skip bad lines and list the first 1,000.
            occurred_at: The time of lines without a time.
            dates: The format of the file's times as of ``datetime.strptime``, such as "%d.%m.%Y, %H:%M:%S".
            zone: The time zone of times without an offset, such as "Europe/Brussels"; a warning names a time that is doubtful at
                a clock change.
            timeout: Seconds after which the import stops between two commits. Captured lines stay, ``stopped`` has the reason,
                and the same call continues from there.
            cancel: An event or a function that stops the import in the same way.
            progress: A function that is called with (lines done, lines).

        Raises:
            NotFoundError: There is no such file.
            RejectedError: The file is not a regular file, not of these formats, or longer than 4 GiB after decompression; or a
                line is bad and ``strict`` is set; or the date of a conversation cannot be read. Lines of more than 32 MiB and
                conversations of more than 64 MiB are bad.
        """
        channel = self._scope.channel if self._scope.channel != Who().channel else "file"
        asker = self._scope.bound({"actor": self._scope.actor or "import", "channel": channel})
        if occurred_at is not None:
            asker = replace(asker, occurred_at=with_offset("occurred_at", occurred_at))
        return importing.import_file(
            self._engine,
            asker,
            path,
            project=project,
            strict=strict,
            date_reader=DateReader(dates, zone),
            dry_run=dry_run,
            stopping=Stopping(timeout, cancel),
            progress=callback(progress),
        )
