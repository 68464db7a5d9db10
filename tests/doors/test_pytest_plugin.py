"""The pytest plugin, in a project that tests its own agent: each test here is a run of pytest in a directory of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from ledger import Ledger
from ledger.doors import golden

pytest_plugins = ["pytester"]

CONFTEST = """
from ledger.doors import pytest_plugin

def pytest_addoption(pluginmanager):
    if not pluginmanager.is_registered(pytest_plugin):  # by its entry point
        pluginmanager.register(pytest_plugin, "memory-ledger")

def day(ledger):
    ledger.remember("Ada takes her coffee black.", kind="preference", confidence=0.6, project="Kitchen")
    ledger.remember("Ada lives in Lisbon.", kind="identity")
    ledger.bind(user="ben").propose("Ben plays the cello.")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A user's project, with the plugin as an entry point would load it, and without the plugins of other packages."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\naddopts = '-p no:cacheprovider -p no:unraisableexception'\n")
    pytester.makeconftest(CONFTEST)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*arguments)


def exported(project: pytest.Pytester, name: str = "day.jsonl") -> Path:
    """The log of a day, of a ledger with a clock and ids of its own."""
    path = project.path / name
    with Ledger.open(project.path / "real.db", user="ada") as ledger:
        ledger.remember("Ada takes her coffee black.", kind="preference", confidence=0.6, project="Kitchen")
        ledger.remember("Ada lives in Lisbon.", kind="identity")
        ledger.bind(user="ben").propose("Ben plays the cello.")
        ledger.maintenance.export_log(path)
    return path


# --- ledger ----------------------------------------------------------------------------------------------------------


def test_a_ledger_is_the_same_in_every_test_and_every_run(project: pytest.Pytester) -> None:
    """Ids, times and hashes: a whole export of it could be frozen."""
    project.makepyfile(
        """
        import pytest
        from conftest import day

        @pytest.mark.parametrize("name", ["one", "two"])
        def test_a_day(ledger, name, request):
            day(ledger)
            ledger.maintenance.export_log(request.path.parent / f"{name}.jsonl")
        """
    )
    run(project).assert_outcomes(passed=2)
    one, two = ((project.path / f"{name}.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two and one.count(b"\n") > 5
    assert b'"ledger":"ee6ec04f34ba7b3c9f798ee837f6d5b0"' in one, "and on every machine"


def test_the_clock_of_a_ledger_moves_with_the_test_alone(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from ledger import RejectedError

        def test_a_month_goes_by(ledger, ledger_clock):
            first = ledger.remember("Ada lives in Lisbon.")
            assert ledger.remember("Ada owns a boat.").recorded_at == first.recorded_at == "2026-01-01T12:00:00.000000Z"
            ledger_clock.advance(days=40)
            assert ledger.remember("Ada has a cat.").recorded_at == "2026-02-10T12:00:00.000000Z"
            ledger_clock.set("2026-05-03")
            assert ledger.remember("Ada has a dog.").recorded_at == "2026-05-03T00:00:00.000000Z"
            with pytest.raises(RejectedError, match="offset"):
                ledger_clock.set("2026-05-03 10:00")
        """
    )
    run(project).assert_outcomes(passed=1)


def test_a_marker_gives_the_options_of_open_and_the_nearest_wins(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.ledger(user="ada", actor="planner")

        def test_of_the_module(ledger):
            assert ledger.remember("Ada has a cat.").user == "ada"

        @pytest.mark.ledger(user="ben")
        def test_its_own(ledger):
            assert ledger.remember("Ben has a cat.").user == "ben"
            assert ledger.history.audit()[0].actor == "planner"
        """
    )
    run(project, "--strict-markers").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("usr='ada'", "*has no option 'usr'; it has actor, *"),
        ("'ada'", "*takes options by name*"),
        ("channel='telex'", "*the ledger of this test does not open: *telex*"),
    ],
)
def test_a_marker_that_cannot_be_is_a_sentence_and_no_stack(
    project: pytest.Pytester, marker: str, message: str
) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.ledger({marker})\ndef test_it(ledger): pass\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_fixture_of_a_project_with_the_same_name_is_the_projects(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.fixture
        def ledger(): return {"account": 12}

        @pytest.fixture
        def clock(): return None

        def test_of_money(ledger): assert ledger["account"] == 12
        """
    )
    run(project).assert_outcomes(passed=1)


# --- golden_ledger ---------------------------------------------------------------------------------------------------

REPLAY = "def test_day(golden_ledger): golden_ledger('day.jsonl')\n"


def test_a_log_is_replayed_and_believed_as_it_was_frozen(project: pytest.Pytester) -> None:
    log = exported(project)
    project.makepyfile(
        """
        def test_day(golden_ledger, ledger_clock):
            day = golden_ledger("day.jsonl").bind(user="ada")
            assert day.recall("coffee").items[0].content == "Ada takes her coffee black."
            assert day.remember("Ada has a cat.").recorded_at >= day.memories.list()[1].recorded_at
        """
    )
    missing = run(project)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(
        ["no beliefs are frozen in *day.beliefs.json*", "  pytest --ledger-update test_*::test_day"]
    )
    missing.stdout.no_fnmatch_line("*another exception*")

    updated = run(project, "--ledger-update")
    updated.assert_outcomes(passed=1)
    updated.stdout.fnmatch_lines(["*frozen beliefs*", "*day.beliefs.json"])
    frozen = log.with_suffix(".beliefs.json").read_text(encoding="utf-8")
    coffee, home, cello = frozen.splitlines()[1:-1]
    assert coffee.startswith('{"content": "Ada takes her coffee black.", "kind": "preference", "status": "active"')
    assert '"user": "ada"' in home and '"status": "candidate"' in cello and "m_" not in frozen

    run(project).assert_outcomes(passed=1)
    again = run(project, "--ledger-update")
    again.stdout.fnmatch_lines(["no file changed"])


def test_what_differs_is_told_by_belief(project: pytest.Pytester) -> None:
    frozen = exported(project).with_suffix(".beliefs.json")
    project.makepyfile(REPLAY)
    run(project, "--ledger-update")
    text = frozen.read_text(encoding="utf-8").replace("her coffee black", "her coffee with a lot of milk")
    text = text.replace('"confidence": 1.0', '"confidence": 0.7').replace('"status": "candidate"', '"status": "active"')
    text = text.replace("[\n", '[\n{"content": "Ada sails.", "kind": "fact", "status": "active", "confidence": 1.0},\n')
    frozen.write_text(text, encoding="utf-8")
    result = run(project)
    result.stdout.fnmatch_lines(
        [
            "beliefs differ from day.beliefs.json: 1 gone, 3 changed",
            "- Ada sails. (fact, active, 1.0)",
            "~ Ada lives in Lisbon.",
            "    confidence: 0.7 → 1.0",
            "~ Ben plays the cello.",
            "    status: active → candidate",
            "~ Ada takes her coffee [[]-with a lot of milk.-[]] {+black.+}",
            "if that is meant: pytest --ledger-update *::test_day",
        ],
        consecutive=True,
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert "\x1b[32m{+black.+}" in run(project, "--color=yes").stdout.str()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda log: log.unlink(), "there is no log *day.jsonl; export the log of a real ledger with"),
        (
            lambda log: log.write_text("{}\n", encoding="utf-8"),
            "*day.jsonl cannot be replayed: it is no export of a ledger*",
        ),
        (lambda log: log.write_bytes(b"\xff\x00"), "*day.jsonl cannot be replayed: *"),
        (
            lambda log: log.write_text(log.read_text(encoding="utf-8").rpartition('{"pos')[0], encoding="utf-8"),
            "*cannot be replayed: *was cut short*",
        ),
        (
            lambda log: log.write_text(log.read_text(encoding="utf-8").replace("Lisbon", "Lissbon"), encoding="utf-8"),
            "*cannot be replayed: *",
        ),
        (
            lambda log: log.with_suffix(".beliefs.json").write_text('[{"content": 1}]', encoding="utf-8"),
            "*holds no frozen beliefs: *content*",
        ),
        (lambda log: log.with_suffix(".beliefs.json").write_bytes(b"[\xff]"), "*holds no frozen beliefs: *"),
        (lambda log: log.with_suffix(".beliefs.json").mkdir(), "*holds no frozen beliefs: *"),
    ],
    ids=["gone", "other", "bytes", "cut", "changed", "beliefs", "beliefs bytes", "directory"],
)
def test_files_that_cannot_be_read_are_a_sentence_and_no_stack(project: pytest.Pytester, spoil, message: str) -> None:
    spoil(exported(project))
    project.makepyfile(REPLAY)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])
    for word in ("*Traceback*", "*another exception*", "*pytest_plugin.py*"):
        result.stdout.no_fnmatch_line(word)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("ledger_clock.advance(fortnights=2)", "ledger_clock.advance takes days, hours, minutes, *fortnights*"),
        ("ledger_clock.advance(days='2')", "ledger_clock.advance takes days, *"),
        ("golden_beliefs(5, 'x')", "golden_beliefs compares a ledger, *and 5 is neither"),
    ],
)
def test_a_fixture_that_is_asked_wrongly_says_what_it_takes(project: pytest.Pytester, wrong: str, message: str) -> None:
    project.makepyfile(f"def test_it(ledger_clock, golden_beliefs): {wrong}")
    result = run(project)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_files_are_found_from_the_tests_own_file(project: pytest.Pytester) -> None:
    (project.path / "inner" / "logs").mkdir(parents=True)
    exported(project, "inner/logs/day.jsonl")
    (project.path / "inner" / "test_inner.py").write_text(
        REPLAY.replace("day.jsonl", "logs/day.jsonl"), encoding="utf-8"
    )
    frozen = project.path / "inner" / "logs" / "day.beliefs.json"
    run(project, "--ledger-update").assert_outcomes(passed=1)
    frozen.unlink()
    os.chdir(project.path / "inner")
    run(project, "--rootdir", "..").stdout.fnmatch_lines(["  pytest --ledger-update test_inner.py::test_day"])
    frozen.mkdir()
    run(project, "--ledger-update").stdout.fnmatch_lines(["the beliefs cannot be frozen: *day.beliefs.json*"])


def test_a_directory_for_frozen_files_is_made(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(ledger, golden_beliefs): golden_beliefs(ledger, 'golden/none.beliefs.json')")
    run(project, "--ledger-update").assert_outcomes(passed=1)
    assert (project.path / "golden" / "none.beliefs.json").read_text(encoding="utf-8") == "[]\n"


def test_a_replayed_log_goes_on_with_ids_of_its_own(project: pytest.Pytester) -> None:
    """Also one that was exported of the fixture ``ledger``, whose ids are the same in every run."""
    project.makepyfile(
        """
        from conftest import day

        def test_day(ledger, golden_ledger, request):
            day(ledger)
            ledger.maintenance.export_log(request.path.parent / "day.jsonl")
            copy, other = golden_ledger("day.jsonl"), golden_ledger("day.jsonl")
            assert copy.remember("Ada has a cat.").id == other.remember("Ada has a cat.").id
            day(copy)
            assert copy.proof.verify().ok
        """
    )
    run(project, "--ledger-update").assert_outcomes(passed=1)


# --- golden_beliefs --------------------------------------------------------------------------------------------------


def test_what_a_ledger_believes_is_frozen_with_what_faded_by_then(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from conftest import day

        def test_day(ledger, ledger_clock, golden_beliefs):
            day(ledger)
            ledger.policy.set(decay="all")
            golden_beliefs(ledger, "noon.beliefs.json")
            ledger_clock.advance(days=60)
            golden_beliefs(ledger, "later.beliefs.json")
            golden_beliefs(ledger.at(2), "before.beliefs.json")
        """
    )
    run(project, "--ledger-update").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)
    noon, later, before = (
        (project.path / f"{name}.beliefs.json").read_text(encoding="utf-8") for name in ("noon", "later", "before")
    )
    assert "faded" not in noon and later.count('"faded": 0.') == 2
    assert before == "[]\n"


def test_two_tests_do_not_freeze_one_file_with_different_beliefs(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("pet", ["cat", "dog"])
        def test_pet(ledger, golden_beliefs, pet):
            ledger.remember(f"Ada has a {pet}.")
            golden_beliefs(ledger, "pet.beliefs.json")
        """
    )
    result = run(project, "--ledger-update")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["pet.beliefs.json was frozen in this run already, with other beliefs*"])


# --- assertions ------------------------------------------------------------------------------------------------------


def test_an_assertion_of_equal_memories_says_what_is_believed_otherwise(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from msgspec.structs import replace
        from ledger.doors.golden import beliefs

        def test_lists(ledger):
            tea = ledger.remember("Ada likes tea.")
            before = ledger.memories.list()
            ledger.memories.set_confidence(tea.id, 0.3)
            ledger.remember("Ben plays the cello every morning.")
            assert ledger.memories.list() == before

        def test_one_moment_and_another(ledger):
            ledger.remember("Ada likes tea.")
            then = ledger.at(ledger.position)
            ledger.remember("Ben plays the cello every morning.")
            assert beliefs(ledger) == beliefs(then)

        def test_ids_alone(ledger):
            ledger.remember("Ada likes tea.")
            ledger.bind(user="ben", actor="x").remember("Ada likes tea.")
            assert ledger.memories.list() == [replace(ledger.memories.list()[0], id="m_other")]

        def test_nothing_of_ours():
            assert [1, 2] == [1, 3]
        """
    )
    result = run(project)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "E * beliefs differ: 1 new, 1 changed*",
            "E * + Ben plays the cello every morning. (knowledge, active, 1.0)",
            "E * ~ Ada likes tea.",
            "E * confidence: 1.0 → 0.3",
            "E * beliefs differ: 1 new*",
            "E * both sides hold the same beliefs; ids, times, sources or other fields differ",
            "E * At index 1 diff: 2 != 3",
        ]
    )


def test_a_long_difference_is_short_unless_asked(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_day(ledger, golden_beliefs, request):
            words = "zero one two three four five six seven eight nine ten eleven twelve".split()
            for word in words if request.config.getoption("--ledger-update") else ():
                ledger.remember(f"{word * 9} {word * 8} {word * 7} " + "and so on " * 90 * (word == "zero"))
            golden_beliefs(ledger, "day.beliefs.json")
        """
    )
    run(project, "--ledger-update")
    in_full = "= short test summary info ="  # pytest itself repeats the whole difference below it where CI is set
    short, long = (run(project, *very).stdout.str().split(in_full)[0].splitlines() for very in ((), ("-vv",)))
    assert sum(line.startswith("- ") for line in short) == 10 and "… and 3 more, with -vv" in short
    assert len({line for line in long if line.startswith("- ")}) == 13
    assert max(len(line) for line in short if line.startswith("- ")) < 200


# --- as it is installed ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_installed_plugin_works_in_workers_and_loads_nothing_before_it_is_used(tmp_path: Path) -> None:
    """By the entry point of pyproject.toml, in processes of its own: several workers say together which files they wrote."""
    (tmp_path / "belief_ledger-0.dist-info").mkdir()
    (tmp_path / "belief_ledger-0.dist-info" / "METADATA").write_text(
        "Name: belief-ledger\nVersion: 0\n", encoding="utf-8"
    )
    entry = re.search(r"entry-points.pytest11\]\n(.*)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert entry is not None
    points = "[pytest11]\n" + entry[1].replace('"', "") + "\n"
    (tmp_path / "belief_ledger-0.dist-info" / "entry_points.txt").write_text(points, encoding="utf-8")
    test = "def test_{0}(ledger, golden_beliefs): golden_beliefs(ledger, '{0}.beliefs.json')\n"
    (tmp_path / "test_agent.py").write_text("".join(map(test.format, ("one", "two", "three"))), encoding="utf-8")
    (tmp_path / "test_other.py").write_text(
        "import sys\ndef test_other():\n    print('loaded', sorted(each for each in sys.modules if each.startswith('ledger')))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}

    def pytest_(*arguments: str) -> str:
        without = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin")
        command = [sys.executable, "-m", "pytest", *without, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.stdout

    assert "failed" in pytest_("test_agent.py")
    updated = pytest_("-n", "2", "--ledger-update", "test_agent.py")
    assert re.findall(r"(\w+)\.beliefs\.json", updated) == ["one", "three", "two"], updated
    assert "3 passed" in pytest_("test_agent.py")
    alone = re.search(r"loaded (\[.*\])", pytest_("-s", "test_other.py"))
    assert alone is not None
    assert alone[1] == str(
        [f"ledger{each}" for each in ("", ".domain", ".domain.late", ".doors", ".doors.pytest_plugin")]
    )
    assert "fixture 'ledger' not found" in pytest_("-p", "no:memory-ledger", "test_agent.py")


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_tests_of_the_page_are_run_and_fail_as_it_shows(project: pytest.Pytester) -> None:
    page = (ROOT / "ledger" / "docs" / "testing.md").read_text(encoding="utf-8").partition("\n---\n")[0]
    (project.path / "test_page.py").write_text(
        "\n\n".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)), encoding="utf-8"
    )
    with Ledger.open(project.path / "agent.db") as ledger:
        ledger.remember("Ada takes her coffee black.", kind="preference")
        ledger.remember("Ada lives in Lisbon.", kind="identity")
        ledger.capture("Which database do we take?", "Decision: PostgreSQL for the archive.")
        ledger.maintenance.export_log(project.path / "day.jsonl")
    run(project, "--ledger-update").assert_outcomes(passed=5)
    run(project).assert_outcomes(passed=5)
    assert "PostgreSQL for the archive" in (project.path / "learned.beliefs.json").read_text(encoding="utf-8")
    frozen = project.path / "day.beliefs.json"
    text = frozen.read_text(encoding="utf-8").replace("her coffee black", "her coffee with a lot of milk")
    text = text.replace(
        '"identity", "status": "active", "confidence": 1.0', '"identity", "status": "active", "confidence": 0.7'
    )
    frozen.write_text(
        text.replace("[\n", '[\n{"content": "Ada sails.", "kind": "fact", "status": "active", "confidence": 1.0},\n'),
        encoding="utf-8",
    )
    shown = re.search(r"^```text\n(.*?)^```", page, re.M | re.S)
    assert shown is not None and shown[1] in run(project, "-k", "believed_as").stdout.str() + "\n"


def test_metadata_is_compared_by_its_keys(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "m.db", user="ada") as ledger:
        tea = ledger.remember("Ada likes tea.", metadata={"ticket": 1, "app": "slack"})
        before = golden.beliefs(ledger)
        assert golden.thawed(golden.frozen(before)) == before
        ledger.memories.set_metadata(tea.id, {"ticket": "1"})
        found = golden.differences(before, golden.beliefs(ledger))
    changed = '    metadata: app="slack", ticket=1 → app="slack", ticket="1"'
    assert golden.report(found, lambda text, _: text) == ["1 changed", "~ Ada likes tea.", changed]
