"""How the answers of the guards look: what is in quarantine, and what a scan of everything stored came to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, listing, moment
from ledger.domain.harmless import one_line
from ledger.guards.answers import Quarantined, ScanReport


def listed(found: Sequence[Quarantined]) -> RenderableType:
    rows = [[Text(one_line(str(each))) for each in _row(held)] for held in found]
    return listing("pos", "what", "found", "when", rows=rows, right=["pos"])


def _row(held: Quarantined) -> tuple[object, ...]:
    found = f"{held.finding} ({held.scanner})" if held.scanner else "put there by somebody"
    return held.position, f"{held.kind} {held.id}", found, moment(held.recorded_at)


def held(found: answers.Memory | Quarantined) -> RenderableType:
    """A memory or a text after a command."""
    from ledger.cli.showing import changed

    if isinstance(found, answers.Memory):
        return changed(found)
    status = "in quarantine" if found.quarantined else "not in quarantine"
    return Text(one_line(f"{found.kind} {found.id} at position {found.position}: {status}"))


def rescanned(found: ScanReport) -> RenderableType:
    counts = {name: f"{getattr(found, name):,}" for name in ("memories", "texts", "quarantined", "released")}
    card = card_of({"scanners": ", ".join(found.scanners), **counts, "secrets": f"{found.secrets_found:,}"})
    rows = [[Text(one_line(str(each))) for each in (one.position, one.field, one.kind)] for one in found.secrets]
    hint = Text("only erase(position=…) takes a secret out of the log", style="dim")
    return Group(card, listing("pos", "field", "secret", rows=rows, right=["pos"]), hint) if rows else card
