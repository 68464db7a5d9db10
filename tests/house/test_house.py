"""The rules of the house: who may import whom, what stays pure, how large it may be, how fast an import is."""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from counting import uncollected
from places import ROOT

PRODUCT = sorted([*ROOT.glob("ledger/**/*.py"), *ROOT.glob("projections/**/*.py")])
WRITTEN = [path for path in PRODUCT if "writes this file" not in path.read_text(encoding="utf-8")[:300]]  # by a person
TESTS = sorted(ROOT.glob("tests/**/*.py"))
PURE = (  # what happened and what may happen, as data and arithmetic: no clock, no randomness, no files
    *("ledger.domain", "ledger.english", "ledger.events", "ledger.sessions.rules"),
    *("ledger.log.envelope", "ledger.log.events", "ledger.log.registry"),
    *("ledger.memories.admission_rules", "ledger.memories.state", "ledger.memories.turned_down"),
    *("ledger.documents.chunking", "ledger.extraction.lines", "ledger.observations.grouping"),
)  # and the files events.py and rules.py of every feature
LAYERS = (  # each may import from its own and from those before it
    (*PURE, "ledger.types"),
    ("ledger.log", "ledger.proof.merkle", "ledger.proof.checkpoints"),
    ("projections",),
    ("ledger.core",),
    ("ledger.vectors",),
    ("ledger.projects",),
    (
        *("ledger.memories", "ledger.graph", "ledger.review", "ledger.policy"),
        *("ledger.extraction.applying", "ledger.extraction.rule_findings"),
    ),  # what is decided about memories, whoever asks for it
    ("ledger.models",),  # what a model answers becomes proposals, which the policies take or leave
    ("ledger.documents",),
    ("ledger.interactions",),
    ("ledger.observations",),
    ("ledger.recall",),  # what it finds are memories, chunks, turns, values and observations
    ("ledger.values",),
    ("ledger.sessions",),
    ("ledger.extraction",),
    ("ledger.history", "ledger.undo", "ledger.erasure", "ledger.proof", "ledger.guards"),
    ("ledger.jobs", "ledger.care", "ledger.shared"),
    ("ledger.api", "ledger.answers", "ledger"),
    ("ledger.aio",),
    ("ledger.cli", "ledger.doors", "ledger.demo", "ledger.importers", "ledger.web", "ledger.__main__"),
)
OF_FEATURES = {  # files of one name in every feature: the layer that they belong to
    "answers": "ledger.core",
    "policy": "ledger.memories",  # rules over many subjects, under the writer's lock
    "api": "ledger.history",  # namespaces join features
}
INSIDE = {"_engine", "_scope", "_inner"}  # of a ledger, its namespaces and sessions
CORE = {
    "shared",
    "domain",
    "english",
    "log",
    "core",
    "projections",
    "house",
    "whole",
    "tools",
    "docs",
}  # folders of tests of the inside
WORDS = {
    "domain",
    "types",
    "answers",
    "api",
    "port",
    "packs",
    "prompts",
    "importers",
    "guarding",
}  # what every test may name: rules, events, answers
Modules = dict[str, ast.Module]
IMPURE = {"os", "io", "time", "random", "secrets", "uuid", "sqlite3", "socket", "subprocess", "pathlib", "threading"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="module")
def product() -> Modules:
    """Every module of the product by its name, parsed once for all rules."""
    with uncollected():
        return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in PRODUCT}


@pytest.fixture(scope="module")
def needs(product: Modules) -> dict[str, set[str]]:
    """What each module imports of the product, at any place."""
    return {name: imported_anywhere(module, product) for name, module in product.items()}


def imports(module: ast.Module) -> Iterator[str]:
    """What a module imports at its top level, outside TYPE_CHECKING."""
    for node in module.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_pure(name: str) -> bool:
    """Return True for a module that is data and arithmetic: of ``PURE``, or the events or the rules of a feature."""
    of_feature = name.startswith("ledger.") and name.rpartition(".")[2] in ("events", "rules")
    return of_feature or any(name == prefix or name.startswith(prefix + ".") for prefix in PURE)


@cache
def layer(name: str) -> int:
    if is_pure(name):
        return 0
    found = [
        (len(prefix), number)
        for number, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if name == prefix or name.startswith(prefix + ".")
    ]
    own, last = max(found)[1], name.rpartition(".")[2]
    if name.count(".") > 1 and last in OF_FEATURES:
        above = layer(OF_FEATURES[last])
        return max(own, above) if last == "api" else above
    return own


def test_imports_point_one_way(product: Modules) -> None:
    upwards = {}
    for name, module in product.items():
        above = {other for other in imports(module) if other in product and other.count(".") > 1}
        wrong = {other for other in above if layer(other) > layer(name)}
        if wrong:
            upwards[name] = wrong
    assert upwards == {}


def test_no_module_changes_another_module_at_its_import(product: Modules) -> None:
    changed = [
        f"{name}: {ast.unparse(target)}"
        for name, module in product.items()
        for statement in module.body
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Attribute)
    ]
    assert changed == []


def test_events_and_rules_are_pure(product: Modules) -> None:
    pure = {name: module for name, module in product.items() if is_pure(name)}
    assert len(pure) > 60
    assert [name for name, module in pure.items() if IMPURE & {other.split(".")[0] for other in imports(module)}] == []


def test_events_and_rules_have_no_clock_and_no_randomness() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PRODUCT if is_pure(module_name(path))}
    assert [path for path, source in sources.items() if ".now(" in source or "urandom" in source] == []


@pytest.mark.slow
def test_only_the_store_knows_the_library_and_the_driver(product: Modules) -> None:
    allowed = {
        "ledger.log.event_store",
        "ledger.log.reading",
        "ledger.log.writing",
        "ledger.log.recorders",
        "ledger.log.sqlite_files",
        "ledger.log.envelope",
        "ledger.doors.eventsourcing",  # is for who uses the library
    }
    users = {
        name
        for name, module in product.items()
        if any(each.split(".")[0] == "eventsourcing" for each in imports(module))
    }
    assert users <= allowed


def test_the_tables_of_the_log_are_written_in_the_store_alone() -> None:
    writes = re.compile(r"(?i)(?:insert [a-z ]*into|update|delete from) (?:main\.)?(?:events|blobs)\b")
    others = [path for path in PRODUCT if "log" not in path.parts]
    assert [module_name(path) for path in others if writes.search(path.read_text(encoding="utf-8"))] == []


# --- limits: a bound is what is so today, and only ever goes down ----------------------------------------------------

LONG_FILES = 2  # the public methods of the ledger and of a session
ANYS = 361
PRIVATE_REACHES = 22
PUBLIC_NAMES = 60
TESTS_OF_OTHERS = 22


def test_few_files_lie_at_the_root() -> None:
    assert len(list((ROOT / "ledger").glob("*.py"))) <= 5


def test_few_files_are_over_eight_hundred_lines() -> None:
    long = [path.name for path in WRITTEN if path.read_text(encoding="utf-8").count("\n") > 800]
    assert len(long) <= LONG_FILES, long


def test_no_function_is_over_seventy_lines(product: Modules) -> None:
    found = []
    for name, module in product.items():
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                told = (ast.get_docstring(node, clean=False) or "").count("\n")  # what a parameter means is no length
                if (node.end_lineno or 0) - node.lineno - told >= 70:
                    found.append(f"{name}.{node.name}")
    assert not found


def test_a_function_inside_takes_a_request_in_the_place_of_ten_parameters(product: Modules) -> None:
    """The public methods list their parameters."""
    written = {module_name(path) for path in WRITTEN}
    wide = {
        f"{name}.{node.name}"
        for name, module in product.items()
        if not name.endswith("api") and name in written
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs) > 9
    }
    assert wide == set()


def test_few_things_are_of_any_type() -> None:
    assert sum(len(re.findall(r"\bAny\b", path.read_text(encoding="utf-8"))) for path in WRITTEN) <= ANYS


def test_the_ledger_has_few_names_and_bases() -> None:
    from ledger import Ledger

    assert len(Ledger.__mro__[1:-1]) <= 2
    assert len([name for name in dir(Ledger) if not name.startswith("_")]) <= PUBLIC_NAMES


def test_little_reaches_into_what_is_private_to_another_object(product: Modules) -> None:
    found = [
        f"{name}:{node.lineno} .{node.attr}"
        for name, module in product.items()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert len(found) <= PRIVATE_REACHES, found


def test_no_imports_go_in_a_circle(needs: dict[str, set[str]]) -> None:
    """Imports inside of functions and for type checkers count too."""
    graphlib.TopologicalSorter(needs).prepare()  # names a circle in its error


def test_the_core_imports_no_feature(needs: dict[str, set[str]]) -> None:
    """Imports inside of functions and for type checkers count too. Features bring their parts to an open ledger."""
    below = {"core", "log", "domain", "english", "events", "types", "shared"}
    core = {name: others for name, others in needs.items() if name.startswith("ledger.core")}
    features = {name: {other for other in others if other.startswith("ledger.")} for name, others in core.items()}
    found = {(name, other) for name, others in features.items() for other in others if other.split(".")[1] not in below}
    assert len(core) > 10
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "from ledger.api import Ledger",
        "import ledger.api",
        "if TYPE_CHECKING:\n    from ledger import api",
        "def late() -> None:\n    from ledger.api import Ledger",
    ],
)
def test_a_circle_of_imports_is_seen_wherever_the_import_stands(
    product: Modules, needs: dict[str, set[str]], line: str
) -> None:
    of_types = needs["ledger.types"] | imported_anywhere(ast.parse(line), product)
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(needs | {"ledger.types": of_types}).prepare()


def imported_anywhere(module: ast.Module, product: Modules) -> set[str]:
    """Return the modules of the product that a module imports at any place, for type checkers and in functions too."""
    names = set[str]()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner_names = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if name in product else node.module for name in inner_names}
    return names & product.keys()


WAYS = {  # call: the most product files whose functions run in it, and the most lines that these files hold
    "remember": (30, 10_800),
    "recall": (38, 13_300),
}


def test_a_write_and_a_search_enter_few_files(tmp_path: Path) -> None:
    """Whoever wants to understand a call reads these files, with the folds that follow a write."""
    from ledger import Ledger

    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        ledger.remember("Ada lives in Oslo.")  # makes what the first call of a process makes
        ledger.recall("Where does Ada live?")
        ways = {
            "remember": entered(lambda: ledger.remember("Ben lives in Bergen.")),
            "recall": entered(lambda: ledger.recall("Where does Ben live?")),
        }
    assert "ledger/log/writing.py" in ways["remember"]
    assert "projections/search/ranking.py" in ways["recall"]
    for call, names in ways.items():
        files, lines = WAYS[call]
        assert len(names) <= files, (call, names)
        assert sum((ROOT / name).read_text(encoding="utf-8").count("\n") for name in names) <= lines, call


def entered(call: Callable[[], object]) -> list[str]:
    """Return the files of the product of which a function runs in a call."""
    paths: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            paths.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted({path.relative_to(ROOT).as_posix() for path in map(Path, paths) if path in PRODUCT})


# --- what else holds of every file -----------------------------------------------------------------------------------


def test_every_module_opens_with_a_sentence_that_says_what_lives_there(product: Modules) -> None:
    assert [name for name, module in product.items() if not ast.get_docstring(module)] == []


def test_nothing_of_python_that_is_private_is_used(product: Modules) -> None:
    own = {name.split(".")[0] for name in product}
    private = [
        f"{module} imports {name}"
        for module in product
        for name in imports(product[module])
        if name.split(".")[0] not in own and any(part[0] == "_" and part[:2] != "__" for part in name.split("."))
    ]
    assert not private


def test_every_data_file_of_the_product_is_in_the_wheel() -> None:
    """Whole packages are shipped, but for what git ignores."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"] == {"packages": ["ledger", "projections"]}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for package in build["wheel"]["packages"]:
        files = {each for each in (ROOT / package).rglob("*") if each.is_file() and "__pycache__" not in each.parts}
        assert not [each for each in files if any(each.match(pattern) for pattern in ignored)]


CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time")


@pytest.mark.slow
def test_no_test_compares_measured_time() -> None:
    """A busy machine takes longer. A clock may end a wait; what a call costs is counted (``counting.steps``)."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in TESTS
        if any(clock in path.read_text(encoding="utf-8") for clock in CLOCKS)  # few, and the rest takes long
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub))
        if any(f"{clock}{end}()" in ast.unparse(node) for clock in CLOCKS for end in ("", "_ns"))
    ]
    assert not found


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "cyclopts", "rich", "eventsourcing", "sqlite3")
    code = f"import sys, ledger; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_new_ledger_and_a_file_of_lines_load_nothing_that_they_do_without(tmp_path: Path) -> None:
    slow = ("pydantic", "pathlib", "urllib.parse", "difflib")
    (tmp_path / "turns.jsonl").write_text('{"prompt": "Which coffee?"}\n{"prompt": 5}\n', encoding="utf-8")
    code = f"""if True:
        import sys
        from ledger import Ledger
        with Ledger.open("memory.db") as ledger:
            print([name for name in {slow!r} if name in sys.modules])
            ledger.interactions.import_file("turns.jsonl")
        print("pydantic" in sys.modules)"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False"]


WRITING = (
    *("ledger.core.command", "ledger.core.work"),
    *("ledger.core.guarding", "ledger.domain.scan.secrets", "ledger.domain.scan.threats"),
    *(
        "ledger.memories.admission",
        "ledger.memories.commands",
        "ledger.interactions.policy",
        "ledger.extraction.policy",
        "ledger.vectors.embedding",
    ),
    *("ledger.models", "ledger.english.salience", "ledger.english.extractor"),
)  # what a process that asks one question does without
MODULES_OF_A_READ = 185


def test_a_process_that_only_reads_loads_nothing_that_writes(tmp_path: Path) -> None:
    from ledger import Ledger

    code = """if True:
        import sys
        from ledger import Ledger
        with Ledger.open(sys.argv[1], user="ada") as ledger:
            assert len(ledger.recall("What does the user drink?").items) == 1
            assert len(ledger.at(ledger.position).recall("What does the user drink?").items) == 1
        print(*sys.modules)"""
    path = str(tmp_path / "memory.db")
    with Ledger.open(path, user="ada") as ledger:
        ledger.remember("The user drinks tea.")
        ledger.recall("tea")  # takes the text into the index, which a later read does not have to do
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded & {*WRITING, "rich", "cyclopts", "pydantic", "numpy", "pathlib", "urllib.parse"} == set()
    assert len([name for name in loaded if name.startswith(("ledger", "projections"))]) <= MODULES_OF_A_READ

    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "ledger",
        "recall",
        "tea",
        "--db",
        path,
        "--user",
        "ada",
        "--json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "ledger.recall.recalling" in loaded and "drinks tea" in done.stdout
    assert loaded & {*WRITING, "rich", "rich.console", "pydantic", "numpy"} == set()


def test_the_help_of_a_command_loads_nothing_that_reads_or_writes_a_file() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ledger", "recall", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "ledger.api" in loaded
    heavy = {
        "sqlite3",
        "eventsourcing",
        "projections",
        "pydantic",
        "ledger.log",
        "ledger.events",
        "ledger.core.work",
    }
    assert loaded & heavy == set()


def test_tests_lie_where_what_they_test_lies() -> None:
    """In a folder of the same name; what they share lies at the root of tests, and no test is a part of another."""
    rooms = {path.name for path in ROOT.glob("ledger/*") if path.is_dir()}
    rooms |= {"projections", "tools", "house", "whole", "shared"}
    tests = [path.relative_to(ROOT / "tests") for path in TESTS if path.name.startswith("test_")]
    apart = [str(path) for path in tests if len(path.parts) != 2 or path.parts[0] not in rooms]
    assert apart == []
    shared = {path.parent.name for path in TESTS if not path.name.startswith("test_")}
    assert shared == {"tests", "typing", "golden"}
    taken = re.compile(r"\b(?:from|import) (?:tests\.\w+\.)?test_\w+")
    assert [path.name for path in TESTS if taken.search(path.read_text(encoding="utf-8"))] == []


def test_tests_reach_behind_the_public_surface_in_one_place() -> None:
    """So that the inside can change without them."""
    found = []
    for path in TESTS:
        source = path.read_text(encoding="utf-8")
        if not any(word in source for word in ("ledger.core.engine", *(f".{name}" for name in INSIDE))):
            continue
        for node in ast.walk(ast.parse(source)):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            if "ledger.core.engine" in names:
                found.append(f"{path.name} imports the engine")
            private = isinstance(node, ast.Attribute) and node.attr in INSIDE and path.name != "probe.py"
            if private and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                found.append(f"{path.name}:{node.lineno} takes .{node.attr}")
    assert not found
    others = [path.name for path in TESTS if path.parent.name not in CORE and imports_another_feature(path)]
    assert len(others) <= TESTS_OF_OTHERS, others


TAKEN = re.compile(r"\bfrom (ledger\.[\w.]+) import\b")


def imports_another_feature(path: Path) -> bool:
    """Return True if a test imports the inside of another folder of the product than its own."""
    source = path.read_text(encoding="utf-8") if path.name.startswith("test_") else ""
    if not any(of_another_feature(module, path) for module in TAKEN.findall(source)):
        return False  # most files, and the rest takes long
    nodes = ast.walk(ast.parse(source))
    return any(of_another_feature(node.module or "", path) for node in nodes if isinstance(node, ast.ImportFrom))


def of_another_feature(module: str, path: Path) -> bool:
    parts = module.split(".")
    if parts[0] != "ledger" or len(parts) == 1 or is_pure(module):
        return False
    return parts[1] != path.parent.name and not WORDS & {parts[1], parts[-1]}


def test_no_two_files_of_tests_have_the_same_name() -> None:
    """pytest imports them by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
