"""The command line: every command answers, fails with one line and the right code, and shows stored texts harmlessly."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from command_line import answer, run
from cyclopts import App
from hostile import EVIL, RAW
from places import ROOT
from reads import READERS, named, prepared, put

from ledger import Ledger
from ledger.cli import derive, docstrings, views
from ledger.cli.derive import BY_HAND, command_parameters, root
from ledger.cli.methods import AREAS, SHORT, Method, of_area, of_ledger
from ledger.cli.terminal_text import as_json, shortened, visible
from ledger.domain.text import one_line


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """A ledger that no test changes, with one of everything, and the ids in it."""
    db = str(tmp_path_factory.mktemp("filled") / "memory.db")
    with Ledger.open(db) as ledger:
        fact = ledger.remember("The user drinks coffee.", project="shop")
        turn = ledger.capture("Coffee?", "Yes.", project="shop")
        ledger.propose("The user runs.", sources=[turn.id])
        ledger.projects.set_state("shop", "decision", "db", "sqlite")
        ledger.remember("The user never drinks milk in coffee.")
        notes = ledger.documents.add("# Coffee\n\nDark roasts are roasted longest.\n", tags=["drinks"])
        for city in ("Lisbon", "Rome"):
            ledger.remember(f"Ana lives in {city}.")
            ledger.remember(
                f"On a warm evening in the spring of last year Ana and Bob saw the old town of {city} again."
            )
        ledger.merges.find(threshold=0.8)
        conflict = ledger.conflicts.find().found[0]
        said = ledger.session("chat").append("user", "Is there any coffee?")
        ledger.guards.quarantine(ledger.capture("Nothing to see here.").id)
        seen = ledger.observations.add("The user likes coffee.", [fact.id, turn.id], project="shop")
    ids = {"m_": fact.id, "k_": conflict.id, "o_": seen.id, "i_": turn.id, "d_": notes.id, "c_": notes.chunks[0].id}
    return db, {**ids, "7777": str(said.position)}


def process(*arguments: str, db: str | None = None, **more: object) -> subprocess.CompletedProcess[bytes]:
    where = [] if db is None else ["--db", db]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, "-m", "ledger", *arguments, *where]
    return subprocess.run(command, capture_output=True, env=environment, **more)  # type: ignore[call-overload, no-any-return]


def commands(app: App, *words: str) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command with the words that call it."""
    below = [name for name in app if not name.startswith("-")]
    if not below and words:
        yield words, app
    for name in below:
        yield from commands(app[name], *words, name)


EVERY = dict(commands(root(whole=True)))


# --- every command ---------------------------------------------------------------------------------------------------


def test_every_method_of_the_library_is_a_command() -> None:
    methods = {each.key for area in AREAS for each in of_area(area)} | {each.key for each in of_ledger()}
    shorts = {name: key for key, name in SHORT.items()}
    found = set()
    for words in EVERY:
        area = "" if len(words) == 1 else words[-2]
        name = words[-1].replace("-", "_")
        found.add(shorts.get(words[-1], ("", name)) if not area else (area, name))
    assert methods <= found
    assert {name for _, name in found - methods} == {name.replace("-", "_") for name in BY_HAND}


def test_the_namespaces_are_those_of_a_ledger_and_its_sessions() -> None:
    own = {name for name, value in inspect.getmembers(Ledger) if isinstance(value, property)}
    assert own - {"path", "position", "id"} == AREAS.keys() - {"session", "summaries"}


@pytest.mark.slow
@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_command_has_help_of_80_columns(words: tuple[str, ...]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0 and not result.stderr
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    for option in ("--json", "--db", "--user", "--quiet"):
        assert option in result.stdout
    assert "``" not in result.stdout and "None for None" not in result.stdout


def test_every_argument_and_option_has_help() -> None:
    for words, app in EVERY.items():
        for argument in app.assemble_argument_collection():
            assert argument.parameter.help, (words, argument.name)


def test_an_option_without_help_stops_the_command_line() -> None:
    def undocumented(self: object, *, oddity: str = "") -> None:
        """Do something."""

    with pytest.raises(NotImplementedError, match="oddity"):
        list(command_parameters(Method("memories", "undocumented", undocumented, of_the_past=False)))


def test_version_and_no_arguments() -> None:
    assert re.fullmatch(r"memory-ledger \d+\.\d+\.\d+\n", run("--version").stdout)
    assert run().exit_code == 2


def test_a_life_of_a_memory_in_json(db: str) -> None:
    turn = answer("capture", "Which coffee?", "Dark roast, as always.", "--project", "shop", "--session", "s1", db=db)
    assert (turn["project"], turn["session"], turn["client"]) == ("shop", "s1", "cli")
    fact = answer(
        "remember",
        "The user drinks dark roast coffee.",
        "--kind",
        "preference",
        "--confidence",
        "0.7",
        "--tags",
        "food",
        db=db,
    )
    idea = answer("propose", "The user runs.", "--sources", turn["id"], "--actor", "ann", db=db)
    assert [each["memory"]["id"] for each in answer("review", db=db)] == [idea["id"]]
    assert answer("promote", idea["id"], "--reason", "said so", db=db)["status"] == "active"
    assert answer("reinforce", fact["id"][:9], db=db)["confidence"] == pytest.approx(0.72)
    assert answer("revise", idea["id"], "The user runs daily.", db=db)["content"] == "The user runs daily."
    assert answer("memories", "tag", fact["id"], "--add", "drink", "--remove", "food", db=db)["tags"] == ["drink"]
    tea = answer("supersede", fact["id"], "The user drinks green tea.", "--reason", "changed", db=db)
    assert tea["supersedes"] == fact["id"] and tea["kind"] == "preference"
    assert answer("memories", "get", fact["id"], db=db)["status"] == "superseded"
    assert [hit["memory"]["id"] for hit in answer("recall", "tea", db=db)["items"]] == [tea["id"]]
    assert answer("why", fact["id"], db=db)["superseded_by"][0]["id"] == tea["id"]
    assert [step["type"] for step in answer("history", "events", tea["id"], db=db)] == ["MemoryCaptured"]
    assert len(answer("memories", "confidence", fact["id"], db=db)) == 2
    assert {entry["actor"] for entry in answer("history", "audit", "--actor", "ann", db=db)} == {"ann"}


def test_a_life_of_an_observation_in_json(db: str) -> None:
    cup, mill = (answer("remember", text, db=db)["id"] for text in ("The user drinks coffee.", "The user owns a mill."))
    told = ("--tags", "drinks", "--confidence", "0.8", "--reason", "two facts")
    seen = answer("observations", "add", "The user likes coffee.", cup, mill, *told, db=db)
    assert (seen["proof_count"], seen["confidence"], seen["freshness"], seen["trend"]) == (2, 0.8, "fresh", "new")
    assert [each["id"] for each in answer("observations", "list", "--trends", "new", "--tags", "drinks", db=db)] == [
        seen["id"]
    ]
    assert (
        answer("revise", seen["id"], "The user loves coffee.", "--reason", "better", db=db)["content"]
        == "The user loves coffee."
    )
    assert [each["why"] for each in answer("why", seen["id"], db=db)["wordings"]] == ["formed", "curated"]
    report = answer("observations", "withdraw", cup, "--reason", "a joke", db=db)
    assert (report["stale"], report["failed"]) == ([seen["id"]], [])
    assert run("observations", "list", "--freshness", "stale", "--quiet", db=db).stdout == seen["id"] + "\n"
    assert run("observations", "withdraw", mill, "--quiet", db=db).stdout == seen["id"] + "\n"
    assert [each["retracted"] for each in answer("observations", "list", "--statuses", "retracted", db=db)] == [
        "no_evidence"
    ]
    assert answer("restore", mill, db=db)["id"] == mill
    assert answer("retract", seen["id"], db=db)["status"] == "retracted"
    assert answer("restore", seen["id"], db=db)["proof_count"] == 1
    assert run("observations", "list", "--as-of", "3", db=db).stderr == "memory-ledger: nothing found\n"
    for arguments, code in (
        (["observations", "get", "o_0000"], 3),
        (["observations", "add", "Text."], 2),
        (["observations", "add", "Text.", cup, "--confidence", "1.1"], 4),
        (["observations", "withdraw", "m_0000"], 3),
        (["observations", "list", "--trends", "up"], 2),
        (["observations", "withdraw"], 2),
    ):
        assert run(*arguments, db=db).exit_code == code, arguments


def test_the_shell_hides_and_restores_a_memory(db: str) -> None:
    id = answer("remember", "The shop opens at seven.", db=db)["id"]
    for verb, status in (
        ("retract", "retracted"),
        ("restore", "active"),
        ("invalidate", "invalid"),
        ("restore", "active"),
    ):
        assert answer(verb, id, "--reason", "a reason", db=db)["status"] == status
    assert answer("guards", "quarantine", id, db=db)["quarantined"] is True
    assert answer("guards", "release", id, db=db)["quarantined"] is False
    assert answer("memories", "set-confidence", id, "0.25", db=db)["confidence"] == 0.25
    assert (
        answer("memories", "set-validity", id, "--valid-to", "2030-01-01", "--valid-from", "2020-01-01", db=db)[
            "valid_to"
        ]
        is not None
    )
    assert run("promote", answer("propose", "Maybe.", db=db)["id"], db=db).exit_code == 0
    assert run("reject", id, db=db).exit_code == 4
    assert [(each["command"], each["rule"]) for each in answer("guards", "refusals", db=db)] == [
        ("reject", "transition")
    ]
    candidate = answer("propose", "Maybe so.", db=db)["id"]
    assert answer("reject", candidate, db=db)["status"] == "invalid"


def test_projects_and_trusted_state(db: str) -> None:
    answer("projects", "add", "shop", "--description", "a bakery", db=db)
    assert answer("projects", "add-alias", "shop", "store", db=db)["aliases"] == ["store"]
    answer("projects", "set-state", "store", "decision", "db", "sqlite", db=db)
    answer("projects", "set-state", "store", "decision", "db", "-", db=db, stdin="postgres\n")
    assert [entry["value"] for entry in answer("projects", "state", "shop", db=db)] == ["postgres"]
    assert [entry["value"] for entry in answer("projects", "state", "shop", "--history", db=db)] == [
        "sqlite",
        "postgres",
    ]
    answer("projects", "remove-state", "shop", "decision", "db", "--reason", "gone", db=db)
    assert answer("projects", "get", "store", db=db)["state"] == []
    assert [each["name"] for each in answer("projects", "list", db=db)] == ["shop"]
    assert run("projects", "set-state", "shop", "decision", "db", "x", "--channel", "tool", db=db).exit_code == 4


def test_the_shell_adds_a_response_extracts_and_runs_policies(db: str) -> None:
    turn = answer("capture", "When do we open?", db=db)["id"]
    assert answer("interactions", "add-response", turn, "Decision: the shop opens at seven every morning", db=db)[
        "response"
    ]
    assert answer("extract", turn, "--dry-run", db=db)["dry_run"] is True
    assert len(answer("extract", turn, db=db)["kept"]) == 1
    assert answer("jobs", "run", db=db)["failures"] == 0
    assert answer("policy", "set", "--gain", "0.05", "--decay", "all", "--expire", db=db)["gain"] == 0.05
    assert answer("policy", "get", db=db)["expire"] is True


def test_undo_and_redo(db: str) -> None:
    fact = answer("remember", "The sea is salty.", db=db)
    assert answer("undo", str(fact["position"]), "--dry-run", db=db)["dry_run"] is True
    undone = answer("undo", str(fact["position"]), "--reason", "a slip", db=db)
    assert run("memories", "get", fact["id"], db=db).exit_code == 3
    answer("redo", undone["command_id"], db=db)
    assert answer("memories", "get", fact["id"], db=db)["content"] == "The sea is salty."


def test_import_and_export(db: str, tmp_path: Path) -> None:
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"prompt": "hello"}\n{"promt": "oops"}\n', encoding="utf-8")
    assert run("interactions", "import-file", str(lines), "--strict", db=db).exit_code == 4
    result = run("interactions", "import-file", str(lines), "--project", "shop", "--json", db=db)
    report = json.loads(result.stdout)
    assert result.exit_code == 1, "a line is bad"
    assert (report["captured"], [number for number, _ in report["errors"]]) == (1, [2])
    assert (
        json.loads(run("interactions", "import-file", str(lines), "--project", "shop", "--json", db=db).stdout)["known"]
        == 1
    )
    log, copy = str(tmp_path / "log.jsonl"), str(tmp_path / "copy.db")
    assert "secret" in answer("export-log", log, db=db)["warning"]
    assert "secret" in run("export-log", str(tmp_path / "again.jsonl"), db=db).stdout
    assert answer("import-log", log, db=copy)["position"] == answer("maintenance", "stats", db=db)["position"]
    assert answer("proof", "digest", db=copy) == answer("proof", "digest", db=db)
    assert answer("maintenance", "rebuild", db=copy)["digest"] == answer("proof", "digest", db=copy)
    assert run("import-log", log, db=copy).exit_code == 4
    assert run("interactions", "import-file", str(tmp_path / "none.jsonl"), db=db).exit_code == 3


def test_the_digest_of_beliefs_is_that_of_a_moment(db: str) -> None:
    run("remember", "The sea is salty.", db=db)
    then, position = (
        answer("proof", "digest", "--beliefs", db=db),
        str(answer("maintenance", "stats", db=db)["position"]),
    )  # type: ignore[index]
    run("remember", "The sea is deep.", db=db)
    assert (
        answer("proof", "digest", "--beliefs", "--as-of", position, db=db)
        == then
        != answer("proof", "digest", "--beliefs", db=db)
    )
    refused = run("proof", "digest", "--as-of", position, db=db)
    assert refused.exit_code == 4 and "--beliefs" in refused.stderr


def test_a_key_answers_twice_and_is_said_to(db: str) -> None:
    first, again = (run("remember", "Once.", "--idempotency-key", "k", db=db) for _ in range(2))
    assert first.stdout == again.stdout
    assert "key" in again.stderr and not first.stderr
    assert run("remember", "Other.", "--idempotency-key", "k", db=db).exit_code == 4


def test_users_do_not_see_each_other(db: str) -> None:
    id = answer("remember", "Ann's secret.", "--user", "ann", db=db)["id"]
    assert answer("memories", "list", db=db) == []
    assert run("memories", "get", id, "--user", "bob", db=db).exit_code == 3


def test_occurred_at_and_entities_reach_the_ledger(db: str) -> None:
    turn = answer("capture", "Hello", "--occurred-at", "2026-03-02T18:42:10+01:00", "--channel", "web", db=db)
    assert turn["occurred_at"].startswith("2026-03-02T18:42:10")
    fact = answer("remember", "Ines bakes.", "--entities", "Ines", "--entities", "bakery", "--agent", "helper", db=db)
    assert (fact["entities"], fact["agent"]) == (["Ines", "bakery"], "helper")


# --- where the ledger is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_makes_no_ledger(reader: str, tmp_path: Path) -> None:
    given = map(str, named(READERS[reader], {"message": 1, "place": 1}))
    result = run(*reader.split(), *given, db=str(tmp_path / "none.db"))
    assert (result.exit_code, result.stdout) == (3, "")
    assert re.fullmatch(r"memory-ledger: there is no ledger at .*\n", result.stderr)
    assert list(tmp_path.iterdir()) == []


def test_commands_on_a_subject_make_no_ledger_either(tmp_path: Path) -> None:
    for arguments in (
        ["promote", "m_1"],
        ["undo", "1"],
        ["maintenance", "rebuild"],
        ["jobs", "run"],
        ["export-log", str(tmp_path / "e")],
    ):
        assert run(*arguments, db=str(tmp_path / "none.db")).exit_code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_answers_people_and_programs_and_writes_nothing(reader: str, tmp_path: Path) -> None:
    db = put(tmp_path / "memory.db")
    before = Path(db).read_bytes()
    given = [str(each) for each in named(READERS[reader], prepared()[1])]
    assert answer(*reader.split(), *given, db=db) is not None
    result = run(*reader.split(), *given, db=db)
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "\x1b" not in result.output
    assert Path(db).read_bytes() == before


def test_the_place_comes_from_the_environment_or_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("remember", "Here.").exit_code == 0
    assert (tmp_path / "memory.db").exists()
    result = run("remember", "There.", environment={"LEDGER_PATH": str(tmp_path / "there.db")})
    assert result.exit_code == 0 and (tmp_path / "there.db").exists()


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("these are notes, and no database " * 100, encoding="utf-8")
    for place in (tmp_path, foreign):
        for arguments in (["memories", "list"], ["remember", "x"]):
            result = run(*arguments, db=str(place))
            assert result.exit_code == 4
            assert result.stderr.count("\n") == 1 and result.stdout == ""


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nonsense"], 2),
        (["remember"], 2),
        (["remember", "x", "--nonsense"], 2),
        (["remember", "x", "--confidence", "much"], 2),
        (["policy", "set"], 2),
        (["remember", "x", "--confidence", "nan"], 4),
        (["remember", "x", "--confidence", "1.5"], 4),
        (["remember", "   "], 4),
        (["remember", "x", "--occurred-at", "yesterday"], 4),
        (["remember", "x", "--channel", "dream"], 2),
        (["memories", "list", "--statuses", "odd"], 2),
        (["memories", "get", "m_0000000000000000"], 3),
        (["memories", "get", ""], 3),
        (["memories", "get", "m_"], 3),
        (["promote", "m_"], 3),
        (["promote", "%"], 3),
        (["why", "i_0000000000000000"], 3),
        (["projects", "state", "nowhere"], 3),
        (["extract", "i_0000000000000000"], 3),
        (["undo", "999999"], 3),
        (["undo", "99999999999999999999999"], 3),
        (["interactions", "add-response", "i_0000000000000000", "x"], 3),
    ],
)
def test_bad_input_gets_its_code_and_no_data(
    arguments: list[str], code: int, filled: tuple[str, dict[str, str]]
) -> None:
    before = len(answer("history", "audit", db=filled[0]))
    result = run(*arguments, db=filled[0])
    assert len(answer("history", "audit", db=filled[0])) == before
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("memory-ledger: ") and result.stderr.count("\n") == 1


def test_text_from_standard_input(db: str) -> None:
    assert answer("remember", "-", db=db, stdin="two\nlines\n")["content"] == "two\nlines"
    assert answer("remember", "-", db=db, stdin=b"a\0b")["content"] == "a\0b"
    for data, why in ((b"a" * (1024 * 1024 + 1), "at most"), (b"\xff\xfe", "UTF-8"), (b"", "blank")):
        result = run("remember", "-", db=db, stdin=data)
        assert result.exit_code == 4 and why in result.stderr


def test_only_one_text_comes_from_standard_input(db: str) -> None:
    assert run("capture", "-", "-", db=db, stdin="x").exit_code == 2


def test_an_internal_error_is_printed_in_one_line(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("odd\x1b[2J")

    run("remember", "x", db=db)
    monkeypatch.setattr("ledger.care.care.stats", broken)
    result = run("maintenance", "stats", db=db)
    assert result.exit_code == 70 and result.stderr.count("\n") == 1 and "\x1b" not in result.stderr


def test_an_interrupt_leaves_with_130(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    run("remember", "x", db=db)
    monkeypatch.setattr("ledger.care.care.stats", interrupted)
    assert run("maintenance", "stats", db=db).exit_code == 130


# --- what reaches the terminal ---------------------------------------------------------------------------------------


def test_stored_texts_never_reach_the_terminal_raw(db: str) -> None:
    run("policy", "set", "--threats", "off", db=db)
    given = ("--project", EVIL, "--tags", EVIL, "--actor", EVIL, "--kind", "odd")
    id = answer("remember", EVIL, *given, "--entities", EVIL, db=db)["id"]
    turn = answer("capture", EVIL, EVIL, "--project", EVIL, "--session", EVIL, "--client", EVIL, db=db)["id"]
    answer("reinforce", id, "--source", turn, db=db)
    answer("projects", "set-state", EVIL, "decision", EVIL, EVIL, "--source", EVIL, db=db)
    answer("propose", EVIL + "?", "--sources", turn, db=db)
    answer("retract", id, "--reason", EVIL, db=db)
    answer("restore", id, "--reason", EVIL, db=db)
    with Ledger.open(db) as ledger:
        paper = ledger.documents.add(f"# {EVIL}\n\n{EVIL}", title=EVIL, tags=[EVIL], path=EVIL, project=EVIL)
        ledger.remember("Read.", sources=[paper.chunks[0].id])
        session = ledger.session(EVIL)
        said, _ = session.append("user", EVIL, model=EVIL), session.set_abstract(EVIL)
        session.add_alias(EVIL + EVIL)
        for day in ("1st", "2nd"):
            ledger.remember(f"{EVIL}'s deadline is the {day}.", relations=[(EVIL, "works_at", f"{EVIL} {day}")])
        pair = [ledger.remember(f"{EVIL} {each}").id for each in ("one", "other")]
        ledger.merges.combine(pair, content=f"{EVIL} both", reason=EVIL)
        conflict = ledger.conflicts.find().found[0].id
        seen = ledger.bind(actor=EVIL).observations.add(
            EVIL, [id, turn, paper.chunks[0].id], project=EVIL, tags=[EVIL], reason=EVIL
        )
    subjects = {
        "conflict": conflict,
        "session": EVIL,
        "message": said.position,
        "memory": id,
        "turn": turn,
        "project": EVIL,
        "query": "bold red end",
        "name": "bold red end",
        "document": paper.id,
        "chunk": paper.chunks[0].id,
        "observation": seen.id,
        "earlier": 1,
        "given": "actor=bob",
        "place": said.position,
    }
    for reader, arguments in READERS.items():
        if {*arguments} & {"merge", "summary", "recall", "window"}:
            continue
        result = run(*reader.split(), *[str(subjects.get(each, each)) for each in arguments], db=db)
        assert result.exit_code == 0, result.output
        assert RAW.search(result.output) is None, reader
    shown = run("memories", "get", id, db=db).stdout
    assert "[bold red]b[/] :smile: \\x1b[31mred" in shown and "\\u202e" in shown


def test_json_holds_the_very_text_and_is_harmless_too(db: str) -> None:
    run("policy", "set", "--threats", "off", db=db)
    result = run("remember", EVIL, "--json", db=db)
    assert json.loads(result.stdout)["content"] == EVIL
    assert RAW.search(result.stdout) is None


def test_an_error_shows_what_was_given_harmlessly(db: str) -> None:
    run("remember", "x", db=db)
    result = run("promote", "\x1b[31mred\nm_", db=db)
    assert result.exit_code == 3 and result.stderr.count("\n") == 1 and RAW.search(result.stderr) is None


def test_quiet_prints_ids_only(db: str) -> None:
    id = run("remember", "A short fact.", "--quiet", db=db).stdout
    assert re.fullmatch(r"m_[0-9a-z]{16}\n", id)
    assert run("memories", "list", "-q", db=db).stdout == id
    assert run("recall", "short", "-q", db=db).stdout == id
    empty = run("review", "-q", db=db)
    assert (empty.stdout, empty.stderr) == ("", "")


def test_a_recall_says_when_nothing_fits_and_counts_what_nobody_searched_for(db: str) -> None:
    answer("projects", "set-state", "shop", "decision", "db", "sqlite", db=db)
    answer("remember", "Tea.", "--project", "shop", db=db)
    both = run(
        "recall", "tea", "--project", "shop", "--packing", "shares", "--budget", "200", "--unit", "chars", db=db
    ).stdout
    assert "2 items, 1 searched, 70 of 200 characters, 0 cut" in both
    none = run("recall", "tea", "--budget", "1", "--unit", "chars", db=db).stdout
    assert none.startswith("nothing fits, 1 found, 1 searched, 0 of 1 characters, 1 cut") and "cut: budget" in none
    assert run("recall", "zebra", db=db).stdout == "nothing found, 1 searched\n"


def test_a_recall_shows_observations_in_a_list_of_their_own(db: str) -> None:
    source = answer("remember", "Something dark.", db=db)["id"]
    with Ledger.open(db) as ledger:
        id = ledger.observations.add("The user drinks coffee.", [source]).id
    told = run("recall", "coffee", db=db).stdout
    assert "Observations" in told and id in told and "1 source" in told and "1 observation" in told
    assert [each["id"] for each in answer("recall", "coffee", db=db)["observations"]] == [id]
    assert run("recall", "coffee", "-q", db=db).stdout == id + "\n"
    assert run("recall", "coffee", "--observations", "0", db=db).stdout == "nothing found, 1 searched\n"


def test_relate_and_unrelate_show_what_the_memory_says_of_names(db: str) -> None:
    fact = answer("remember", "Ana took a job.", db=db)
    assert "Ana works_at Acme" in run("graph", "relate", fact["id"], "Ana", "works_at", "Acme", db=db).stdout
    assert "Ana works_at Acme" in run("graph", "unrelate", fact["id"], "Ana", "left", "Acme", db=db).stdout, (
        "it never said that"
    )
    assert EVIL not in run("graph", "relate", fact["id"], "Ana", EVIL, "Bo", db=db).stdout
    run("graph", "unrelate", fact["id"], "Ana", EVIL, "Bo", db=db)
    assert "works_at" not in run("graph", "unrelate", fact["id"], "Ana", "works_at", "Acme", db=db).stdout


def test_messages_go_to_stderr(db: str) -> None:
    run("remember", "Twice.", db=db)
    again = run("remember", "Twice.", "--actor", "other", db=db)
    assert "Twice." in again.stdout and again.stderr.startswith("memory-ledger: known already")
    assert run("review", db=db).stderr == "memory-ledger: nothing found\n"


def test_why_shows_each_step_of_the_confidence(db: str) -> None:
    id = answer("remember", "The user drinks dark roast coffee.", "--kind", "preference", "--confidence", "0.7", db=db)[
        "id"
    ]
    turn = answer(
        "capture", "Well?", "As I noted: the user drinks dark roast coffee, and nothing else before noon.", db=db
    )["id"]
    shown = run("why", id, db=db).stdout
    assert "+0.02" in shown and turn in shown


def test_texts_are_shortened_and_made_visible() -> None:
    assert shortened("word " * 100, 12) == "word word w…"
    assert one_line(" a\r\n\tb\x00 ") == "a b\\x00"
    assert visible("a\nb\u2028") == "a\nb\\u2028"
    assert json.loads(as_json({"a": "\x7f\u202e\U000e0041é"}, ascii_only=True)) == {"a": "\x7f\u202e\U000e0041é"}
    assert visible("👩\u200d🍳 ünï") == "👩\u200d🍳 ünï"


def test_every_view_that_is_named_exists() -> None:
    for name in (*views.ONE.values(), *views.MANY.values()):
        module, _, function = name.partition(".")
        assert callable(getattr(import_module(f"ledger.cli.views.{module}"), function))


# --- as a real process -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_runs_as_a_process(db: str) -> None:
    made = process("remember", "Ein Käse für 3 €.", "--json", db=db)
    assert (made.returncode, made.stderr) == (0, b"")
    assert json.loads(made.stdout)["content"] == "Ein Käse für 3 €."
    surrogate = process("remember", os.fsdecode(b"\xff"), db=db)
    assert (surrogate.returncode, surrogate.stdout) == (4, b"")
    assert surrogate.stderr.count(b"\n") == 1 and b"surrogate" in surrogate.stderr


@pytest.mark.slow
def test_a_terminal_without_utf8_gets_what_it_can_show(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    made = process("remember", "Käse 😀", "--json", db=db)
    assert json.loads(made.stdout.decode("ascii"))["content"] == "Käse 😀"
    run("memories", "set-confidence", json.loads(made.stdout)["id"], "0.98", db=db)
    shown = process("why", json.loads(made.stdout)["id"], db=db)
    assert (shown.returncode, shown.stderr) == (0, b"") and b"0.98" in shown.stdout


@pytest.mark.slow
def test_a_closed_pipe_is_left_quietly(db: str) -> None:
    with Ledger.open(db) as ledger, ledger.batch():
        for number in range(400):
            ledger.remember(f"fact number {number} of many")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ledger", "memories", "list", "--all", "--json", "--db", db]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as reader:
        assert reader.stdout is not None and reader.stderr is not None
        reader.stdout.read(10)
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait() == 141


def test_an_option_before_the_command_is_told_where_it_belongs(db: str) -> None:
    result = run("--db", db, "memories", "list")
    assert result.exit_code == 2 and "behind the command" in result.stderr


def test_help_loads_neither_the_ledger_nor_its_foundation() -> None:
    heavy = "{'eventsourcing', 'pydantic', 'sqlite3', 'ledger.core.engine'}"
    code = f"import sys, ledger.cli; print(sorted({heavy} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_the_source_of_shared_options_is_parsed_once_for_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = docstrings.ast.parse
    monkeypatch.setattr(docstrings.ast, "parse", lambda text: (parsed.append(text), parse(text))[1])
    for cached in (derive.root, derive.command, docstrings.fields_of, docstrings.classes_of_types):
        cached.cache_clear()
    derive.root("session")
    assert len([text for text in parsed if "class WriteOptions(" in text]) == 1
