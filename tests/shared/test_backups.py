"""Backups of the server: the dump of an owner in both forms, a physical copy, and what machines say after a restore."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_rows import states, write
from soundness import contents

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, shared
from ledger.domain.errors import DivergedError
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

TEA, CELLO = "Ada likes green tea", "Ada plays the cello"


class Owned:
    """A database whose tables belong to another role than the one of the application."""

    def __init__(self, server: Server, *, prepared: bool = True) -> None:
        self.database = server.new_database(prepared=False)
        self.owner = f"owner_{self.database}"
        server.sql(f"CREATE ROLE {self.owner} LOGIN", f"ALTER DATABASE {self.database} OWNER TO {self.owner}")
        self.as_owner, self.as_app = server.url(self.database, self.owner), server.url(self.database)
        if prepared:
            shared.prepare(self.as_owner, role="app")


@pytest.fixture
def dump() -> Iterator[str]:
    """Return a path that the account of the server may write."""
    folder = tempfile.mkdtemp(prefix="dump")
    os.chmod(folder, 0o777)
    yield f"{folder}/dump"
    shutil.rmtree(folder)


def opened(path: Path, url: str) -> Ledger:
    return Ledger.open(path, user="ada", actor="ada", log=url, tenant="acme", machine=path.stem)


@pytest.mark.parametrize("form", ["custom", "plain"])
def test_the_dump_of_an_owner_holds_every_tenant_and_is_restored_as_an_owner(
    server: Server, tmp_path: Path, dump: str, form: str
) -> None:
    old, new = Owned(server), Owned(server, prepared=False)
    with opened(tmp_path / "a.db", old.as_app) as a:
        a.remember(TEA)
        a.erase(a.remember(CELLO).id, reason="she asked")
        head = a.proof.digest()
    write(PostgresLog(old.as_app, "another", "ada"), "1", "2", blobs=[("b_1", b"x")])
    made = server.run("pg_dump", "--format", form, "--file", dump, old.as_owner)
    assert (made.returncode, made.stderr) == (0, "")
    restore = ("pg_restore", "--no-owner", "--exit-on-error", "--dbname", new.as_owner, dump)
    if form == "plain":
        restore = ("psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--file", dump, new.as_owner)
        text = Path(dump).read_text(encoding="utf-8")
        Path(dump).write_text(text.replace(old.owner, new.owner), encoding="utf-8")
    done = server.run(*restore)
    assert (done.returncode, done.stderr) == (0, "")
    assert shared.prepare(new.as_owner, role="app") == shared.prepare(old.as_owner)
    with opened(tmp_path / "b.db", new.as_app) as b:
        assert contents(b) == {TEA}
        b.remember("Ada owns a boat")
    assert states(PostgresLog(new.as_app, "another", "ada").tail(0, 5)) == ["1", "2"]
    with opened(tmp_path / "a.db", old.as_app) as a:
        assert a.proof.digest() == head


def test_a_dump_of_which_row_security_would_take_rows_fails(server: Server, dump: str) -> None:
    alone, owned = server.new_database(), Owned(server)
    write(PostgresLog(server.url(alone), "acme", "ada"), "1")
    write(PostgresLog(owned.as_app, "acme", "ada"), "1")
    for url in (server.url(alone), owned.as_app):
        for more in ((), ("--enable-row-security",)):
            assert server.run("pg_dump", *more, "--file", dump, url).returncode != 0
    assert server.run("pg_dump", "--enable-row-security", "--file", dump, owned.as_owner).returncode == 0
    assert "ada" not in Path(dump).read_text(encoding="utf-8").partition("COPY ledger.events")[0]


def test_a_machine_that_is_level_follows_a_restored_log_and_one_that_is_ahead_diverges(
    server: Server, tmp_path: Path, dump: str
) -> None:
    old, new = Owned(server), Owned(server, prepared=False)
    with opened(tmp_path / "level.db", old.as_app) as level, opened(tmp_path / "ahead.db", old.as_app) as ahead:
        ahead.wait(level.remember(TEA).position)
    assert server.run("pg_dump", "--format", "custom", "--file", dump, old.as_owner).returncode == 0
    with opened(tmp_path / "ahead.db", old.as_app) as ahead:
        lost = ahead.remember(CELLO).position
    assert server.run("pg_restore", "--no-owner", "--dbname", new.as_owner, dump).returncode == 0
    with opened(tmp_path / "level.db", new.as_app) as level:
        assert level.remember("Ada owns a boat").position == lost
    with opened(tmp_path / "ahead.db", new.as_app) as ahead:
        with pytest.raises(DivergedError):
            ahead.wait(1)
        assert contents(ahead) == {TEA, CELLO}
    report = shared.rejoin(tmp_path / "ahead.db", new.as_app)
    assert (report.common, [event.position for event in report.lost]) == (lost - 1, [lost])


def test_a_physical_copy_starts_as_a_server_with_every_event(server: Server, tmp_path: Path, dump: str) -> None:
    owned = Owned(server)
    with opened(tmp_path / "a.db", owned.as_app) as a:
        a.remember(TEA)
    host = ("--host", server.socket, "--username", "postgres")
    copied = server.run("pg_basebackup", *host, "--pgdata", dump, "--wal-method", "stream", "--checkpoint", "fast")
    assert copied.returncode == 0, copied.stderr
    socket = str(Path(dump).parent)
    control = ("pg_ctl", "-w", "-D", dump, "-l", f"{dump}.log", "-o", f'-h "" -k {socket}')
    assert server.run(*control, "start").returncode == 0
    try:
        url = f"postgresql://app@/{owned.database}?host={socket}"
        with opened(tmp_path / "b.db", url) as b:
            assert contents(b) == {TEA}
        with opened(tmp_path / "a.db", url) as a:
            a.remember(CELLO)
    finally:
        assert server.run("pg_ctl", "-w", "-D", dump, "-m", "immediate", "stop").returncode == 0
