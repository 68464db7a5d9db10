"""The address of a door: loopback unless an address was named, and only requests that name the door are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import RejectedError
from ledger.doors.listening import address, is_loopback, own_names, url


def test_an_address_is_loopback_unless_it_was_named() -> None:
    assert address("", 8765) == ("127.0.0.1", 8765)
    assert address("9000", 8765) == ("127.0.0.1", 9000)
    assert address("[::1]:9000", 8765) == ("::1", 9000)
    assert address("memory.example", 8765) == ("memory.example", 8765)
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.1", "memory.example")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    for text in ("0.0.0.0:80", "[::]:80", "host:port", ":0", "host:70000"):
        with pytest.raises(RejectedError):
            address(text, 8765)


def test_every_address_needs_the_names_that_requests_may_name() -> None:
    with pytest.raises(RejectedError, match="say with --name what requests name"):
        address("0.0.0.0:8766", 8766)
    assert address("0.0.0.0:8766", 8766, is_named=True) == ("0.0.0.0", 8766)
    names = own_names("0.0.0.0", 8766, ["memory", "Notes.example.org", "localhost:8081"])
    assert {"localhost:8766", "memory:8766", "notes.example.org", "localhost:8081"} <= {*names.hosts}
    assert "0.0.0.0:8766" not in names.hosts and "evil.example:8766" not in names.hosts
    assert "https://notes.example.org" in names.origins
    assert own_names("127.0.0.1", 8766, ["memory"]).hosts[:3] == own_names("127.0.0.1", 8766).hosts


@pytest.mark.parametrize("name", ["", "*", "http://memory", "memory/", "memory:port", "a b"])
def test_a_name_that_no_header_can_hold_is_refused(name: str) -> None:
    with pytest.raises(RejectedError, match="--name takes the NAME"):
        own_names("0.0.0.0", 8766, [name])


def test_an_ipv6_address_stands_in_brackets_in_a_url() -> None:
    assert (url("::1", 8765), url("127.0.0.1", 8765)) == ("http://[::1]:8765", "http://127.0.0.1:8765")


def test_the_own_names_of_a_loopback_address_are_all_loopback_names_with_the_port() -> None:
    names = own_names("127.0.0.1", 8766)
    assert names.hosts == ("127.0.0.1:8766", "[::1]:8766", "localhost:8766")
    assert "http://localhost:8766" in names.origins and "http://localhost" not in names.origins
    assert own_names("memory.example", 443).hosts == ("memory.example:443", "memory.example")


def test_a_file_in_the_place_of_an_address_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch()
    with pytest.raises(
        RejectedError, match="is a file, and an address to listen on was asked for: --db names the ledger"
    ):
        address(str(tmp_path / "memory.db"), 8766)
