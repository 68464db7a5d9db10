"""The project of a folder: one for each repository, found by reading ``.git``, whatever a stranger's files say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import needs
import pytest
from places import ROOT, move_home

from ledger import ConflictError, Ledger, NotFoundError, RejectedError
from ledger.projects.folders import FILE, place_of
from ledger.types import EVERYTHING, Event, Project

Repository = Callable[[str], Path]
WAYS = {"derived": "erase", "sources": "erase", "quotes": "erase"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    move_home(monkeypatch, tmp_path / "home")
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def repository(home: Path) -> Repository:
    """Make a repository as ``git init`` does, below the home directory."""

    def make(path: str) -> Path:
        for name in ("objects", "refs"):
            (home / path / ".git" / name).mkdir(parents=True)
        (home / path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        return home / path

    return make


def worktree(of: Path, at: Path, name: str = "wt") -> Path:
    """Add a worktree as ``git worktree add`` does; ``of`` is a checkout, or a bare repository."""
    git = of / ".git" if (of / ".git").is_dir() else of
    own = git / "worktrees" / name
    own.mkdir(parents=True)
    at.mkdir(parents=True)
    (at / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    (own / "gitdir").write_text(f"{at / '.git'}\n", encoding="utf-8")
    (own / "HEAD").write_text("ref: refs/heads/wt\n", encoding="utf-8")
    return at


def root(folder: Path) -> str | None:
    place = place_of(str(folder))
    return place.root if place is not None else None


# --- the root --------------------------------------------------------------------------------------------------------


def test_a_subfolder_and_a_worktree_have_the_root_of_their_repository(repository: Repository, home: Path) -> None:
    shop = repository("code/shop")
    (shop / "src" / "deep").mkdir(parents=True)
    assert root(shop) == root(shop / "src" / "deep") == "~/code/shop"
    assert root(worktree(shop, home / "elsewhere" / "shop-fix") / "src") == "~/code/shop"
    assert root(worktree(shop, shop / ".claude" / "worktrees" / "x", "x")) == "~/code/shop"


def test_a_folder_that_is_no_repository_is_its_own_root_and_a_home_directory_is_none(home: Path) -> None:
    (home / "notes" / ".git").mkdir(parents=True)  # an empty folder is no repository
    (home / "notes" / "old").mkdir()
    assert root(home / "notes") == "~/notes" and root(home / "notes" / "old") == "~/notes/old"
    assert root(home / "not" / "there") == "~/not/there"
    for folder in (home, home.parent, Path("/")):
        assert root(folder) is None
    assert place_of("") is place_of("a\0b") is None


def test_a_repository_of_the_home_directory_is_no_project_of_the_folders_in_it(repository: Repository) -> None:
    home = repository(".")
    assert root(home) is None and root(home / "notes") == "~/notes"


def test_a_bare_repository_and_its_worktrees_are_one(home: Path) -> None:
    for path in ("srv/shop.git", "code/.bare"):
        for name in ("objects", "refs"):
            (home / path / name).mkdir(parents=True)
        (home / path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    assert root(home / "srv/shop.git") == root(home / "srv/shop.git/refs") == "~/srv/shop.git"
    assert root(worktree(home / "srv/shop.git", home / "wt")) == "~/srv/shop.git"
    assert root(worktree(home / "code/.bare", home / "code/main")) == root(home / "code/.bare") == "~/code"
    (home / "code" / ".git").write_text("gitdir: ./.bare\n", encoding="utf-8")
    assert root(home / "code") == "~/code"


def test_a_nested_repository_and_a_submodule_are_repositories_of_their_own(repository: Repository, home: Path) -> None:
    shop, inner = repository("shop"), repository("shop/vendor/lib")
    assert root(inner) == "~/shop/vendor/lib" and root(shop / "vendor") == "~/shop"
    (shop / "sub").mkdir()
    (shop / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n", encoding="utf-8")
    assert root(shop / "sub" / "src") == "~/shop/sub"
    tree = worktree(shop, home / "tree")
    (tree / "sub").mkdir()
    (tree / "sub" / ".git").write_text(f"gitdir: {shop}/.git/worktrees/wt/modules/sub\n", encoding="utf-8")
    assert root(tree / "sub") == "~/shop/sub", "the submodule is one in every worktree"


@pytest.mark.parametrize("content", ["gitdir: /no/where\n", "gitdir: \n", "what?\n", "", "gitdir: a\0b\n"])
def test_a_git_file_that_points_nowhere_leaves_the_folder_its_own_root(
    repository: Repository, home: Path, content: str
) -> None:
    lost = repository("shop") / "lost"
    (lost / "src").mkdir(parents=True)
    (lost / ".git").write_text(content, encoding="utf-8")
    assert root(lost / "src") == "~/shop/lost"


def test_a_strangers_files_do_not_lead_into_another_repository(repository: Repository, home: Path) -> None:
    bank, evil = repository("bank"), home / "evil"
    tree = worktree(bank, home / "tree")
    evil.mkdir()
    fake = evil / "fake" / "worktrees" / "x"
    fake.mkdir(parents=True)
    (fake / "commondir").write_text(str(bank / ".git"), encoding="utf-8")
    (fake / "gitdir").write_text("../../../.git", encoding="utf-8")  # as a worktree with relative paths names itself
    for target in (bank / ".git", bank / ".git" / "worktrees" / "wt", fake):
        (evil / ".git").write_text(f"gitdir: {target}\n", encoding="utf-8")
        assert root(evil) == "~/evil", target
    for target in (bank / ".git", tree / ".git"):
        (evil / ".git").unlink()
        (evil / ".git").symlink_to(target)
        assert root(evil) == "~/evil", target


@needs.named_pipes
def test_a_git_pipe_is_not_waited_for(home: Path) -> None:
    (home / "odd").mkdir()
    os.mkfifo(home / "odd" / ".git")
    os.mkfifo(home / "odd" / FILE)
    place = place_of(str(home / "odd"))
    assert place is not None and place.root == "~/odd" and "regular file" in place.ignored[0]


@needs.modes
def test_a_folder_that_cannot_be_read_is_its_own_root(repository: Repository, home: Path) -> None:
    """A child without the rights of root looks into a folder that is closed to it."""
    closed = repository("shop") / "closed" / "in"
    closed.mkdir(parents=True)
    for folder in (home, home / "shop"):
        folder.chmod(0o755)
    (home / "shop" / "closed").chmod(0o000)
    code = (
        "import os; from ledger.projects.folders import place_of; os.getuid() or os.setuid(65534); "
        f"print(place_of({str(closed)!r}).root)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    (home / "shop" / "closed").chmod(0o755)
    assert done.stdout == "~/shop/closed/in\n", done.stderr


@pytest.mark.slow
def test_git_itself_makes_what_is_read_here(home: Path) -> None:
    def git(*words: str, at: Path = home) -> None:
        config = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
        subprocess.run(["git", *config, *words], cwd=at, check=True, capture_output=True)

    try:
        git("init", "lib")
    except OSError:
        pytest.skip("there is no git")
    git("commit", "--allow-empty", "-m", "one", at=home / "lib")
    git("init", "shop")
    git("submodule", "add", str(home / "lib"), "sub", at=home / "shop")
    git("commit", "-m", "one", at=home / "shop")
    git("worktree", "add", "../tree", at=home / "shop")
    git("submodule", "update", "--init", at=home / "tree")
    git("clone", "--bare", "lib", "bare.git")
    git("worktree", "add", "../main", at=home / "bare.git")
    git("init", "--separate-git-dir", "apart", "work")
    roots = {name: root(home / name) for name in ("tree", "tree/sub", "shop/sub", "main", "bare.git", "work")}
    shared = {"tree": "~/shop", "tree/sub": "~/shop/sub", "shop/sub": "~/shop/sub"}
    assert roots == {**shared, "main": "~/bare.git", "bare.git": "~/bare.git", "work": "~/work"}


# --- the projects ----------------------------------------------------------------------------------------------------


def test_a_worktree_and_a_subfolder_share_the_memory_of_their_repository(
    ledger: Ledger, repository: Repository, home: Path
) -> None:
    shop = repository("shop")
    first = ledger.projects.enter(shop / "src")
    assert (first.name, first.root, first.linked) == ("shop", "~/shop", True)
    ledger.remember("The tests need Docker.", project=first.project)
    before = ledger.position
    assert ledger.projects.enter(worktree(shop, home / "fix")) == first == ledger.projects.of(shop)
    assert ledger.position == before, "a link that is on record needs no event"
    assert ledger.projects.get("shop").roots == ("~/shop",)


def test_two_clones_of_one_name_have_a_memory_each(ledger: Ledger, repository: Repository) -> None:
    names = [ledger.projects.enter(repository(path)).name for path in ("home/api", "office/api", "old/office/api")]
    assert names == ["api", "api (office)", "api (old/office)"]
    assert [ledger.projects.enter(path).name for path in ("~/home/api", "~/office/api")] == names[:2]
    assert [(project.name, project.roots) for project in ledger.projects.list(oldest_first=True)] == [
        ("api", ("~/home/api",)),
        ("api (office)", ("~/office/api",)),
        ("api (old/office)", ("~/old/office/api",)),
    ]


def test_a_project_from_before_is_linked_with_the_first_root_of_its_name(
    ledger: Ledger, repository: Repository
) -> None:
    ledger.remember("Deploys are on Tuesdays.", project="shop")
    old = ledger.projects.get("shop").id
    assert ledger.projects.of(repository("code/shop")).project == ledger.projects.enter("~/code/shop").project
    assert ledger.projects.get("shop").roots == ("~/code/shop",) and old == ledger.projects.get("shop").id
    assert ledger.projects.enter(repository("other/SHOP")).name == "SHOP (other)"


def test_a_read_says_what_the_first_write_will_take_and_records_nothing(ledger: Ledger, repository: Repository) -> None:
    repository("shop")
    before = ledger.position
    found = ledger.projects.of("~/shop")
    assert (found.project, found.linked) == ("shop", False) and ledger.position == before
    assert ledger.projects.enter("~/shop").name == "shop"


def test_a_named_project_wins_and_nothing_is_linked(ledger: Ledger, repository: Repository) -> None:
    repository("shop")
    before = ledger.position
    found = ledger.projects.enter("~/shop", project="bank")
    assert (found.project, found.root, found.linked) == ("bank", "~/shop", False) and ledger.position == before
    assert ledger.projects.of("", project="bank").root is None
    assert ledger.projects.of("").project is None


def test_claude_project_dir_comes_before_the_working_directory(
    ledger: Ledger, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, other = repository("shop"), repository("other")
    monkeypatch.chdir(other)
    assert ledger.projects.of().name == "other"
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(shop))
    assert ledger.projects.of().name == "shop" and ledger.projects.of(other).name == "other"


def test_a_moved_folder_is_found_again_by_a_link_and_an_undo_takes_the_link_back(
    ledger: Ledger, repository: Repository, home: Path
) -> None:
    shop = ledger.projects.enter(repository("shop")).project
    (home / "shop").rename(home / "store")
    assert ledger.projects.of("~/store").name == "store"
    assert ledger.projects.link("shop", "~/store").roots == ("~/shop", "~/store")
    assert ledger.projects.of("~/store").project == shop
    assert ledger.projects.link("shop", "~/store").absorbed
    ledger.undo(ledger.position)
    assert ledger.projects.of("~/store").name == "store"
    ledger.redo(ledger.position)
    assert ledger.projects.of("~/store").project == shop


def test_of_several_links_of_one_root_the_last_in_effect_counts(ledger: Ledger, repository: Repository) -> None:
    repository("shop")
    ledger.projects.enter("~/shop")
    first = ledger.projects.add("first").id
    second = ledger.projects.add("second").id
    linked = [ledger.projects.link(name, "~/shop").position for name in (first, second)]
    assert ledger.projects.of("~/shop").project == second
    assert ledger.projects.get("first").roots == ledger.projects.get("shop").roots == ()
    ledger.undo(linked[0])
    assert ledger.projects.of("~/shop").project == second
    ledger.undo(linked[1])
    assert ledger.projects.of("~/shop").name == "shop" and ledger.at(linked[1]).projects.of("~/shop").project == second
    ledger.redo(linked[0])
    assert ledger.projects.of("~/shop").project == first


def test_only_a_folder_that_is_there_is_linked_and_with_a_project_that_is_there(ledger: Ledger, home: Path) -> None:
    ledger.projects.add("shop")
    with pytest.raises(NotFoundError, match="there is no folder"):
        ledger.projects.link("shop", "~/nowhere")
    with pytest.raises(RejectedError, match="is a home directory"):
        ledger.projects.link("shop", home)
    (home / "notes").mkdir()
    with pytest.raises(NotFoundError, match="no project of this user is called 'notes'"):
        ledger.projects.link("notes", "~/notes")


def test_a_joined_project_brings_its_roots_along(ledger: Ledger, repository: Repository) -> None:
    for path in ("shop", "till"):
        ledger.projects.enter(repository(path))
    joined = ledger.projects.join("shop", "till")
    assert joined.roots == ("~/shop", "~/till") and ledger.projects.of("~/till").project == joined.id
    ledger.undo(ledger.position)
    assert ledger.projects.of("~/till").name == "till"


def test_another_user_has_links_of_his_own(ledger: Ledger, repository: Repository) -> None:
    shop = ledger.projects.enter(repository("shop")).project
    bob = ledger.bind(user="bob")
    assert bob.projects.of("~/shop").project == "shop" and bob.projects.enter("~/shop").project != shop


# --- rename ----------------------------------------------------------------------------------------------------------


def test_a_renamed_project_keeps_its_records_and_its_former_name_as_an_alias(ledger: Ledger) -> None:
    memory = ledger.remember("Deploys are on Tuesdays.", project="shop")
    renamed = ledger.projects.rename("shop", "store")
    assert (renamed.name, renamed.aliases) == ("store", ("shop",))
    for name in ("shop", "store", renamed.id):
        assert [(found.id, found.project) for found in ledger.memories.list(project=name)] == [(memory.id, "store")]
    assert ledger.projects.rename("shop", "store").absorbed
    assert ledger.at(renamed.position - 1).projects.get("shop").name == "shop"
    again = ledger.projects.rename("store", "Shop")
    assert (again.name, again.aliases) == ("Shop", ("store",))
    ledger.undo(again.position)
    ledger.undo(renamed.position)
    assert (ledger.projects.get("shop").name, ledger.projects.get("shop").aliases) == ("shop", ())


def test_a_name_of_another_project_is_refused_and_so_is_a_redo_whose_name_was_taken(ledger: Ledger) -> None:
    for name in ("shop", "bank"):
        ledger.projects.add(name)
    with pytest.raises(ConflictError, match="belongs to another project"):
        ledger.projects.rename("shop", "BANK")
    ledger.projects.rename("shop", "store")
    ledger.undo(ledger.position)
    undone = ledger.position
    ledger.projects.add("store")
    with pytest.raises(ConflictError, match="stands for another project since"):
        ledger.redo(undone)


def test_a_name_of_a_project_that_was_joined_is_refused(ledger: Ledger) -> None:
    for name in ("shop", "till"):
        ledger.projects.add(name)
    ledger.projects.join("shop", "till")
    with pytest.raises(ConflictError, match="joined into this one"):
        ledger.projects.rename("shop", "till")


# --- .memory-ledger.toml ---------------------------------------------------------------------------------------------


def test_a_file_names_a_new_project_and_the_memory_is_off_where_it_says_so(
    ledger: Ledger, repository: Repository, home: Path
) -> None:
    (repository("shop") / FILE).write_text('project = "store"\n', encoding="utf-8")
    found = ledger.projects.enter("~/shop")
    assert (found.name, found.linked, found.off) == ("store", True, "") and ledger.projects.of("~/shop") == found
    before = ledger.position
    (repository("secret") / FILE).write_text("off = true\n", encoding="utf-8")
    assert ledger.projects.enter("~/secret").off == "file" and ledger.position == before
    assert place_of(str(worktree(home / "secret", home / "tree"))).off, "the file is not committed"  # type: ignore[union-attr]


def test_a_foreign_clone_does_not_get_the_memory_of_a_project_that_it_names(
    ledger: Ledger, repository: Repository
) -> None:
    ledger.projects.enter(repository("bank"))
    ledger.projects.add("by hand")
    for name in ("bank", "by hand"):
        (repository(f"{name[:4]}/evil") / FILE).write_text(f'project = "{name}"\n', encoding="utf-8")
        found = ledger.projects.of(f"~/{name[:4]}/evil")
        assert found.name == "evil" and not found.linked
        assert f"projects link {name!r}" in found.ignored[0] or f"projects link {name}" in found.ignored[0]
    assert ledger.projects.enter("~/bank/evil").name == "evil"
    ledger.projects.link("bank", "~/bank/evil")
    found = ledger.projects.enter("~/bank/evil")
    assert (found.name, found.ignored) == ("bank", ()), "the person allowed it"


def test_a_name_that_a_call_would_take_for_an_id_reaches_no_project(ledger: Ledger, repository: Repository) -> None:
    bank = ledger.projects.enter(repository("bank")).project or ""
    ledger.remember("The vault opens at nine.", project=bank, kind="project")
    for start in (bank[:3], bank):
        (repository(f"evil/{len(start)}") / FILE).write_text(f'project = "{start}"\n', encoding="utf-8")
        repository(f"sly/{start}")
        for folder in (f"~/evil/{len(start)}", f"~/sly/{start}"):
            found = ledger.projects.of(folder)
            assert "vault" not in ledger.context("When does the vault open?", project=found.project).as_text()
            assert ledger.projects.enter(folder).project != bank
    assert ledger.projects.of(f"~/sly/{bank[:3]}").name == f"{bank[:3]} (sly)"


def test_a_file_that_names_its_own_folder_is_like_no_file(ledger: Ledger, repository: Repository) -> None:
    ledger.remember("Deploys are on Tuesdays.", project="shop")
    (repository("shop") / FILE).write_text('project = "Shop"\n', encoding="utf-8")
    (repository("evil/shop") / FILE).write_text('project = "shop"\n', encoding="utf-8")
    assert ledger.projects.enter("~/shop").name == "shop" and ledger.projects.enter("~/evil/shop").name == "shop (evil)"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("off = true\n" + "#" * 4096, "at most 4,096 bytes"),
        ("off = yes\n", "not TOML"),
        ("a = " + "[" * 3000, "not TOML"),
        ('off = "true"\n', "off is ignored"),
        ("project = 5\n", "project is ignored"),
        (f'project = "{"x" * 101}"\n', "project is ignored"),
        (r'project = "a\nb"' + "\n", "project is ignored"),
        (r'project = "a\u202Eb"' + "\n", "project is ignored"),
        ('project = ""\n', "project is ignored"),
        ('project = "p_2"\n', "project is ignored"),
        ('user = "root"\n', "user is ignored"),
        ('"\\u001b[31m" = 1\n', "is ignored"),
    ],
)
def test_a_file_that_says_anything_else_is_ignored_with_the_reason(
    ledger: Ledger, repository: Repository, content: str, why: str
) -> None:
    (repository("shop") / FILE).write_text(content, encoding="utf-8")
    found = ledger.projects.of("~/shop")
    assert (found.name, found.off) == ("shop", "") and len(found.ignored) == 1
    assert why in found.ignored[0] and found.ignored[0].isprintable()


def test_an_unknown_key_takes_nothing_from_the_others(repository: Repository) -> None:
    (repository("shop") / FILE).write_text('off = true\nproject = "store"\nmodel = "evil"\n', encoding="utf-8")
    place = place_of("~/shop")
    assert place is not None and (place.off, place.project, len(place.ignored)) == (True, "store", 1)


@needs.links
def test_a_link_a_folder_and_bytes_that_are_no_text_are_ignored(repository: Repository, home: Path) -> None:
    (home / "real.toml").write_text("off = true\n", encoding="utf-8")
    (repository("link") / FILE).symlink_to(home / "real.toml")
    (repository("folder") / FILE).mkdir()
    (repository("bytes") / FILE).write_bytes(b'project = "\xff"\n')
    for name in ("link", "folder", "bytes"):
        place = place_of(f"~/{name}")
        assert place is not None and not place.off and place.project is None and len(place.ignored) == 1, name


# --- off -------------------------------------------------------------------------------------------------------------


def test_where_the_memory_is_off_nothing_is_recorded_and_what_is_on_record_is_found(ledger: Ledger) -> None:
    kept = ledger.remember("The vault opens at nine.", project="bank")
    session = ledger.session("monday", project="bank")
    session.append("user", "Hello.")
    assert ledger.policy.set(off=["bank"]).off == ("bank",)
    switched = ledger.position
    for write in (
        lambda: ledger.remember("The safe is blue.", project="bank"),
        lambda: ledger.propose("The safe is blue.", project="bank"),
        lambda: ledger.capture("Which safe?", "The blue one.", project="bank"),
        lambda: ledger.add("I like the safe.", project="bank"),
        lambda: ledger.documents.add("The safe is blue.", project="bank"),
        lambda: session.append("user", "Again."),
        lambda: ledger.memories.correct(ledger.remember("Tea is hot.").id, project="bank"),
    ):
        with pytest.raises(RejectedError, match="the memory is off for the project 'bank'") as refused:
            write()
        assert refused.value.rule == "off"
    assert [item.id for item in ledger.recall("When does the vault open?").items] == [kept.id]
    assert ledger.projects.of("", project="bank").off == "policy" and ledger.projects.get("bank").off
    ledger.retract(kept.id)
    ledger.remember("Elsewhere it goes on.", project="shop")
    ledger.undo(switched)
    assert ledger.remember("The safe is blue.", project="bank").project == "bank"


def test_off_holds_for_a_renamed_and_for_a_joined_project_and_one_that_is_not_there_is_refused(ledger: Ledger) -> None:
    for name in ("bank", "shop"):
        ledger.projects.add(name)
    assert ledger.policy.set(off=["bank"]) == ledger.policy.set(off=("BANK",))
    ledger.projects.rename("bank", "vault")
    assert ledger.policy.get().off == ("vault",)
    ledger.projects.join("shop", "vault")
    with pytest.raises(RejectedError, match="the memory is off"):
        ledger.remember("The safe is blue.", project="shop")
    assert ledger.policy.set(off=()).off == () and not ledger.projects.get("shop").off
    with pytest.raises(NotFoundError, match="no project of this user is called 'bnak'"):
        ledger.policy.set(off=["bnak"])
    with pytest.raises(RejectedError, match="takes several"):
        ledger.policy.set(off="bank")  # type: ignore[arg-type]


# --- what goes through all features ----------------------------------------------------------------------------------


def test_a_distrusted_writers_links_count_no_longer(ledger: Ledger, repository: Repository) -> None:
    ledger.projects.enter(repository("shop"))
    bank = ledger.projects.add("bank").id
    ledger.bind(client="codex").projects.link("bank", "~/shop")
    assert ledger.projects.of("~/shop").project == bank
    ledger.history.distrust("codex", kind="client")
    assert ledger.projects.of("~/shop").name == "shop"
    ledger.history.trust("codex", kind="client")
    assert ledger.projects.of("~/shop").project == bank


def test_an_erased_project_and_an_erased_user_leave_no_path(ledger: Ledger, repository: Repository) -> None:
    ledger.projects.enter(repository("clinic-of-ada"))
    ledger.projects.rename("clinic-of-ada", "practice-of-ada")
    bob = ledger.bind(user="bob")
    bob.projects.enter("~/clinic-of-ada")
    assert ledger.erase(Project("practice-of-ada"), **WAYS).state == "completed"  # type: ignore[arg-type]
    assert ledger.projects.of("~/clinic-of-ada").linked is False and bob.projects.of("~/clinic-of-ada").linked
    assert bob.erase(EVERYTHING, **WAYS).state == "completed"  # type: ignore[arg-type]
    assert bob.projects.of("~/clinic-of-ada").linked is False
    assert b"clinic-of-ada" not in Path(ledger.path).read_bytes()


def test_one_path_can_be_erased_by_itself(ledger: Ledger, repository: Repository) -> None:
    shop = ledger.projects.enter(repository("secret-place/shop"))
    linked = next(
        event.position for event in ledger.history.events(shop.project or "") if event.type == "ProjectLinked"
    )
    assert ledger.erase(Event(linked), **WAYS).state == "completed"  # type: ignore[arg-type]
    assert ledger.projects.get("shop").roots == () and not ledger.projects.of("~/secret-place/shop").linked
    assert b"secret-place" not in Path(ledger.path).read_bytes()


def test_a_new_name_that_was_erased_gives_the_former_name_back(ledger: Ledger) -> None:
    shop = ledger.projects.add("shop").id
    renamed = ledger.projects.rename("shop", "affair").position
    assert ledger.erase(Event(renamed), **WAYS).state == "completed"  # type: ignore[arg-type]
    assert (ledger.projects.get(shop).name, ledger.projects.get("shop").id) == ("shop", shop)
