"""A test of erasure: afterwards no file holds the text in any encoding, and a killed erasure completes by itself.

Each scene says a word in all the places that one kind of erasure must reach, keeps a backup, and erases. Then the raw bytes
of every file of the folder are searched, and those of an export and of the backup recovered with the certificates.
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
from typing import Any, get_args

from ledger import Ledger, LedgerError
from ledger.answers import ErasureReport
from ledger.types import EVERYTHING, Corpus, Event, Project, SessionName, Subject
from tools import inside
from tools.crash.kills import fork
from tools.crash.result import Result
from tools.crash.searching import forms, hits, hits_elsewhere
from tools.crash.shim import COUNT, KILL, OFF, WORKERS, Shim, Unavailable, scratch, together
from tools.crash.workload import sum_up

KEPT = "zqkeptword"  # a word that nobody erases
BLOB_BYTES = 300 * 1024  # more than an event holds itself
SHORT_EVERY = 60  # a short run kills before one file operation in so many; another seed takes other operations


@dataclass(frozen=True, slots=True)
class Erasing:
    """The subject and the user of a scene's erasure, which erases repetitions too."""

    subject: Subject
    user: str = ""

    def __call__(self, ledger: Ledger) -> ErasureReport:
        theirs = ledger.bind(user=self.user)
        if self.subject == EVERYTHING:
            return theirs.erase(self.subject)
        return theirs.erase(self.subject, derived="erase", sources="erase", quotes="erase")


@dataclass(frozen=True, slots=True)
class Scene:
    """A kind of erasure; ``fill`` says the word in many places and returns the erasure to make."""

    name: str
    fill: Callable[[Ledger, str], Erasing]


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
        answers = together("tools.crash.erasure:work", shares)
    except Unavailable as error:
        notes.append(f"no kills: {error}")
    else:
        failures += [failure for answer in answers for failure in answer["failures"]]
        kills, begun = (sum(answer[name] for answer in answers) for name in ("kills", "begun"))
        cases += kills
        share = f"one in {SHORT_EVERY}" if short else "each"
        notes.append(
            f"{kills} kills before {share} of the {sum(answers[0]['operations'])} file operations of {len(KILLED)} kinds"
        )
        notes.append(
            f"after {begun} kills the log had the erasure, and opening completed it; after the others it had none"
        )
        if not 0 < begun < kills:
            failures.append(f"control: {begun} of {kills} kills left an erasure half-way; some but not all should")
    notes.insert(0, f"{len(SCENES)} kinds of erasure, {searched} files searched in {len(forms(KEPT))} forms")
    notes.append("controls: the word is found before, in the backup, and in every form; a word that was kept stays")
    return Result("erasure", cases, tuple(failures), time.monotonic() - started, notes=tuple(notes))


# --- searching -------------------------------------------------------------------------------------------------------


def word_of(seed: int, number: int) -> str:
    """Return a word that no stem or fold changes, and that is in no other text."""
    choose = random.Random(f"{seed} {number}")
    return "zq" + "".join(choose.choice("bcdfghjkmnpqrtvwxz") for _ in range(16))


def controls() -> list[str]:
    """Return the encodings in which a word is not found, at any alignment."""
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
    """Play a scene and return the failures after its erasure, and the number of files searched."""
    wrong, path, outside = list[str](), folder / "ledger" / "memory.db", folder / "outside"
    path.parent.mkdir(mode=0o700)
    outside.mkdir(mode=0o700)
    with Ledger.open(path) as ledger:
        erase = begun(ledger, scene, word)
        kept = ledger.proof.checkpoint().text
        ledger.maintenance.backup(outside / "backup.db")
        wrong += [f"control: before the erasure {absence}" for absence in missing((path.parent, outside), (word, KEPT))]
        report = erase(ledger)
        if report.state != "completed":
            wrong.append(f"the erasure is {report.state}: {report.why}")
        wrong += [f"while open, {hit}" for hit in hits_elsewhere([path.parent], [word])[0]]
        certificates = ledger.erasures.certificates()
        ledger.maintenance.export_log(path.parent / "export.jsonl")
        wrong += still_sound(ledger, kept)
    wrong += [f"after closing, {hit}" for hit in hits(path.parent, word)]
    again = folder / "again"
    again.mkdir(mode=0o700)
    Ledger.recover(outside / "backup.db", again / "memory.db", certificates=certificates)
    wrong += [f"recovered with the certificates, {hit}" for hit in hits(again, word)]
    wrong += ["control: what was kept is gone"] * (not hits(path.parent, KEPT) or not hits(again, KEPT))
    files = sum(file.is_file() for place in (path.parent, again) for file in place.rglob("*"))
    return [f"{scene.name}: {problem}" for problem in wrong], files


def begun(ledger: Ledger, scene: Scene, word: str) -> Erasing:
    """Fill a ledger with the word of the scene, and with another word of somebody else."""
    ledger.remember(f"Somebody else said {KEPT}.", project="other")
    erasing = scene.fill(ledger, word)
    ledger.recall(word)  # the text index takes in the waiting texts
    ledger.remember(f"And later {KEPT} again.", project="other")
    return erasing


def missing(folders: Sequence[Path], words: Sequence[str]) -> list[str]:
    """Return the words that lie in no file of a folder, with the folder."""
    places, sought = [folder for folder in folders for _ in words], [*words] * len(folders)
    matches = hits_elsewhere(places, sought)
    return [
        f"{place.name} does not hold {word}"
        for place, word, hits_of_word in zip(places, sought, matches, strict=True)
        if not hits_of_word
    ]


def still_sound(ledger: Ledger, kept: str) -> Iterator[str]:
    """Yield the failures of the chain, the tables and a checkpoint from before, and of a rebuild that brings something back."""
    report = ledger.proof.verify(full=True, against=kept)
    yield from (f"it does not verify: {problem}" for problem in report.problems[:3])
    folded = ledger.proof.digest()
    if inside.rebuild(ledger).digest != folded:
        yield "a rebuild folds rows that differ from those after the erasure"


def letters(texts: list[str]) -> list[list[float]]:
    """Return vectors that count letters, as a model without any knowledge of meanings."""
    return [[text.lower().count(letter) + 0.5 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


# --- scenes ----------------------------------------------------------------------------------------------------------


def a_memory(ledger: Ledger, word: str) -> Erasing:
    fact = ledger.remember(f"Her name is {word}.", entities=[word], tags=[word], project="home")
    ledger.bind(actor="someone").remember(f"her  NAME is {word}.", project="home")
    ledger.revise(fact.id, f"Her name was {word}.", reason=f"because {word} said so")
    ledger.memories.set_confidence(fact.id, 0.4, reason=f"{word} is unsure")
    ledger.reject(ledger.propose(f"Her name was {word}.", project="home").id, reason="once is enough")
    ledger.capture("Who is it?", f"You said: her name is {word}.", project="home", reinforce=False)
    return Erasing(fact.id)


def a_successor(ledger: Ledger, word: str) -> Erasing:
    fact = ledger.remember("Her name is unknown.", project="home")
    tea = ledger.supersede(fact.id, f"Her name is {word}.", reason="they said so")
    ledger.invalidate(tea.id, reason=f"{word} took it back")
    return Erasing(tea.id)


def an_interaction(ledger: Ledger, word: str) -> Erasing:
    known = ledger.remember("The user prefers dark roast coffee.", kind="preference")
    long = f"Decision: we buy {word} coffee now.\n\n" + f"the user prefers dark roast {word} coffee " * (
        BLOB_BYTES // 50
    )
    turn = ledger.capture(f"Which {word}?", long, summary=f"{word}!", context={word: [word]}, session="s1")
    ledger.extract(turn.id)
    ledger.promote(ledger.propose(f"Coffee is called {word}.", sources=[turn.id]).id)
    ledger.reinforce(known.id, source=turn.id)
    return Erasing(turn.id)


def an_answered_interaction(ledger: Ledger, word: str) -> Erasing:
    late = ledger.capture(f"And {word}?", session="s1")
    ledger.interactions.add_response(late.id, f"The user prefers {word} coffee.", summary=word)
    ledger.jobs.run()
    return Erasing(late.id)


def a_session(ledger: Ledger, word: str) -> Erasing:
    ledger.capture(f"Where is {word}?", f"{word} is at home.", session=word)
    ledger.remember(f"{word} is at home.", session=word)
    return Erasing(SessionName(word))


def a_message(ledger: Ledger, word: str) -> Erasing:
    """Say the word in a message with parts, in summaries one above the other, and in an abstract of the whole."""
    session = ledger.session("talk", project="home")
    call = {"type": "tool_use", "id": word, "name": word, "arguments": {word: [f"{word} of the house"]}}
    thought = {"type": "reasoning", "text": f"{word} it is."}
    session.append("user", "Who lives here?")
    message = session.append("assistant", f"It is {word}.", parts=[call, thought], model=word)
    session.append("user", f"So it is {word}.")
    _summed_up(ledger, word)
    return Erasing(Event(message.position))


def a_turn(ledger: Ledger, word: str) -> Erasing:
    """Say the word in a captured turn whose messages read their text through it."""
    turn = ledger.capture(f"And {word}?", f"It is {word}.", session="talk", append=True, reinforce=False)
    _summed_up(ledger, word)
    return Erasing(turn.id)


def _summed_up(ledger: Ledger, word: str) -> None:
    session = ledger.session("talk", project="home")
    for number in range(3):
        session.append("user", f"Word {number}.")
    for _ in range(3):  # two summaries of messages, and a summary of these
        sum_up(session, f"They speak of {word}.")
    session.set_abstract(f"{word} lives here.")


def a_project(ledger: Ledger, word: str) -> Erasing:
    ledger.remember("It has a name.", project=word)
    ledger.projects.set_state(word, "fact", word, word)
    ledger.projects.add_alias(word, f"also {word}")
    ledger.capture(f"What of {word}?", "Nothing yet.", project=word)
    return Erasing(Project(word))


def a_document(ledger: Ledger, word: str) -> Erasing:
    path = f"notes/{word}.md"
    notes = ledger.documents.add(
        f"# {word}\n\n{word} lives here.\n\n## More\n\nNothing.\n", title=word, tags=[word], path=path
    )
    ledger.remember(f"{word} lives here.", sources=[notes.chunks[0].id])
    ledger.documents.add(f"# {word}\n\n{word} has moved.\n\n## More\n\nNothing.\n", path=path)
    ledger.documents.remove(notes.id, reason=f"{word} asked")
    return Erasing(notes.id)


def a_value(ledger: Ledger, word: str) -> Erasing:
    put = ledger.values.put(("notes", word), word, {word: [f"{word} lives here.", word * (BLOB_BYTES // 8)]})
    ledger.values.put(("notes", word), word, f"{word} has moved.")
    ledger.values.move(("notes", word), word, ("old", word), f"{word}.md", reason=f"{word} asked")
    ledger.values.remove(("old", word), f"{word}.md", reason=f"{word} asked")
    ledger.recall("Who has moved?", among=["values"], receipt=True)
    return Erasing(put.id)


def a_user(ledger: Ledger, word: str) -> Erasing:
    theirs = ledger.bind(user=word, actor=word, client=word, agent=word)
    fact = theirs.remember(f"{word} likes tea.", project=word, session=word, idempotency_key=word)
    turn = theirs.capture(f"I am {word}.", f"Hello {word}. " * (BLOB_BYTES // 24))
    theirs.propose(f"{word} is here.", sources=[turn.id])
    theirs.retract(fact.id, reason=f"{word} asked")
    theirs.undo(theirs.remember(f"{word} may go.").position, reason=f"{word} again")
    theirs.documents.add(f"{word} wrote this.", title=word)
    theirs.values.put((word,), word, {word: word})
    theirs.graph.relate(theirs.remember("Somebody works.").id, word, "works at", f"{word} & Co")
    theirs.recall(f"Where is {word}?", among=get_args(Corpus), receipt=True)
    ledger.vectors.update(model=letters)
    return Erasing(EVERYTHING, user=word)


def a_field(ledger: Ledger, word: str) -> Erasing:
    fact = ledger.remember("Something harmless.")
    done = ledger.retract(fact.id, reason=f"because of {word}")
    return Erasing(Event(done.position, ["data.reason"]))


def an_actor(ledger: Ledger, word: str) -> Erasing:
    fact = ledger.bind(actor=word).remember("Something harmless.")
    return Erasing(Event(fact.position, ["actor"]))


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
    Scene("a value", a_value),
    Scene("a user", a_user),
    Scene("a field of one event", a_field),
    Scene("the actor of one event", an_actor),
)


# --- killed at every file operation ----------------------------------------------------------------------------------


def work(share: dict[str, Any]) -> dict[str, Any]:
    """Do a worker's share of the kills, behind the shim."""
    totals: dict[str, Any] = {"failures": [], "kills": 0, "begun": 0, "operations": []}
    for number, scene in enumerate(KILLED):
        place = Path(share["folder"], str(number))
        kills = Kills(scene, place, word_of(share["seed"], 100 + number), Shim(place))
        first = 1 + (share["number"] + share["seed"] * share["of"]) % share["every"]
        for before in range(first, kills.operations + 1, share["every"]):
            kills.kill(before)
        totals["failures"] += kills.failures[:5]
        totals["operations"].append(kills.operations)
        totals["kills"] += kills.killed
        totals["begun"] += kills.begun
    return totals


class Kills:
    """A ledger whose copies are erased from and killed, each before another file operation."""

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
            self.failures.append(
                f"{self.scene.name}: the process ended with {status} instead of a kill before operation {before}"
            )
            return
        self.killed += 1
        try:
            wrong = list(self._look(path))
        except LedgerError as error:
            wrong = [f"{type(error).__name__}: {error}"]
        self.failures += [f"{self.scene.name}, killed before operation {before}: {problem}" for problem in wrong]

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
            self.how(ledger)

    def _look(self, path: Path) -> Iterator[str]:
        """Yield the failures after a kill: opening must complete an erasure that the log has, and otherwise erasing must work."""
        with Ledger.open(path) as ledger:
            states = [report.state for report in ledger.erasures.list()]
            self.begun += bool(states)
            if not states:
                report_now = self.how(ledger)
                states = [report_now.state]
            if states != ["completed"]:
                yield f"the erasure is {states}"
            yield from (f"it does not verify: {problem}" for problem in ledger.proof.verify(full=True).problems[:2])
        yield from (f"found in {hit}" for hit in hits(path.parent, self.word))


KILLED = tuple(scene for scene in SCENES if scene.name in ("a memory", "an interaction", "a document", "a user"))
