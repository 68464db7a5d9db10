"""Settings: an argument before the environment before ledger.toml before the default, each with its origin, never a secret."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import needs
import probe
import pytest
from command_line import Result
from command_line import run as run_command
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from places import move_home

from ledger import Ledger, LedgerError, NotFoundError, RejectedError, Settings
from ledger.core.settings import FIELDS, FILE_BYTES

KEY = "sk-0123456789-secret"


def origin(settings: Settings, name: str) -> tuple[Any, str]:
    return next((each.value, each.origin) for each in settings.shown if each.name == name)


def beside(place: Path, text: str, mode: int = 0o600) -> Path:
    """A ledger.toml beside the ledger at this place."""
    path = place.parent / "ledger.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "memory.db"


def test_without_anything_all_is_default_and_there_is_no_model(db: Path) -> None:
    found = Settings.load()
    assert found == Settings() and {each.origin for each in found.shown} == {"default"}
    assert (found.path, found.model, found.summaries) == ("memory.db", None, True)


def test_an_argument_comes_before_the_environment_and_that_before_the_file(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = beside(db, 'user = "file"\nactor = "file"\nagent = "file"\nmodel_timeout = 7\n')
    monkeypatch.setenv("LEDGER_USER", "variable")
    monkeypatch.setenv("LEDGER_ACTOR", "variable")
    found = Settings.load(db, user="argument")
    assert origin(found, "user") == ("argument", "argument")
    assert origin(found, "actor") == ("variable", "LEDGER_ACTOR")
    assert origin(found, "agent") == ("file", str(file))
    assert origin(found, "model_timeout") == (7.0, str(file))
    assert origin(found, "client") == ("", "default")


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("LEDGER_MODEL_TIMEOUT", "2.5", "model_timeout", 2.5), ("LEDGER_MODEL_MAX_TOKENS", "512", "model_max_tokens", 512),
        ("LEDGER_SUMMARIES", "off", "summaries", False), ("LEDGER_SUMMARIES", "1", "summaries", True),
        ("LEDGER_MODEL", "", "model", None), ("LEDGER_USER", "", "user", ""), ("LEDGER_PATH", "x.db", "path", "x.db"),
        ("LEDGER_PATH", "", "path", "memory.db"),
    ],
)  # fmt: skip
def test_variables_are_texts_for_every_type(
    db: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: Any
) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(Settings.load(), name) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LEDGER_MODEL_TIMEOUT", "soon"), ("LEDGER_MODEL_TIMEOUT", "0"), ("LEDGER_MODEL_TIMEOUT", "nan"),
        ("LEDGER_MODEL_TIMEOUT", "inf"), ("LEDGER_MODEL_TIMEOUT", "1e9"), ("LEDGER_MODEL_MAX_TOKENS", "0"),
        ("LEDGER_MODEL_MAX_TOKENS", "1.5"), ("LEDGER_MODEL_TEMPERATURE", "-1"), ("LEDGER_MODEL_TEMPERATURE", "hot"),
        ("LEDGER_SUMMARIES", "perhaps"), ("LEDGER_MODEL_BASE_URL", "ftp://x"), ("LEDGER_MODEL_BASE_URL", "//x"),
        ("LEDGER_MODEL_BASE_URL", f"http://user:{KEY}@host/"), ("LEDGER_MODEL_BASE_URL", f"http://host/?key={KEY}"),
        ("LEDGER_MODEL_API_KEY_ENV", f"{KEY}!"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_origin_and_tells_no_secret(
    db: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(RejectedError, match=f"^{variable}: ") as refused:
        Settings.load()
    assert KEY not in str(refused.value)


def test_a_wrong_value_in_a_file_names_the_file_and_the_setting(db: Path) -> None:
    file = beside(db, 'model_timeout = "soon"\n')
    with pytest.raises(RejectedError) as refused:
        Settings.load(db)
    assert str(refused.value).startswith(f"{file}: model_timeout: ")
    beside(db, "user = 5\n")
    with pytest.raises(RejectedError, match="user: "):
        Settings.load(db)


def test_an_unknown_name_names_the_nearest_known(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(db, 'modle = "x"\n')
    with pytest.raises(RejectedError, match=r"'modle'; did you mean model\?"):
        Settings.load(db)
    beside(db, 'zzzzzz = "x"\n')
    with pytest.raises(RejectedError, match="the settings are: path, user"):
        Settings.load(db)
    with pytest.raises(RejectedError, match=r"'usr'; did you mean user\?"):
        Settings.load(usr="x")
    monkeypatch.setenv("LEDGER_FILE", "of another program")
    assert Settings.load() == Settings()
    monkeypatch.setenv("LEDGER_MODEL_TIMOUT", "3")
    with pytest.raises(RejectedError, match=r"'LEDGER_MODEL_TIMOUT'; did you mean LEDGER_MODEL_TIMEOUT\?"):
        Settings.load()


# --- the file --------------------------------------------------------------------------------------------------------


def test_settings_in_the_working_directory_are_read_only_for_a_named_ledger(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever steps into a foreign folder would otherwise send memories to a server that a stranger named."""
    beside(db, 'model = "local:theirs"\nmodel_base_url = "http://foreign.example/v1"\n')
    Ledger.open(db).close()
    assert Settings.load().model is None, "the default ledger is in the working directory"
    other = db.parent / "elsewhere"
    other.mkdir()
    assert Settings.load(other / "memory.db").model is None
    assert Settings.load(db).model == "local:theirs", "this ledger was named"
    monkeypatch.setenv("LEDGER_PATH", str(db))
    assert Settings.load().model == "local:theirs"


def test_a_file_may_be_named(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = db.parent / "mine.toml"
    place.write_text('path = "sub/my.db"\nuser = "ann"\n', encoding="utf-8")
    place.chmod(0o600)
    beside(db, 'user = "beside"\n')
    monkeypatch.setenv("LEDGER_CONFIG", str(place))
    found = Settings.load()
    value, where = origin(found, "path")
    assert (Path(value), where) == (db.parent / "sub/my.db", str(place))
    assert Settings.load(db).user == "ann", "it stands in the place of the one beside the ledger"
    monkeypatch.setenv("LEDGER_CONFIG", str(db.parent / "nothing.toml"))
    with pytest.raises(NotFoundError, match="LEDGER_CONFIG"):
        Settings.load()


@needs.modes
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o660])
def test_a_file_that_others_may_write_is_refused(db: Path, mode: int) -> None:
    beside(db, 'user = "x"\n', mode)
    with pytest.raises(RejectedError, match="other users can write"):
        Settings.load(db)


@needs.modes
def test_a_file_with_a_key_that_others_may_read_is_refused(db: Path) -> None:
    beside(db, f'model_api_key = "{KEY}"\n', 0o644)
    with pytest.raises(RejectedError, match="holds a key") as refused:
        Settings.load(db)
    assert KEY not in str(refused.value)
    beside(db, 'model_api_key_env = "MY_KEY"\n', 0o644)
    assert Settings.load(db).model_api_key_env == "MY_KEY"
    beside(db, f'model_api_key = "{KEY}"\n', 0o600)
    assert Settings.load(db).model_api_key == KEY


@needs.modes
def test_a_file_of_another_user_is_refused(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(db, 'user = "x"\n')
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if os.getuid() == 0:
        os.chown(db.parent / "ledger.toml", 12345, -1)
    with pytest.raises(RejectedError, match="another user"):
        Settings.load(db)


@pytest.mark.parametrize(
    "data",
    [b"user = ", b"\xff\xfe", b"[[[[", b"x" * (FILE_BYTES + 1), b"user = 'a'\nuser = 'b'", b"a = " + b"[" * 5000],
)
def test_what_is_no_toml_is_refused(db: Path, data: bytes) -> None:
    file = beside(db, "")
    file.write_bytes(data)
    with pytest.raises(RejectedError, match=r"ledger\.toml"):
        Settings.load(db)


@needs.named_pipes
def test_what_is_no_file_is_refused(db: Path) -> None:
    place = db.parent / "ledger.toml"
    place.mkdir()
    with pytest.raises(RejectedError):
        Settings.load(db)
    place.rmdir()
    os.mkfifo(place, 0o600)
    with pytest.raises(RejectedError, match="from a regular file only"):
        Settings.load(db)


def test_the_file_beside_a_ledger_cannot_name_another(db: Path) -> None:
    beside(db, 'path = "other.db"\n')
    with pytest.raises(RejectedError, match="another ledger"):
        Settings.load(db)


@profile(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text().map(str.encode))
def test_no_file_is_a_failure_of_its_own(db: Path, data: bytes) -> None:
    beside(db, "").write_bytes(data)
    try:
        Settings.load(db)
    except LedgerError as refused:
        assert "ledger.toml" in str(refused)


# --- a command as a model ---------------------------------------------------------------------------------------------


COMMAND = ["claude", "-p", "--model", "haiku", "--tools", ""]


def named_by_variable(monkeypatch: pytest.MonkeyPatch, place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(0o600)
    monkeypatch.setenv("LEDGER_CONFIG", str(place))
    return place


def test_a_command_comes_from_an_argument_a_variable_or_a_file_that_the_user_named(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert origin(Settings.load(db, model_command=COMMAND), "model_command") == (COMMAND, "argument")
    file = named_by_variable(monkeypatch, db.parent / "my.toml", f"model_command = {json.dumps(COMMAND)}\n")
    assert origin(Settings.load(db), "model_command") == (COMMAND, str(file))
    monkeypatch.setenv("LEDGER_MODEL_COMMAND", '["ollama", "run", "qwen3"]')
    assert origin(Settings.load(db), "model_command") == (["ollama", "run", "qwen3"], "LEDGER_MODEL_COMMAND")
    monkeypatch.setenv("LEDGER_MODEL_COMMAND", "")
    assert Settings.load(db).model_command is None, "an empty variable takes it away"


@needs.links
@pytest.mark.parametrize("setting", ["model_command = ['x']", "model_command_calls = 9", "model_command_tokens = 9"])
def test_a_file_beside_another_ledger_names_no_command(db: Path, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """Whoever clones a repository with a ledger in it would otherwise run what its owner wrote there."""
    home = db.parent / "home"
    move_home(monkeypatch, home)
    beside(db, setting)
    with pytest.raises(RejectedError) as refused:
        Settings.load(db)
    name = setting.split()[0]
    for allowed in (f"set LEDGER_{name.upper()}", "LEDGER_CONFIG", "~/.memory-ledger/ledger.toml"):
        assert allowed in str(refused.value)
    own = home / ".memory-ledger" / "memory.db"
    own.parent.mkdir(parents=True)
    beside(own, setting)
    assert origin(Settings.load(own), name)[1] == str(own.parent / "ledger.toml")
    (db.parent / "link").symlink_to(own.parent)
    assert Settings.load(db.parent / "link" / "memory.db").origins[name] == str(db.parent / "link" / "ledger.toml")
    (db.parent / "repo" / ".memory-ledger").mkdir(parents=True)
    theirs = db.parent / "repo" / ".memory-ledger" / "memory.db"
    beside(theirs, setting)
    monkeypatch.chdir(db.parent / "repo")
    with pytest.raises(RejectedError, match="names no program to run"):
        Settings.load(".memory-ledger/memory.db")


@pytest.mark.parametrize("text", ["claude -p", '"claude"', "{}", "[", "[" * 5000])
def test_the_variable_of_a_command_is_a_json_list(db: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LEDGER_MODEL_COMMAND", text)
    with pytest.raises(
        RejectedError, match=r'^LEDGER_MODEL_COMMAND: it has to be a JSON list of texts, such as \["claude"'
    ):
        Settings.load(db)


@pytest.mark.parametrize("text", ["[]", "[1]", '["./mine"]', '["bin/mine"]', '[""]', '["a\\u0000b"]', '[["a"]]'])
def test_the_error_of_an_invalid_model_command_names_its_setting(
    db: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LEDGER_MODEL_COMMAND", text)
    with pytest.raises(RejectedError, match=r"^LEDGER_MODEL_COMMAND: "):
        Settings.load(db)


def test_a_command_and_a_model_together_are_refused_with_both_origins(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_MODEL_COMMAND", '["claude"]')
    file = beside(db, 'model = "openai:x"\n')
    with pytest.raises(RejectedError) as refused:
        Settings.load(db)
    assert f"model ({file}) and model_command (LEDGER_MODEL_COMMAND) are both set" in str(refused.value)
    with pytest.raises(RejectedError, match="leave one out"):
        Settings(model="openai:x", model_command=["claude"])
    monkeypatch.setenv("LEDGER_MODEL", "")
    assert Settings.load(db).model_command == ["claude"]


def test_config_shows_a_command_with_its_origin_and_without_a_key(db: Path) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4E5" * 9 + "-AAAA"
    env = {"LEDGER_MODEL_COMMAND": json.dumps(["llm", "--key", key, "-m", "mini"])}
    told = json.loads(run("config", "--db", str(db), "--json", env=env).stdout)
    (found,) = [each for each in told if each["name"] == "model_command"]
    assert found["origin"] == "LEDGER_MODEL_COMMAND"
    assert (found["value"][:2], found["value"][3:]) == (["llm", "--key"], ["-m", "mini"])
    shown = run("config", "--db", str(db), env=env)
    assert key not in shown.output and key not in repr(Settings(model_command=["llm", key]))
    assert '["llm", "--key", ' in shown.stdout


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_a_secret_is_only_set_or_not(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert origin(Settings.load(), "model_api_key") == ("not set", "default")
    found = Settings.load(model_api_key=KEY, model="openai:x")
    assert origin(found, "model_api_key") == ("set", "argument")
    assert KEY not in repr(found) and KEY not in str(found.shown)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert origin(Settings.load(), "model_api_key") == ("not set", "default"), "no model needs it"
    assert origin(Settings.load(model="openai:x"), "model_api_key") == ("set", "OPENAI_API_KEY")
    monkeypatch.setenv("MY_KEY", KEY)
    mine = Settings.load(model="local:x", model_api_key_env="MY_KEY")
    assert origin(mine, "model_api_key") == ("set", "MY_KEY")


# --- what falls back on them -----------------------------------------------------------------------------------------


def test_a_ledger_falls_back_on_them(db: Path) -> None:
    found = Settings.load(db, user="ann", actor="bot", client="desk", agent="helper")
    with Ledger.open(db, settings=found) as ledger:
        fact = ledger.remember("The user drinks tea.")
        (entry,) = ledger.history.audit(subject=fact.id)
        assert (entry.user, entry.actor, entry.client, entry.agent) == ("ann", "bot", "desk", "helper")
    with Ledger.open(db, settings=found, user="bob") as ledger:
        assert ledger.memories.list() == [] and ledger.bind(user="ann").memories.list() != []


def test_without_settings_a_ledger_looks_at_no_environment(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(db, 'user = "file"\n')
    monkeypatch.setenv("LEDGER_USER", "ann")
    monkeypatch.setenv("LEDGER_MODEL", "local:x")
    with Ledger.open(db) as ledger:
        assert ledger.remember("The user drinks tea.").user == ""
        assert probe.model(ledger) is None


# --- the command line ------------------------------------------------------------------------------------------------


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return run_command(*arguments, environment={"COLUMNS": "200", **(env or {})})


def test_config_shows_each_value_with_its_origin_and_no_secret(db: Path) -> None:
    beside(db, 'agent = "helper"\nsummaries = false\n')
    env = {"LEDGER_MODEL": "local:x", "LEDGER_MODEL_API_KEY": KEY}
    told = json.loads(run("config", "--db", str(db), "--json", env=env).stdout)
    assert [each["name"] for each in told] == list(FIELDS)
    found = {each["name"]: (each["value"], each["origin"]) for each in told}
    assert found["path"] == (str(db), "argument") and found["model"] == ("local:x", "LEDGER_MODEL")
    assert found["agent"] == ("helper", str(db.parent / "ledger.toml")) and found["user"] == ("", "default")
    assert found["model_api_key"] == ("set", "LEDGER_MODEL_API_KEY") and found["summaries"][0] is False
    shown = run("config", "--db", str(db), env=env)
    assert "LEDGER_MODEL_API_KEY" in shown.stdout and KEY not in shown.output
    assert not db.exists(), "nothing was opened"


def test_every_command_falls_back_on_the_settings(db: Path) -> None:
    env = {"LEDGER_PATH": str(db), "LEDGER_USER": "ann", "LEDGER_ACTOR": "bot", "LEDGER_PROJECT": "shop"}
    assert run("remember", "The user drinks tea.", env=env).exit_code == 0
    assert run("remember", "The user drinks milk.", "--actor", "eve", "--project", "home", env=env).exit_code == 0
    assert run("capture", "Tea?", "--client", "desk", env=env).exit_code == 0
    with Ledger.open(db, user="ann") as ledger:
        assert {each.project for each in ledger.memories.list()} == {"shop", "home"}
        entries = [*ledger.history.audit(type="MemoryCaptured"), *ledger.history.audit(type="InteractionCaptured")]
        assert [(each.actor, each.client) for each in entries] == [("eve", "cli"), ("bot", "cli"), ("bot", "desk")]
    assert len(json.loads(run("memories", "list", "--json", env=env).stdout)["items"]) == 2, (
        "a read is bounded by no project"
    )
    assert json.loads(run("memories", "list", "--json", "--user", "", env=env).stdout)["items"] == []


def test_a_wrong_setting_is_one_line_and_exit_code_four(db: Path) -> None:
    for env in ({"LEDGER_MODEL_TIMEOUT": "soon"}, {"LEDGER_MODEL": "nobody:x"}, {"LEDGER_MODEL": "local:x"}):
        result = run("remember", "x", "--db", str(db), env=env)
        assert result.exit_code == 4 and result.stderr.count("\n") == 1, result.output
    Ledger.open(db).close()
    assert run("memories", "list", "--db", str(db), env={"LEDGER_MODEL": "local:x"}).exit_code == 0, (
        "a read asks no model"
    )


def test_calls_are_listed(db: Path) -> None:
    Ledger.open(db).close()
    assert json.loads(run("history", "model-calls", "--db", str(db), "--json").stdout)["items"] == []
