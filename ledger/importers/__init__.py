"""The importers, which bring in what a person has elsewhere, and the export of memories.

``from ledger.importers import export_to, import_from``
"""

from __future__ import annotations

from ledger.importers.answers import LeaveReport as LeaveReport
from ledger.importers.answers import MoveReport as MoveReport
from ledger.importers.api import export_to as export_to
from ledger.importers.api import import_from as import_from
