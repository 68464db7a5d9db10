"""The namespace ``ledger.maintenance``: numbers, the doctor, rebuild, backup and export."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledger.care import answers, care, rebuilding
from ledger.core.area import LIMIT, Area, callback, page
from ledger.core.steps import Stopping
from ledger.log.paths import StrPath
from ledger.types import Cancel, Page

if TYPE_CHECKING:
    from ledger.core.engine import Engine

Progress = Callable[[int, int], None]


class MaintenanceRead(Area):
    """The numbers of a ledger, now or at a moment of the past."""

    def stats(self) -> answers.Stats:
        """Return counts of this user, sizes of the file in bytes, and the position of each projection."""
        return care.stats(self._engine, self._scope.user)


class Maintenance(MaintenanceRead):
    """The care of a file, for its operator."""

    _engine: Engine

    def users(self, *, limit: int = LIMIT, after: str | None = None) -> Page[str]:
        """List the users that have events in this file, by name."""

        def fetch(count: int, start: str | None) -> list[str]:
            return care.users(self._engine, count, start)

        return page("users", {}, limit, after, fetch, str)

    def doctor(self, *, progress: Progress | None = None) -> answers.DoctorReport:
        """Examine this file and the place where it is, and report every problem with its remedy; nothing is changed.

        Args:
            progress: Called with (steps done, steps).
        """
        from ledger.care import doctor

        return doctor.doctor(self._engine, progress=callback(progress))

    def rebuild(
        self,
        name: str | None = None,
        *,
        digest: bool = True,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Progress | None = None,
    ) -> answers.RebuildReport:
        """Compute every projection again from the log and switch to the result; others go on meanwhile.

        The rebuild is recorded in the log.

        Args:
            name: The projection to switch, as ``stats().projections`` names it, with those that read its rows; the
                whole log is read all the same. None for every projection.
            digest: False leaves the digest out of the report, which saves a seventh of the time; ``proof.digest``
                computes it too.
            timeout: Seconds after which the rebuild stops; the tables then stay as they were, and ``stopped`` says so.
                The same call begins again.
            cancel: An event or a function that says when to stop, as with ``timeout``.
            progress: Called with (events done, events).

        Raises:
            ConflictError: Another rebuild runs, or a batch is open.
            StorageError: The log is damaged.
        """
        stopping = Stopping(timeout, cancel)
        return rebuilding.rebuild(
            self._engine, name, digest=digest, progress=callback(progress), asker=self._scope, stopping=stopping
        )

    def backup(self, path: StrPath, *, progress: Progress | None = None) -> answers.BackupReport:
        """Write a checked copy of the whole file while others go on reading and writing.

        Args:
            path: A path where nothing exists. The copy holds every text and the ledger's secret.
            progress: Called with (bytes written, about how many bytes in all).
        """
        from ledger.care import backing_up

        return backing_up.backup(self._engine, path, progress=callback(progress))

    def export_log(self, path: StrPath, *, progress: Progress | None = None) -> answers.ExportReport:
        """Write every event as a line of JSON, for ``Ledger.import_log``.

        Args:
            path: A path where nothing exists. The file holds every text and the ledger's secret.
            progress: Called with (events written, events).
        """
        from ledger.care import transfer

        return transfer.export_file(self._engine, path, progress=callback(progress))
