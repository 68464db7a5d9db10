"""After an erasure no file holds the text any more, in no encoding; killed at any file operation, it completes by itself.

Each scene says a word in as many places as one kind of erasure must reach, keeps a backup, and erases. Then the raw bytes
of every file of the folder are searched, those of an export, and those of the backup recovered with the certificates.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ledger import LedgerError
from ledger.engine.core import Core as Ledger
from tools.crash.kills import fork
from tools.crash.result import Result
from tools.crash.searching import forms, hits, hits_elsewhere
from tools.crash.shim import COUNT, KILL, OFF, WORKERS, Shim, Unavailable, scratch, together
from tools.crash.workload import sum_up

KEPT = "zqkeptword"  # what nobody erases
BLOB_BYTES = 300 * 1024  # above what an event holds itself
ALL = {"derived": "erase", "sources": "erase", "quotes": "erase"}
SHORT_EVERY = 60  # the short form kills before one file operation in so many; another seed takes others


@dataclass(frozen=True, slots=True)
class Scene:
    """One kind of erasure: ``fill`` says the word in many places and gives what to pass to ``erase``."""

    name: str
    fill: Callable[[Ledger, str], dict[str, Any]]


def run(short: bool, seed: int) -> Result:
    started, notes, failures = time.monotonic(), list[str](), controls()
    searched = 0
    for number, scene in enumerate(SCENES):
        with scratch() as folder:
            wrong, files = played(scene, folder, word_of(seed, number))
        failures += wrong
        searched += files
    cases = len(SCENES)
    try:
        every = (SHORT_EVERY if short else 1) * WORKERS
        shares = [{"seed": seed, "number": number, "of": WORKERS, "every": every} for number in range(WORKERS)]
        found = together("tools.crash.erasure:work", shares)
    except Unavailable as error:
        notes.append(f"no kills: {error}")
    else:
        failures += [failure for each in found for failure in each["failures"]]
        kills, begun = (sum(each[name] for each in found) for name in ("kills", "begun"))
        cases += kills
        told = f"one in {SHORT_EVERY}" if short else "each"
        notes.append(
            f"{kills} kills before {told} of the {sum(found[0]['operations'])} file operations of {len(KILLED)} kinds"
        )
        notes.append(
            f"after {begun} kills the erasure stood in the log, and opening completed it; after the others it was not begun"
        )
        if not 0 < begun < kills:
            failures.append(f"control: {begun} of {kills} kills met an erasure half-way, and some but not all should")
    notes.insert(0, f"{len(SCENES)} kinds of erasure, {searched} files searched in {len(forms(KEPT))} forms")
    notes.append("controls: the word is found before, in the backup, and in every form; a word that was kept stays")
    return Result("erasure", cases, tuple(failures), time.monotonic() - started, notes=tuple(notes))


# --- searching -------------------------------------------------------------------------------------------------------


def word_of(seed: int, number: int) -> str:
    """One word, which no stem or fold changes, and which is in no other text."""
    choose = random.Random(f"{seed} {number}")
    return "zq" + "".join(choose.choice("bcdfghjkmnpqrtvwxz") for _ in range(16))


def controls() -> list[str]:
    """Every form must be found where it is, at every alignment."""
    missing, word = [], word_of(0, 0)
    encoded = {
        "UTF-8": f"said {word}.".encode(),
        "UTF-16 LE": word.encode("utf-16-le"),
        "UTF-16 BE": word.encode("utf-16-be"),
        "hex": word.encode().hex().encode(),
        "HEX": word.encode().hex().upper().encode(),
        "upper case": word.upper().encode(),
    }
    for before in ("", "a", "ab"):
        encoded[f"base64 after {before!r}"] = base64.b64encode((before + word + " after").encode())
    for name, data in encoded.items():
        with scratch() as folder:
            (folder / "file").write_bytes(b"\0\xff" + data + b"\0")
            if not hits(folder, word):
                missing.append(f"control: a word in {name} is not found")
    return missing


# --- one scene -------------------------------------------------------------------------------------------------------


def played(scene: Scene, folder: Path, word: str) -> tuple[list[str], int]:
    """What is wrong after an erasure, and how many files were searched."""
    wrong, path, outside = list[str](), folder / "ledger" / "memory.db", folder / "outside"
    path.parent.mkdir(mode=0o700)
    outside.mkdir(mode=0o700)
    with Ledger.open(path) as ledger:
        how = begun(ledger, scene, word)
        kept = ledger.checkpoint().text
        ledger.backup(outside / "backup.db")
        wrong += [f"control: before the erasure {each}" for each in missing((path.parent, outside), (word, KEPT))]
        report = ledger.erase(**how)
        if report.state != "completed":
            wrong.append(f"the erasure is {report.state}: {report.why}")
        wrong += [f"while open, {each}" for each in hits_elsewhere([path.parent], [word])[0]]
        certificates = ledger.certificates()
        ledger.export_file(path.parent / "export.jsonl")
        wrong += still_sound(ledger, kept)
    wrong += [f"after closing, {each}" for each in hits(path.parent, word)]
    again = folder / "again"
    again.mkdir(mode=0o700)
    Ledger.recover(outside / "backup.db", again / "memory.db", certificates=certificates)
    wrong += [f"recovered with the certificates, {each}" for each in hits(again, word)]
    wrong += ["control: what was kept is gone"] * (not hits(path.parent, KEPT) or not hits(again, KEPT))
    files = sum(each.is_file() for place in (path.parent, again) for each in place.rglob("*"))
    return [f"{scene.name}: {each}" for each in wrong], files


def begun(ledger: Ledger, scene: Scene, word: str) -> dict[str, Any]:
    """A ledger in which the scene has said its word, and somebody else another."""
    ledger.remember(f"Somebody else said {KEPT}.", project="other")
    how = scene.fill(ledger, word)
    ledger.recall(word)  # the text index takes in what waits
    ledger.remember(f"And later {KEPT} again.", project="other")
    return how


def missing(folders: Sequence[Path], words: Sequence[str]) -> list[str]:
    """Which word lies in no file of which folder."""
    places, sought = [each for each in folders for _ in words], [*words] * len(folders)
    found = hits_elsewhere(places, sought)
    return [
        f"{place.name} does not hold {word}"
        for place, word, told in zip(places, sought, found, strict=True)
        if not told
    ]


def still_sound(ledger: Ledger, kept: str) -> Iterator[str]:
    """The chain, the tables and a checkpoint from before must still hold; a rebuild must bring nothing back."""
    report = ledger.verify(full=True, against=kept)
    yield from (f"it does not verify: {problem}" for problem in report.problems[:3])
    folded = ledger.digest()
    if ledger.rebuild().digest != folded:
        yield "a rebuild folds other rows than the erasure left"


def letters(texts: list[str]) -> list[list[float]]:
    """A model that knows no meanings, so that there are vectors too."""
    return [[text.lower().count(each) + 0.5 for each in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


# --- scenes ----------------------------------------------------------------------------------------------------------


def a_memory(ledger: Ledger, word: str) -> dict[str, Any]:
    fact = ledger.remember(f"Her name is {word}.", entities=[word], tags=[word], project="home")
    ledger.remember(f"her  NAME is {word}.", project="home", actor="someone")
    ledger.revise(fact.id, f"Her name was {word}.", f"because {word} said so")
    ledger.adjust(fact.id, 0.4, f"{word} is unsure")
    ledger.reject(ledger.propose(f"Her name was {word}.", project="home").id, "once is enough")
    ledger.capture("Who is it?", f"You said: her name is {word}.", project="home", reinforce=False)
    return {"subject": fact.id, **ALL}


def a_successor(ledger: Ledger, word: str) -> dict[str, Any]:
    fact = ledger.remember("Her name is unknown.", project="home")
    tea = ledger.supersede(fact.id, f"Her name is {word}.", "they said so")
    ledger.invalidate(tea.id, f"{word} took it back")
    return {"subject": tea.id, **ALL}


def an_interaction(ledger: Ledger, word: str) -> dict[str, Any]:
    known = ledger.remember("The user prefers dark roast coffee.", kind="preference")
    long = f"Decision: we buy {word} coffee now.\n\n" + f"the user prefers dark roast {word} coffee " * (
        BLOB_BYTES // 50
    )
    turn = ledger.capture(
        f"Which {word}?", long, response_summary=f"{word}!", context_pack={word: [word]}, session_id="s1"
    )
    ledger.extract(turn.id)
    ledger.promote(ledger.propose(f"Coffee is called {word}.", source=turn.id).id)
    ledger.reinforce(known.id, source=turn.id)
    return {"subject": turn.id, **ALL}


def an_answered_interaction(ledger: Ledger, word: str) -> dict[str, Any]:
    late = ledger.capture(f"And {word}?", session_id="s1")
    ledger.attach_response(late.id, f"The user prefers {word} coffee.", response_summary=word)
    ledger.run_policies()
    return {"subject": late.id, **ALL}


def a_session(ledger: Ledger, word: str) -> dict[str, Any]:
    ledger.capture(f"Where is {word}?", f"{word} is at home.", session_id=word)
    ledger.remember(f"{word} is at home.", session_id=word)
    return {"session": word, **ALL}


def a_message(ledger: Ledger, word: str) -> dict[str, Any]:
    """A message with parts, its summaries one above the other, and one of the whole that was set."""
    session = ledger.session("talk", project="home")
    call = {"type": "tool_use", "id": word, "name": word, "arguments": {word: [f"{word} of the house"]}}
    thought = {"type": "reasoning", "text": f"{word} it is."}
    session.append("user", "Who lives here?")
    said = session.append("assistant", f"It is {word}.", parts=[call, thought], model=word)
    session.append("user", f"So it is {word}.")
    _summed_up(ledger, word)
    return {"subject": said.position, **ALL}


def a_turn(ledger: Ledger, word: str) -> dict[str, Any]:
    """A captured turn whose messages read their text through it."""
    turn = ledger.capture(f"And {word}?", f"It is {word}.", session_id="talk", append=True, reinforce=False)
    _summed_up(ledger, word)
    return {"subject": turn.id, **ALL}


def _summed_up(ledger: Ledger, word: str) -> None:
    session = ledger.session("talk", project="home")
    for each in range(3):
        session.append("user", f"Word {each}.")
    for _ in range(3):  # two of messages, and one of these
        sum_up(session, f"They speak of {word}.")
    session.set_summary(f"{word} lives here.")


def a_project(ledger: Ledger, word: str) -> dict[str, Any]:
    ledger.remember("It has a name.", project=word)
    ledger.set_state(word, "fact", word, word)
    ledger.add_alias(word, f"also {word}")
    ledger.capture(f"What of {word}?", "Nothing yet.", project=word)
    return {"project": word, **ALL}


def a_document(ledger: Ledger, word: str) -> dict[str, Any]:
    path = f"notes/{word}.md"
    notes = ledger.ingest(
        f"# {word}\n\n{word} lives here.\n\n## More\n\nNothing.\n", title=word, tags=[word], path=path
    )
    ledger.remember(f"{word} lives here.", source=notes.chunks[0].id)
    ledger.ingest(f"# {word}\n\n{word} has moved.\n\n## More\n\nNothing.\n", path=path)
    ledger.remove_document(notes.id, f"{word} asked")
    return {"subject": notes.id, **ALL}


def a_user(ledger: Ledger, word: str) -> dict[str, Any]:
    mine: Any = {"user": word, "actor": word, "client": word, "agent": word}
    fact = ledger.remember(f"{word} likes tea.", project=word, session_id=word, key=word, **mine)
    turn = ledger.capture(f"I am {word}.", f"Hello {word}. " * (BLOB_BYTES // 24), **mine)
    ledger.propose(f"{word} is here.", source=turn.id, **mine)
    ledger.retract(fact.id, f"{word} asked", **mine)
    ledger.undo(ledger.remember(f"{word} may go.", **mine).position, f"{word} again", **mine)
    ledger.ingest(f"{word} wrote this.", title=word, **mine)
    ledger.relate(ledger.remember("Somebody works.", **mine).id, word, "works at", f"{word} & Co", **mine)
    ledger.recall(f"Where is {word}?", user=word, among="all", receipt=True)
    ledger.embed(model=letters)
    return {"user": word}


def a_field(ledger: Ledger, word: str) -> dict[str, Any]:
    fact = ledger.remember("Something harmless.")
    done = ledger.retract(fact.id, f"because of {word}")
    return {"subject": done.position, "fields": ["data.reason"], **ALL}


def an_actor(ledger: Ledger, word: str) -> dict[str, Any]:
    fact = ledger.remember("Something harmless.", actor=word)
    return {"subject": fact.position, "fields": ["actor"], **ALL}


SCENES = (
    Scene("a memory", a_memory),
    Scene("a successor", a_successor),
    Scene("an interaction", an_interaction),
    Scene("an answered interaction", an_answered_interaction),
    Scene("a message", a_message),
    Scene("a turn", a_turn),
    Scene("a session", a_session),
    Scene("a project", a_project),
    Scene("a document", a_document),
    Scene("a user", a_user),
    Scene("a field of one event", a_field),
    Scene("the actor of one event", an_actor),
)


# --- killed at every file operation ----------------------------------------------------------------------------------


def work(share: dict[str, Any]) -> dict[str, Any]:
    """One worker's share of the kills, behind the shim."""
    told: dict[str, Any] = {"failures": [], "kills": 0, "begun": 0, "operations": []}
    for number, scene in enumerate(KILLED):
        place = Path(share["folder"], str(number))
        kills = Kills(scene, place, word_of(share["seed"], 100 + number), Shim(place))
        first = 1 + (share["number"] + share["seed"] * share["of"]) % share["every"]
        for before in range(first, kills.operations + 1, share["every"]):
            kills.kill(before)
        told["failures"] += kills.failures[:5]
        told["operations"].append(kills.operations)
        told["kills"] += kills.killed
        told["begun"] += kills.begun
    return told


class Kills:
    """One ledger, whose copies are erased from and killed, each before another file operation."""

    def __init__(self, scene: Scene, place: Path, word: str, shim: Shim) -> None:
        self.scene, self.place, self.word, self.shim = scene, place, word, shim
        self.failures: list[str] = []
        self.killed = self.begun = 0
        (place / "first").mkdir(parents=True, mode=0o700)
        with Ledger.open(place / "first" / "memory.db") as ledger:
            self.how = begun(ledger, scene, word)
        self.operations = self._count()

    def kill(self, before: int) -> None:
        path = self._copy()
        status = os.waitpid(fork(partial(self._erase, path, KILL, before)), 0)[1]
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            self.failures.append(f"{self.scene.name}: killed before {before}, it ended with {status}")
            return
        self.killed += 1
        try:
            wrong = list(self._look(path))
        except LedgerError as error:
            wrong = [f"{type(error).__name__}: {error}"]
        self.failures += [f"{self.scene.name}, killed before operation {before}: {each}" for each in wrong]

    def _count(self) -> int:
        path = self._copy()
        self._erase(path, COUNT, 0)
        count = self.shim.count
        self.shim.arm(OFF)
        if hits(path.parent, self.word):
            self.failures.append(f"{self.scene.name}: the word is still there without any kill")
        return count

    def _copy(self) -> Path:
        shutil.rmtree(self.place / "killed", ignore_errors=True)
        shutil.copytree(self.place / "first", self.place / "killed")
        return self.place / "killed" / "memory.db"

    def _erase(self, path: Path, mode: int, before: int) -> None:
        self.shim.arm(mode, before)
        with Ledger.open(path) as ledger:
            ledger.erase(**self.how)

    def _look(self, path: Path) -> Iterator[str]:
        """Opening it must complete what was begun; where nothing was, everything is as before and can be erased."""
        with Ledger.open(path) as ledger:
            states = [report.state for report in ledger.erasures()]
            self.begun += bool(states)
            if not states:
                found = ledger.erase(**self.how)
                states = [found.state]
            if states != ["completed"]:
                yield f"the erasure is {states}"
            yield from (f"it does not verify: {problem}" for problem in ledger.verify(full=True).problems[:2])
        yield from (f"found in {each}" for each in hits(path.parent, self.word))


KILLED = tuple(scene for scene in SCENES if scene.name in ("a memory", "an interaction", "a document", "a user"))
