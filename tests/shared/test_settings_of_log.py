"""The settings of a shared log: a table of a ledger.toml, or variables."""

from __future__ import annotations

import needs
import pytest

from ledger import Ledger, RejectedError
from ledger.core.settings import Settings

FILE = '[log]\nurl = "postgresql://app:secret@db/ledger"\ntenant = "acme"\nmachine = "web-1"\n'


@pytest.fixture
def path(tmp_path):
    (tmp_path / "ledger.toml").write_text(FILE, encoding="utf-8")
    (tmp_path / "ledger.toml").chmod(0o600)
    return tmp_path / "memory.db"


def test_a_table_of_the_file_names_the_log(path):
    settings = Settings.load(path)
    assert settings.log_url == "postgresql://app:secret@db/ledger"
    assert (settings.log_tenant, settings.log_machine) == ("acme", "web-1")


def test_a_variable_comes_before_the_file(path, monkeypatch):
    monkeypatch.setenv("LEDGER_LOG_MACHINE", "web-2")
    assert Settings.load(path).log_machine == "web-2"


def test_the_password_is_not_shown(path):
    settings = Settings.load(path)
    assert "secret" not in repr(settings)
    assert {setting.name: setting.value for setting in settings.shown}["log_url"] == "postgresql://app:…@db/ledger"


@needs.modes
def test_a_file_with_a_password_that_others_can_read_is_refused(path):
    (path.parent / "ledger.toml").chmod(0o644)
    with pytest.raises(RejectedError, match="other users can read it"):
        Settings.load(path)


def test_an_unknown_setting_of_the_table_is_refused(path):
    (path.parent / "ledger.toml").write_text(FILE + 'tennant = "x"\n', encoding="utf-8")
    with pytest.raises(RejectedError, match="log_tenant"):
        Settings.load(path)


def test_a_tenant_without_a_log_is_refused(tmp_path):
    with pytest.raises(RejectedError, match="without a log"):
        Ledger.open(tmp_path / "x.db", tenant="acme")


def test_a_log_without_a_tenant_is_refused(tmp_path):
    with pytest.raises(RejectedError, match="tenant="):
        Ledger.open(tmp_path / "x.db", log="postgresql://db/ledger")


@pytest.mark.parametrize("tenant", ["acme", None])
def test_a_log_that_is_no_address_of_postgresql_is_refused_before_its_tenant(tmp_path, tenant):
    with pytest.raises(RejectedError, match="is a database of PostgreSQL: postgresql://"):
        Ledger.open(tmp_path / "x.db", log="mysql://db/ledger", tenant=tenant)


def test_a_temporary_ledger_joins_no_log(path):
    with Ledger.temporary(settings=Settings.load(path)) as ledger:
        assert ledger.remember("Ada likes green tea").position == 2


def test_the_table_names_an_address_to_listen_at_and_its_password_is_not_shown(path):
    (path.parent / "ledger.toml").write_text(
        FILE + 'listen_url = "postgresql://app:secret@direct/ledger"\n', encoding="utf-8"
    )
    settings = Settings.load(path)
    assert settings.log_listen_url == "postgresql://app:secret@direct/ledger"
    assert "secret" not in repr(settings)
    assert settings.without_log().log_listen_url is None


def test_an_address_to_listen_at_without_a_log_is_refused(tmp_path):
    settings = Settings.load(tmp_path / "x.db", log_listen_url="postgresql://direct/ledger")
    with pytest.raises(RejectedError, match="without a log"):
        Ledger.open(tmp_path / "x.db", settings=settings)


def test_an_address_to_listen_at_that_is_none_of_postgresql_is_refused(tmp_path):
    settings = Settings.load(tmp_path / "x.db", log_listen_url="https://direct/ledger")
    with pytest.raises(RejectedError, match="'https'"):
        Ledger.open(tmp_path / "x.db", log="postgresql://pooler/ledger", tenant="acme", settings=settings)
