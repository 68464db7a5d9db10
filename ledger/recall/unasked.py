"""Packs with texts that no question matched: the packing by shares, a user's profile, and a project's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ledger.core.engine import ReadingEngine, Snapshot
from ledger.core.reads import LIST_CAP, believed_statuses, id_of_filter
from ledger.domain.text import one_of
from ledger.memories.state import MemoryState
from ledger.projects.answers import StateEntry
from ledger.projects.queries import find as find_project
from ledger.recall.finding import Finder, of_memory
from ledger.recall.ordering import items_of, nowhere_warning, searched_in
from ledger.recall.packs import Item, Pack, finished, inside, sizes
from ledger.recall.request import UNITS, RecallRequest
from ledger.recall.request import size as checked_size
from projections.core.rows import Connection, Scope
from projections.views import control, memories, projects, quarantine
from projections.views.memories import MemoryFilter

PROFILE_KINDS = ("user_profile", "identity", "preference", "rule")  # of memories about the user himself
CONTEXT_KINDS, CONTEXT_ITEMS = ("project", "env"), 10  # rubino's project context
SHARED_ITEMS = 50  # memories of general interest in a pack by shares
STATE_ITEMS = 500  # entries of a project's trusted state in a pack by shares

SHARES = {"state": 20, "identity": 10, "project": 25}
"""ATOCore's shares of the budget in percent: trusted state, identity and preference, memories of the project.
The remainder is for the rest: chunks, turns, and memories of other kinds."""

ENTRY_CHARS = 250
"""The most characters of an entry in a pack by shares, as in ATOCore."""

REST = "rest"


# --- by shares -------------------------------------------------------------------------------------------------------


def by_shares_of(
    finder: Finder, snapshot: Snapshot, request: RecallRequest, scope: Scope, items: Sequence[Item], searched: int,
    warnings: tuple[str, ...],
) -> Pack:  # fmt: skip
    """Return the pack by shares of a request, with the trusted state of its project and memories of general interest."""
    trusted = _trusted_state(snapshot.connection, request.user, request.project) if not request.metadata else []
    if len(trusted) > STATE_ITEMS:
        warnings = (
            *warnings,
            f"the project has {len(trusted):,} entries of trusted state; only {STATE_ITEMS} are considered",
        )
    unasked = _unasked(finder, snapshot, request, scope, items)
    return shared(request, trusted[:STATE_ITEMS], items, unasked, searched, warnings)


def shared(
    request: RecallRequest, trusted: Sequence[Item], items: Sequence[Item], unasked: Sequence[Item], searched: int,
    warnings: tuple[str, ...],
) -> Pack:  # fmt: skip
    """Return the pack by shares: trusted state, then the answers, then memories of general interest."""
    together = [_short(item) for item in (*trusted, *items[: request.limit], *unasked)]
    bands = [band(item, in_project=request.project is not None) for item in together]
    order = in_order(bands)
    shown = [replace(together[at], rank=rank) for rank, at in enumerate(order, 1)]
    room = inside(request.budget, request.unit) or 0
    reasons = by_shares([bands[at] for at in order], sizes(shown, request.unit), room)
    if request.explain:
        beyond = [replace(_short(item), rank=rank) for rank, item in enumerate(items[request.limit :], len(shown) + 1)]
        shown, reasons = [*shown, *beyond], [*reasons, *["rank"] * len(beyond)]
    return finished(shown, reasons, searched, request.budget, request.unit, warnings)


def band(item: Item, *, in_project: bool) -> str:
    """Return the name of ATOCore's share that an item belongs to."""
    if item.source == "state":
        return "state"
    if item.memory is not None and item.memory.kind in PROFILE_KINDS:
        return "identity"
    return "project" if in_project and item.memory is not None and item.memory.project is not None else REST


def by_shares(bands: Sequence[str], sizes: Sequence[int], budget: int) -> list[str]:
    """Return the reasons by ATOCore's shares: each band has its share of the budget, and the last band the remainder.

    An entry that does not fit is passed over, so that it does not keep the other entries of its band out.
    """
    reasons, left = [""] * len(bands), budget
    for band in (*SHARES, REST):
        room = left if band == REST else min(left, budget * SHARES[band] // 100)
        for at, size in enumerate(sizes):
            if bands[at] == band:
                if size > room:
                    reasons[at] = f"share of {band}"
                else:
                    room, left = room - size, left - size
    return reasons


def in_order(bands: Sequence[str]) -> list[int]:
    """Return the places of the entries in the order of the bands; ranks stay in order within each band."""
    order: Mapping[str, int] = {band: at for at, band in enumerate((*SHARES, REST))}
    return sorted(range(len(bands)), key=lambda at: (order[bands[at]], at))


def _short(item: Item) -> Item:
    return replace(item, content=shortened(item.content or ""))


def shortened(text: str, chars: int = ENTRY_CHARS) -> str:
    """Return a text cut to a number of characters, with … for the cut part."""
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def _unasked(
    finder: Finder, snapshot: Snapshot, request: RecallRequest, scope: Scope, items: Sequence[Item]
) -> list[Item]:
    """Return memories that a pack by shares has without a match: identity, preferences and the project's memories.

    The memories with the highest confidence come first.
    """
    if "memories" not in request.among:
        return []
    connection, matches = snapshot.connection, list[MemoryState]()
    known = {item.id for item in items}
    filters = MemoryFilter(
        user=request.user,
        statuses=("active",),
        kinds=request.kinds,
        metadata=request.metadata,
        valid=snapshot.valid or request.now,
    )
    if kinds := [kind for kind in PROFILE_KINDS if kind in (request.kinds or PROFILE_KINDS)]:
        matches += memories.listing(connection, replace(filters, kinds=kinds, projects=scope), limit=SHARED_ITEMS)
    if request.project is not None and isinstance(scope, list):
        matches += memories.listing(connection, replace(filters, projects=scope[1:]), limit=SHARED_ITEMS)
    states = sorted(
        (memory for memory in {memory.id: memory for memory in matches}.values() if memory.id not in known), key=_belief
    )
    policy = control.policy(connection, request.user)
    unasked = [of_memory(state, policy, request.now) for state in states]
    finder.set_shares(unasked)
    for hit in unasked:
        hit.candidate.signals = {"unasked": 1.0}
    return items_of(connection, unasked)


def _belief(state: MemoryState) -> tuple[int, int]:
    return (-state.confidence, -state.row)


def _trusted_state(connection: Connection, owner: str, project: str | None) -> list[Item]:
    state = find_project(connection, owner, project) if project is not None else None
    if state is None:
        return []
    names = StateEntry.__struct_fields__
    rows = projects.state_history(connection, state.id, None, None)
    entries = [StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
    keys = {entry.position: (entry.category, entry.key) for entry in state.state}
    held = {keys[at] for at in quarantine.among(connection, keys)}
    return [
        of_state(state.id, entry)
        for entry in entries
        if entry.to_position is None and (entry.category, entry.name) not in held
    ]


def of_state(project: str, entry: StateEntry) -> Item:
    """Return an entry of a project's trusted state as an item; a person set the entry, so no ranking moves the item."""
    text = f"{entry.category}: {entry.name} = {entry.value}"
    return Item(rank=0, score=0.0, source="state", id=project, content=text, signals={"trusted": 1.0}, state=entry)


# --- the user's profile, and a project's context ---------------------------------------------------------------------


def user_profile(engine: ReadingEngine, user: str, *, kinds: Sequence[str], budget: int, unit: str) -> Pack:
    """Return the active memories of some kinds, newest first, within a budget."""
    return _newest(engine, user, kinds, None, LIST_CAP, checked_size("budget", budget), unit)


def project_context(
    engine: ReadingEngine, user: str, project: str | None, *, budget: int | None = None, unit: str = "chars"
) -> Pack:
    """Return a project's trusted state, then the ten newest memories of the kinds project and env of it or of no project."""
    return _newest(engine, user, CONTEXT_KINDS, project or "", CONTEXT_ITEMS, checked_size("budget", budget), unit)


def _newest(
    engine: ReadingEngine,
    owner: str,
    kinds: Sequence[str],
    project: str | None,
    limit: int,
    budget: int | None,
    unit: str = "chars",
) -> Pack:
    one_of("unit", unit, tuple(UNITS))
    now = engine.now()
    with engine.reading() as connection:
        about = id_of_filter(connection, owner, "p", project)
        trusted = _trusted_state(connection, owner, project)
        filters = MemoryFilter(
            user=owner,
            statuses=believed_statuses(engine.valid, ("active",)),
            kinds=kinds,
            projects=searched_in(connection, owner, project, about),
            valid=engine.valid or now,
        )
        matches = memories.listing(connection, filters, limit=limit)
        policy = control.policy(connection, owner)
        items = items_of(connection, [of_memory(memory, policy, now) for memory in matches])
    ranked = [replace(item, rank=rank) for rank, item in enumerate((*trusted, *items), 1)]
    return with_long(ranked, budget, unit, nowhere_warning(about, project))


def with_long(items: Sequence[Item], budget: int | None, unit: str, warnings: tuple[str, ...]) -> Pack:
    """Return the pack of the items that fit, in their order.

    An item that alone exceeds the budget is shortened to the room that the items before it leave, and ends with "…".
    """
    room, kept, reasons = inside(budget, unit), list[Item](), list[str]()
    left = room
    for item, size in zip(items, sizes(items, unit), strict=True):
        if room is not None and left is not None and size > room:
            item, size = _shortened_to(left, item, unit)
        reasons.append("budget" if left is not None and size > left else "")
        kept.append(item)
        left = left - size if left is not None and not reasons[-1] else left
    return finished(kept, reasons, len(items), budget, unit, warnings)


def _shortened_to(room: int, item: Item, unit: str) -> tuple[Item, int]:
    """Return an item with the longest beginning of its text that fits, and its size; the item itself if nothing fits."""
    fitting_item, fitting_size, shortest, longest = item, room + 1, 2, len(item.content or "") - 1
    while shortest <= longest:
        chars = (shortest + longest) // 2
        shorter = replace(item, content=shortened(item.content or "", chars))
        (size,) = sizes([shorter], unit)
        if size <= room:
            fitting_item, fitting_size, shortest = shorter, size, chars + 1
        else:
            longest = chars - 1
    return fitting_item, fitting_size
