"""Who asks: what of it stands in the envelope of each event, and who is looked through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError
from ledger.core.call import Who

SECRET = "password: hunter2x9"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", actor="ana") as ledger:
        yield ledger


def test_whoever_is_bound_stands_in_the_events_and_not_who_it_was_bound_from(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.remember("The tea is hot.")
        ledger.bind(actor="bob", channel="web").remember("The door is open.", client="chat")
        ledger.remember("The cup is full.")
    found = [(each.actor, each.client, each.channel) for each in ledger.history.audit()][:3]
    assert found[::-1] == [("ana", "", "user"), ("bob", "chat", "web"), ("ana", "", "user")]


def test_the_envelope_of_a_changed_one_is_its_own() -> None:
    ana = Who(actor="ana")
    assert ana.envelope == {"actor": "ana", "channel": "user"}
    assert ana.bound({"actor": "bob"}).envelope == {"actor": "bob", "channel": "user"}


def test_a_secret_in_a_name_is_refused_each_time_in_a_batch_too(ledger: Ledger) -> None:
    with ledger.batch():
        for _ in range(2):
            ledger.remember("The tea is hot.")
            with pytest.raises(RejectedError, match="a name has a secret in it"):
                ledger.remember("The door is open.", client=SECRET)
    assert SECRET not in str([each.to_dict() for each in ledger.history.audit()])


@pytest.mark.parametrize("user", [" ", "\t", "\u2003\n"])
def test_a_blank_user_is_refused_and_the_empty_one_is_nobody(ledger: Ledger, tmp_path: Path, user: str) -> None:
    with pytest.raises(RejectedError, match=r'user is blank.*"" is'):
        ledger.bind(user=user)
    with pytest.raises(RejectedError, match=r'user is blank.*"" is'):
        Ledger.open(tmp_path / "memory.db", user=user)
    assert ledger.bind(user="", actor=" ").remember("The tea is hot.").content == "The tea is hot."
