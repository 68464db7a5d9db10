"""Tokens: each opens one user's memory, their file tells nobody what they are, and a revoked token ends at once."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import needs
import pytest
from command_line import run

from ledger import NotFoundError, RejectedError, StorageError
from ledger.doors.tokens import PREFIX, TokenFile


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "memory.db")


def test_a_token_names_its_user_until_it_is_revoked(tokens: TokenFile) -> None:
    ada, ben = tokens.make("laptop", "ada"), tokens.make("phone", "ben")
    assert ada.token.startswith(PREFIX) and ada.token != ben.token
    first, second = tokens.check(ada.token), tokens.check(ben.token)
    assert first and second and (first.user, first.name, second.user) == ("ada", "laptop", "ben")
    tokens.revoke("laptop")
    assert tokens.check(ada.token) is None and tokens.check(ben.token) == second
    assert [token.name for token in tokens.list()] == ["phone"]


def test_another_text_than_the_whole_token_is_refused(tokens: TokenFile) -> None:
    assert tokens.check("") is None
    token = tokens.make("laptop", "ada").token
    assert [tokens.check(text) for text in ("", token[:-1], token + "a", token.upper(), "\ud800")] == [None] * 5


@needs.modes
def test_the_file_holds_no_token_and_only_its_owner_may_read_it(tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    assert stat.S_IMODE(os.stat(tokens.path).st_mode) == 0o600
    assert token.removeprefix(PREFIX) not in Path(tokens.path).read_text(encoding="utf-8")


@needs.modes
def test_a_file_that_others_may_read_is_refused(tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    os.chmod(tokens.path, 0o640)
    with pytest.raises(RejectedError, match=r"others may read or write .* chmod 600"):
        tokens.check(token)


@needs.links
def test_a_link_to_the_ledger_has_the_same_tokens(tmp_path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    (tmp_path / "link.db").symlink_to(tmp_path / "memory.db")
    assert TokenFile(tmp_path / "link.db").check(token)


def test_a_name_is_taken_until_its_token_is_revoked(tokens: TokenFile) -> None:
    tokens.make("laptop", "ada")
    with pytest.raises(RejectedError, match="called 'laptop' already"):
        tokens.make("laptop", "ben")
    tokens.revoke("laptop")
    again = tokens.make("laptop", "ben")
    assert tokens.check(again.token) == tokens.list()[0]
    with pytest.raises(NotFoundError, match="token list"):
        tokens.revoke("tablet")
    with pytest.raises(RejectedError, match="1 to 60 printable characters"):
        tokens.make("a\nb", "ada")


def test_a_torn_last_line_is_no_token_and_a_damaged_line_refuses_all(tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with open(tokens.path, "ab") as file:
        file.write(b'{"revoked": "t_')  # the process ended here, and reported nothing
    assert tokens.check(token)
    tokens.make("phone", "ada")
    assert [info.name for info in tokens.list()] == ["laptop", "phone"]
    lines = Path(tokens.path).read_bytes().splitlines(keepends=True)
    Path(tokens.path).write_bytes(b"rubbish\n" + b"".join(lines))
    with pytest.raises(StorageError, match=r"line 1 of .* no token is accepted"):
        tokens.check(token)


def test_a_token_speaks_for_an_agent_unless_it_was_made_for_the_users_own_words(tokens: TokenFile) -> None:
    agent, app = tokens.make("laptop", "ada").token, tokens.make("chat", "ada", channel="user").token
    first, second = tokens.check(agent), tokens.check(app)
    assert first and second and (first.channel, second.channel) == ("agent", "user")
    with pytest.raises(RejectedError, match="'agent' or 'user'"):
        tokens.make("web", "ada", channel="web")  # type: ignore[arg-type]
    lines = Path(tokens.path).read_text(encoding="utf-8").replace('"user"}', '"root"}')
    Path(tokens.path).write_text(lines, encoding="utf-8")
    assert [info.channel for info in tokens.list()] == ["agent", "agent"]


def test_tokens_made_at_the_same_time_are_all_kept(tokens: TokenFile) -> None:
    makers = [threading.Thread(target=tokens.make, args=(f"n{number}", "ada")) for number in range(16)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert {token.name for token in tokens.list()} == {f"n{number}" for number in range(16)}


def test_tokens_are_made_listed_and_revoked_from_a_shell(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    assert run("token", "list", db=db).output == "memory-ledger: nothing found\n"
    made = run("token", "make", "laptop", "--user", "ada", db=db)
    assert made.exit_code == 0 and PREFIX in made.stdout
    listed = run("token", "list", "--json", db=db).stdout
    assert '"laptop"' in listed and '"ada"' in listed and '"agent"' in listed and PREFIX not in listed
    assert run("token", "make", "chat", "--user", "ada", "--channel", "user", db=db).exit_code == 0
    assert run("token", "revoke", "chat", db=db).exit_code == 0
    assert run("token", "make", db=db).exit_code == 2
    unnamed = run("token", "make", "tablet", db=db)
    assert unnamed.exit_code == 2 and "--user" in unnamed.stderr
    assert run("token", "revoke", "tablet", db=db).exit_code == 3
    assert run("token", "revoke", "laptop", db=db).exit_code == 0
    assert TokenFile(db).list() == ()
