"""The importers, which bring in what a person has elsewhere: ``from ledger.importers import import_from``."""

from __future__ import annotations

from ledger.importers.answers import MoveReport as MoveReport
from ledger.importers.api import import_from as import_from
