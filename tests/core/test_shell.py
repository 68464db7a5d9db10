"""Commands in messages have the options that name a ledger and a user, quoted for the shell."""

from __future__ import annotations

import pytest

from ledger.core.shell import command, shell_options, with_options
from ledger.log import platform


@pytest.fixture(autouse=True)
def posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "HAS_POSIX_SHELL", True)


def test_a_command_has_the_options_that_it_does_not_name_itself_quoted_for_the_shell() -> None:
    options = shell_options("my files/memory.db", "")
    assert command("review", options) == "memory-ledger review --db 'my files/memory.db' --user ''"
    assert command("web --user NAME", options) == "memory-ledger web --user NAME --db 'my files/memory.db'"
    assert command("review", shell_options(None, None)) == "memory-ledger review"
    assert with_options("`memory-ledger on` or `policy`", shell_options("a.db", None)) == (
        "`memory-ledger on --db a.db` or `policy`"
    )


def test_on_windows_a_word_with_a_blank_stands_in_double_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "HAS_POSIX_SHELL", False)
    options = shell_options("C:\\my files\\memory.db", "ada")
    assert command("review", options) == 'memory-ledger review --db "C:/my files/memory.db" --user ada'
