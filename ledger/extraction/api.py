"""The namespace ``ledger.learning``: what an agent or another program finds in the turns that no model has read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from ledger.core.area import Area
from ledger.extraction import answers
from ledger.models.port import ModelAnswer
from ledger.types import Since, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class Learning(Area):
    """The turns that no configured model reads, for a program that has a model of its own."""

    _engine: Engine

    def unread(
        self,
        *,
        budget: int = 6_000,
        session: str | None = None,
        project: str | None = None,
        since: Since | None = None,
    ) -> answers.Unread:
        """Return the oldest turns that no model has read, as a request to a model, and hold them for ten minutes.

        The request is the one that a configured model would get, with the facts that the turns may change. Hand the model's
        answer to ``learn``. Turns that only rules have read count as unread. One reading is of one project, in the order of
        time, so that an older statement never replaces a newer one. Turns without anything to remember are left out. While a
        reader (its actor, client and agent) holds the turns, another reader gets none, and ``held_until`` says how long.

        Args:
            budget: The most tokens of the request, from 2,000 to 100,000.
            session: Read only this session; its name or id.
            project: Read only this project; None for the project of the oldest unread turn, "" for turns without a project.
            since: Read only turns since this time; None for those of the last 90 days.

        Raises:
            RejectedError: The budget is out of bounds.
        """
        from ledger.extraction import learning
        from ledger.extraction.unread import UnreadFilter

        bounds = self._bounds(since, None)
        asked = UnreadFilter(project=project, session=session, since=bounds.get("since"))
        return learning.unread(self._engine, self._scope, asked, budget)

    def count(self, *, session: str | None = None, project: str | None = None, since: Since | None = None) -> int:
        """Return the number of turns that no model has read.

        Args:
            session: Count only this session; its name or id.
            project: Count only this project; None for all, "" for turns without a project.
            since: Count only turns since this time; None for those of the last 90 days.
        """
        from ledger.extraction import learning
        from ledger.extraction.unread import UnreadFilter

        bounds = self._bounds(since, None)
        asked = UnreadFilter(project=project, session=session, since=bounds.get("since"))
        return learning.count(self._engine, self._scope, asked)

    def read_today(self, reader: str = "") -> answers.ReadToday:
        """Return the tokens that readers were given today, by the clock of the ledger in UTC, and handed an answer in for.

        Args:
            reader: Count only readers whose names begin so, such as "mcp/"; "" for every model.
        """
        from ledger.domain.text import check_text
        from ledger.extraction import learning

        return learning.read_today(self._engine, self._scope.user, check_text("reader", reader, blank_allowed=True))

    def learn(
        self,
        token: str,
        answer: str | Mapping[str, object] | ModelAnswer,
        *,
        upto: int | None = None,
        dry_run: bool = False,
        **options: Unpack[WriteOptions],
    ) -> answers.Learned:
        """Record what a model found in the turns of a token, and that the turns were read.

        The answer goes through the same parsing, guards and admission as that of a configured model, in one command, which
        ``undo`` takes back whole. What an agent hands in (the channel "agent") is active at once only with a quote of the
        user's own words, with a confidence of at most 0.6, and otherwise waits for review; so does a change of what a person
        wrote, promoted or revised. An answer that cannot be read records nothing. The same answer again is ``replayed``.

        Args:
            token: The token of ``unread``.
            answer: The model's answer: its text, the object in it, or a ``ModelAnswer`` with its tokens. The object has the
                lists ``add``, ``supersede``, ``retract`` and ``relations``, each of which may be left out.
            upto: The number of the last message that was read; None for all. Only whole turns count as read.
            dry_run: Only return what would be recorded.

        Raises:
            ConflictError: The turns were read, hidden, held or erased meanwhile: call ``unread`` again.
            KeyReusedError: Another answer was handed in with this token.
            RejectedError: The token is no token of this user, or the answer is wrong; the message says what.
        """
        from ledger.extraction import learning

        return learning.learn(self._engine, self._scope.asker(options), token, answer, upto=upto, dry_run=dry_run)

    def correct(
        self,
        id: str,
        content: str | None = None,
        *,
        ended: bool = False,
        reason: str = "",
        quote: str = "",
        session: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Learned:
        """Replace a memory by a successor, or end it, as the user's own words in a session say; else a person decides.

        This is for an agent; a person calls ``supersede`` and ``retract``. The correction takes effect at once if the quote
        stands in one of the user's last 200 messages of the session, and no person wrote, promoted or revised the memory.
        Otherwise a successor waits for review, and so does an end, beside the turn of the user.

        Args:
            id: The memory.
            content: The successor's text; None with ``ended``.
            ended: End the memory without a successor.
            reason: Why.
            quote: The user's words that say so, at least two, exactly as they stand in a message.
            session: The session in which the user said it; its name or id.

        Raises:
            NotFoundError: This user has no such memory.
            RejectedError: Neither or both of ``content`` and ``ended`` were given, the memory is not active or says that
                already, or an end names no session with a recorded turn.
        """
        from ledger.extraction import correcting

        asked = correcting.Correction(id=id, content=content, ended=ended, reason=reason, quote=quote, session=session)
        return correcting.correct(self._engine, self._scope.asker(options), asked)
