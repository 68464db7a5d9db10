"""The parameters of a policy: said once for the log, and once with types for who calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from msgspec.structs import asdict

from ledger import answers
from ledger.domain import confidence
from ledger.domain.policy import CHECKS, OneOf, PolicyState, SwitchOr, checked, policy_of, projects
from ledger.types import PolicyChanges, WriteOptions


def test_a_caller_can_change_every_parameter_and_gives_it_as_it_is_kept() -> None:
    public = {
        name: hint for name, hint in get_type_hints(PolicyChanges).items() if name not in get_type_hints(WriteOptions)
    }
    kept = get_type_hints(PolicyState, include_extras=True)
    assert list(public) == list(kept) == [name for name in answers.Policy.__struct_fields__ if name != "explicit"]
    for name, hint in kept.items():
        assert get_origin(hint) is Annotated, name
        check = CHECKS[name]
        if isinstance(check, OneOf):
            assert get_origin(public[name]) is Literal and set(get_args(public[name])) == set(check.words), name
        elif isinstance(check, SwitchOr):
            assert public[name] == bool | Literal[check.word], name
        elif check is projects:
            assert public[name] == Iterable[str], name
        else:
            assert public[name] is get_args(hint)[0], name


def test_every_default_is_allowed_and_comes_back_from_what_an_event_holds() -> None:
    stored = checked(asdict(PolicyState()))
    assert policy_of(stored) == policy_of({}) == PolicyState()
    assert stored["gain"] == confidence.REINFORCEMENT_DELTA
