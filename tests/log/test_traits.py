"""What each event declares about itself: its traits, the role of every id in it, and what is asked of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import pytest
from examples import EVENTS

from ledger.core import guarding
from ledger.core.work import CHANGING
from ledger.domain.ids import KINDS
from ledger.erasure import planning
from ledger.events import (
    PUT_BACK,
    TYPES,
    VOIDING,
    WAYS_BACK,
    Effect,
    EventData,
    EvidenceAdded,
    EvidenceSource,
    Id,
    MemoriesMerged,
    MemoryCaptured,
    ObservationFormed,
    Ref,
    Role,
    Traits,
    id_fields,
    ids_in,
    of,
    string_fields,
    type_names,
    used_as,
)
from ledger.guards import quarantining
from ledger.history.citations import ATTEMPTS
from ledger.log.registry import given_ids
from ledger.undo import in_effect, origin_plan, targets, undo_plan
from projections.core.projector import FAMILIES

GOVERNED = get_args(get_type_hints(Traits)["governs"])


def without_traits(kinds: list[type[EventData]]) -> list[str]:
    return [kind.__name__ for kind in kinds if not isinstance(vars(kind).get("traits"), Traits)]


def without_role(kind: type[Any]) -> list[str]:
    return [".".join(each.path) for each in id_fields(kind) if each.ref is None]


def wrong(traits: Traits) -> list[str]:
    """The traits that are no words of the catalogue."""
    found = [traits.effect] if traits.effect not in get_args(Effect) else []
    return found + ([traits.governs] if traits.governs not in GOVERNED else [])


# --- every event declares them ---------------------------------------------------------------------------------------


def test_every_event_has_traits_of_its_own() -> None:
    assert without_traits(list(TYPES.values())) == []


def test_an_event_without_traits_is_noticed() -> None:
    class Careless(EventData, frozen=True):
        """It says nothing."""

    class Heir(MemoryCaptured, frozen=True):
        """It would have another's."""

    assert without_traits([Careless, Heir, MemoryCaptured]) == ["Careless", "Heir"]


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_every_id_has_a_role(kind: type[EventData]) -> None:
    assert without_role(kind) == []


def test_an_id_without_a_role_is_noticed_wherever_it_lies() -> None:
    class Part(msgspec.Struct):
        what: Id

    class Careless(EventData, frozen=True):
        one: Id | None
        named: Annotated[Id, Ref("about")]
        several: tuple[Id, ...] = ()
        parts: tuple[Part, ...] | None = ()

    Careless.__annotations__ |= {"parts": tuple[Part, ...] | None}  # its hints are of this function
    assert without_role(Careless) == ["one", "several", "parts.what"]


def test_traits_and_roles_are_words_of_the_catalogue() -> None:
    assert [name for name, kind in TYPES.items() if wrong(kind.traits)] == []
    roles = {each.ref.role for kind in TYPES.values() for each in id_fields(kind) if each.ref is not None}
    assert roles == set(get_args(Role)), "and there is no role that nothing has"


def test_a_wrong_trait_is_noticed() -> None:
    planned = Traits("forever", governs="weather")  # type: ignore[arg-type]
    assert wrong(planned) == ["forever", "weather"]


def test_the_ids_of_an_event_are_found_by_their_role() -> None:
    merged = MemoriesMerged("m_1", ("m_2", "m_3"), "near/1")
    assert list(ids_in(merged, "rests_on")) == ["m_1", "m_2", "m_3"]
    assert not list(ids_in(merged, "cites"))
    formed = ObservationFormed(
        "Tea", 1, "proof/1", "rule", (EvidenceSource("m_1", ""), EvidenceSource("i_1", "")), ("m_1",)
    )
    assert list(ids_in(formed, "cites", needs="any")) == ["m_1", "i_1"]
    assert list(ids_in(formed, "cites", needs="all")) == ["m_1"]
    assert list(ids_in(MemoryCaptured("Tea", "fact", "active", 1), "replaces")) == []


# --- what is asked of them: a change of traits shows here -------------------------------------------------------------


ACTS = {"CommandUndone", "CommandRedone", "OriginDistrusted", "OriginTrusted"}
FOR_GOOD = {
    *("LedgerCreated", "LedgerUpgraded", "LedgerBranched", "ContentErased", "ErasureCompleted", "CheckpointSealed"),
    *("LegalHoldPlaced", "LegalHoldReleased", "ProjectionSuspended", "ProjectionResumed", "ProjectionsRebuilt"),
    "WriteRefused",
}
SAYING = {
    *("CommandAnswered", "RecallDelivered", "ModelCalled", "ModelCallFailed", "CompactionSkipped", "WindowAssembled"),
}
ASKED: dict[str, tuple[Any, set[str]]] = {
    "acts on events": (WAYS_BACK, ACTS),
    "acts by their trait": (of(effect="act"), ACTS),
    "acts that make void": (VOIDING, {"CommandUndone", "OriginDistrusted"}),
    "acts that make void, in an undo": (targets.VOIDING_TYPES, {"CommandUndone", "OriginDistrusted"}),
    "acts that end another": (PUT_BACK, {"CommandRedone", "OriginTrusted"}),
    "names": (in_effect.NAMES, {"ProjectRegistered", "SessionOpened"}),
    "lasting": (in_effect.LASTING, FOR_GOOD | {"CommandRedone", "OriginTrusted"}),
    "inert": (in_effect.INERT, SAYING),
    "what an undo leaves": (undo_plan._NEVER_UNDONE, FOR_GOOD | ACTS),
    "what a distrust leaves": (origin_plan._NEVER_DISTRUSTED, FOR_GOOD | SAYING),
    "whole commands": (origin_plan._WHOLE, {"MemoriesMerged", "ConflictResolved"}),
    "attempts at a memory": (ATTEMPTS, {"MemoryCaptured", "DuplicateAbsorbed"}),
    "what rests on its sources": (
        in_effect._INDEPENDENT_OF_CAUSE,
        {"ObservationFormed", "EvidenceAdded", "ConsolidationCompleted", "ConsolidationFailed", "ModelCalled"},
    ),
    "what gives a place a name": (
        of(governs=("project", "session")),
        {"ProjectAliasAdded", "ProjectJoined", "ProjectLinked", "ProjectRenamed", "SessionAliasAdded"},
    ),
    "what a writer keeps and must read again": (
        CHANGING,
        ACTS
        | {
            "PolicyAdopted",
            "ProjectAliasAdded",
            "ProjectJoined",
            "ProjectLinked",
            "ProjectRenamed",
            "SessionAliasAdded",
        },
    ),
    "what repeats texts, of the ledger's own": (
        planning._WITH_TEXT,
        {"RecallDelivered", "ModelCalled", "ConsolidationCompleted", "ConsolidationFailed"},
    ),
    "names of a session": (planning._NAMING, {"SessionOpened", "SessionAliasAdded"}),
}


@pytest.mark.parametrize(("answer", "expected"), ASKED.values(), ids=ASKED)
def test_each_question_has_exactly_this_answer(answer: Any, expected: set[str]) -> None:
    told = [each if isinstance(each, str) else each.__name__ for each in answer]
    assert sorted(told) == sorted(expected)


def test_what_cites_anything_may_have_a_text_where_an_id_should_be() -> None:
    given = {name: fields for name in TYPES if (fields := given_ids(name))}
    used = ("memories_used", "chunks_used")
    assert given == {"InteractionCaptured": used, "ResponseAttached": used}


def test_the_sources_of_which_any_is_enough() -> None:
    any_of = [kind for kind in TYPES.values() if any(each.ref and each.ref.needs == "any" for each in id_fields(kind))]
    expected = {"MemoryCaptured", "DuplicateAbsorbed", "ObservationFormed", "EvidenceAdded"}
    assert set(type_names(any_of)) == expected
    assert list(ids_in(EvidenceAdded((EvidenceSource("m_1", ""),), "rule"), "cites", needs="any")) == ["m_1"]


EDGE = ("subject", "relation", "object")
USED: dict[str, tuple[Any, dict[str, Any]]] = {
    "names": (
        guarding.NAMES,
        {
            **dict.fromkeys(("ProjectRegistered", "ProjectRenamed", "ProjectStateSet", "SessionOpened"), ("name",)),
            "ProjectLinked": ("path", "machine"),
            **dict.fromkeys(("ProjectAliasAdded", "SessionAliasAdded"), ("alias",)),
            "DocumentAdded": ("path",),
            "RelationAdded": EDGE,
            "ValuePut": ("namespace", "name", "fields"),
            "ValueMoved": ("namespace", "name"),
        },
    ),
    "names repeated": (
        guarding.REPEATED,
        {
            "OriginDistrusted": ("origin",),
            "ProjectStateInvalidated": ("name",),
            "RelationRemoved": EDGE,
            "MemoryRetagged": ("removed", "unset"),
            "SessionDescribed": ("unset",),
        },
    ),
    "beliefs": (
        guarding.BELIEFS,
        {
            "MemoryCaptured": ("content", "entities", "tags", "metadata"),
            "DuplicateAbsorbed": ("content", "entities", "tags", "metadata"),
            "MemoryRevised": ("content",),
            "MemoryRetagged": ("added", "metadata"),
            "MemoryCorrected": ("entities",),
            "RelationAdded": EDGE,
            "ProjectStateSet": ("name", "value"),
            "ObservationFormed": ("content",),
            "ObservationRevised": ("content",),
            "ValuePut": ("content",),
        },
    ),
    "kept as it was given": (guarding.EXACT, {"ValuePut": ("content",)}),
    "JSON of other programs": (guarding.ENCODED, {"MessageAppended": ("raw",)}),
    "material": (
        guarding.MATERIAL,
        {
            "InteractionCaptured": ("prompt", "response", "summary", "metadata"),
            "ResponseAttached": ("response", "summary", "metadata"),
            "MessageAppended": ("content", "reasoning", "parts", "speaker", "metadata"),
            "ChunkAdded": ("content", "heading_path", "own"),
            "SummaryCreated": ("content",),
            "AbstractSet": ("content",),
        },
    ),
    "quotes of what was said elsewhere": (
        used_as("quotes"),
        {
            "RecallDelivered": ("query", "warnings"),
            "ModelCalled": ("texts",),
            **dict.fromkeys(("ConsolidationCompleted", "ConsolidationFailed"), ("tags",)),
        },
    ),
    "words of people's own": (
        guarding.CODED,
        dict.fromkeys(("MemoryCaptured", "DuplicateAbsorbed", "MemoryCorrected"), ("kind",)),
    ),
    "what is quarantined by its position": (
        quarantining.TEXTS,
        {
            "InteractionCaptured": "interaction",
            "ResponseAttached": "response",
            "MessageAppended": "message",
            "ChunkAdded": "chunk",
            "SummaryCreated": "summary",
            "AbstractSet": "summary",
            "ProjectStateSet": "state",
            "ObservationFormed": "observation",
            "ObservationRevised": "observation",
            "ValuePut": "value",
        },
    ),
}


@pytest.mark.parametrize(("answer", "expected"), USED.values(), ids=USED)
def test_each_use_of_a_text_has_exactly_these_fields(answer: Any, expected: dict[str, Any]) -> None:
    assert {kind.__name__: fields for kind, fields in answer.items()} == expected


def test_what_recall_gives_is_quarantined_by_its_position_unless_it_is_a_memory() -> None:
    given = {kind for kind in (*guarding.BELIEFS, *guarding.MATERIAL) if kind.__module__ != "ledger.memories.events"}
    assert given == set(quarantining.TEXTS)


def unclaimed(kinds: Iterable[type[EventData]], quotes: Mapping[type[EventData], tuple[str, ...]]) -> list[str]:
    """The texts in these events that are neither a reason nor a name, and quote nothing."""
    own = ("reason", "origin", "model")
    texts = [(kind, field) for kind in kinds for field, what in string_fields(kind).items() if what == "text"]
    return [f"{kind.__name__}.{field}" for kind, field in texts if field not in (*own, *quotes.get(kind, ()))]


def test_every_text_in_an_event_of_the_ledger_itself_goes_with_what_it_quotes() -> None:
    of_ledger = [kind for kind in TYPES.values() if kind.__module__ == "ledger.log.events"]
    assert unclaimed(of_ledger, used_as("quotes")) == []
    assert "RecallDelivered.query" in unclaimed(of_ledger, {}), "and one that does not say so is noticed"


@pytest.mark.parametrize("letter", FAMILIES)
def test_what_begins_a_subject_is_what_its_decider_admits_on_nothing(letter: str) -> None:
    admitted = {name for name, data in EVENTS.items() if FAMILIES[letter].admits(None, data)}
    assert set(type_names(of(begins=KINDS[letter]))) == admitted
