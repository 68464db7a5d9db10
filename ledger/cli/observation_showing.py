"""What is said of observations, as people read it in a terminal; harmless as everything in ``showing`` is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli import showing
from ledger.cli.pieces import card_of, counted, detailed, listing, moment, short, titled, whole
from ledger.documents import answers as document_answers
from ledger.observations.answers import Evidence, Observation, ObservationSource, WithdrawalReport, Wording

_STYLES = {"active": "green", "unsupported": "yellow", "retracted": "dim", "fresh": "green", "stale": "yellow"}


def ids(answer: Any) -> list[str] | None:
    if isinstance(answer, WithdrawalReport):
        return list(answer.observations)
    return [answer.id] if isinstance(answer, Observation) else showing.ids(answer)


def observations(found: Sequence[Observation]) -> RenderableType:
    rows = [
        [
            Text(each.id),
            _confidence(each),
            Text(str(each.proof_count)),
            Text(each.trend),
            _freshness(each),
            _observation(each),
        ]
        for each in found
    ]
    return listing("id", "conf", "proof", "trend", "fresh", "observation", rows=rows, right=["proof"])


def _observation(found: Observation) -> Text:
    status = "" if found.status == "active" else f"{found.status} {found.retracted}".strip()
    held = "quarantined" if found.quarantined else ""
    return detailed(short(found.content), found.project, status, held, " ".join(f"#{tag}" for tag in found.tags))


def _confidence(found: Observation) -> Text:
    return Text(f"{found.confidence:.2f}", style="bold")


def _freshness(found: Observation) -> Text:
    return Text(found.freshness, style=_STYLES[found.freshness])


def changed(found: Any) -> RenderableType:
    """What a verb that memories and observations share came to."""
    if isinstance(found, answers.Memory):
        return showing.changed(found)
    if isinstance(found, answers.Interaction):
        return showing.interaction(found)
    if isinstance(found, document_answers.Chunk):
        return showing.chunk(found)
    if isinstance(found, document_answers.Document):
        return showing.changed_document(found)
    return observations([found])


def observation(found: Observation) -> RenderableType:
    return Group(card_of(_fields(found)), *titled("Sources", _sources(found.sources) if found.sources else None))


def _fields(found: Observation) -> dict[str, object]:
    retracted = (
        f" ({found.retracted}{f' into {found.merged_into}' if found.merged_into else ''})" if found.retracted else ""
    )
    stale = f" ({found.stale})" if found.stale else ""
    return {
        "id": found.id,
        "observation": whole(found.content),
        "quarantined": "yes: it is not recalled" if found.quarantined else None,
        "status": Text(found.status + retracted, style=_STYLES.get(found.status, "")),
        "confidence": _confidence(found),
        "proof": counted(found.proof_count, "live source"),
        "trend": f"{found.trend} at {moment(found.as_of)}",
        "freshness": Text(found.freshness + stale, style=_STYLES[found.freshness]),
        "project": found.project,
        "tags": ", ".join(found.tags),
        "user": found.user,
        "agent": found.agent,
        "made by": f"{found.consolidator} ({found.rule})",
        "recorded": f"{moment(found.recorded_at)}, worded {moment(found.revised_at)}, at position {found.position}",
    }


def _sources(found: Sequence[ObservationSource]) -> RenderableType:
    rows = [[Text(each.id), Text(moment(each.at)), _counts(each)] for each in found]
    return listing("id", "when", "counts", rows=rows)


def _counts(found: ObservationSource | Evidence) -> Text:
    if found.live:
        return Text("live", style="green")
    return Text(f"withdrawn ({found.withdrawn})" if found.withdrawn else "not live", style="yellow")


def why(answer: answers.Why) -> RenderableType:
    """The evidence of an observation, its wordings, and every event behind it; or why a memory is believed."""
    if not answer.wordings:
        return showing.why(answer)
    found = answer.observation
    gone = {"id": answer.id, "status": "not in force: what made it was undone"}
    parts: list[RenderableType] = [card_of(_fields(found) if found is not None else gone)]
    parts += titled("Evidence", _evidence(answer.evidence) if answer.evidence else None)
    parts += titled("Wordings", _wordings(answer.wordings))
    parts += titled("Events", showing.history(answer.steps))
    return Group(*parts)


def _evidence(found: Sequence[Evidence]) -> RenderableType:
    rows = [[Text(each.id), Text(moment(each.at)), _counts(each), _words(each)] for each in found]
    return listing("id", "when", "counts", "says", rows=rows)


def _words(found: Evidence) -> Text:
    return detailed(short(found.content) if found.content is not None else Text(f"({found.status})", style="dim italic"),
                    "" if found.status in ("active", "there", "gone", "erased") else found.status)  # fmt: skip


def _wordings(found: Sequence[Wording]) -> RenderableType:
    rows = [
        [Text(str(each.position)), Text(moment(each.recorded_at)), _wording(each)]
        for each in found
    ]  # fmt: skip
    return listing("pos", "when", "said", rows=rows, right=["pos"])


def _wording(found: Wording) -> Text:
    by = f"{found.consolidator} by {found.actor}" if found.actor else found.consolidator
    return detailed(short(found.content), found.why, by, found.reason, "" if found.in_effect else "not in force")


def withdrawn(report: WithdrawalReport) -> RenderableType:
    parts = [
        f"{counted(len(report.sources), 'source')} withdrawn from {counted(len(report.observations), 'observation')}: "
        f"{len(report.retracted):,} retracted, {len(report.stale):,} stale"
    ]
    parts += [f"{len(report.failed):,} failed"] if report.failed else []
    rows = [[Text(id), Text("failed", style="red"), Text(why)] for id, why in report.failed]
    rows += [[Text(id), Text("retracted", style="dim"), Text("no source of it is left")] for id in report.retracted]
    rows += [[Text(id), Text("stale", style="yellow"), Text("until its wording was looked at")] for id in report.stale]
    head = Text(", ".join(parts))
    return Group(head, listing("id", "is", "why", rows=rows)) if rows else Group(head)
