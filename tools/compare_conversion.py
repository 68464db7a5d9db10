"""Compares what commit ee43cfd reports of a ledger with what today's code reports of its conversion.

    git worktree add --detach ../before ee43cfd
    python tools/compare_conversion.py --before ../before [--conversations 3] [--shuffled 20] [DATA.json.gz …]

The ledgers, all written by the old code in a process of its own: the golden logs of that commit, bulk acts, commands of
several people in random order with undo, redo, distrust and erasure, and of each file of conversations in the neutral
format the first few (imported, made sessions, compacted, extracted, consolidated, undone and erased in part). Compared are all
memories, confidence steps, interactions, documents, observations, sessions with messages, summaries and windows, merges,
conflicts, projects, policies, distrusted origins, holds, refusals, the whole audit trail, and recall for some questions.
Old names are mapped to today's first. Exit code 1 if something differs that ``EXPECTED`` does not explain.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools import conversion_tables as tables  # noqa: E402

NOW = datetime(2027, 1, 1, tzinfo=UTC)  # when both are asked
QUESTIONS = ("coffee tea marathon", "What does the user like?", "Where does Ana live?", "How many masts has a ketch?")
KEYS = {  # names in the answers of ee43cfd, and what today's call them: one of several, joined by "|"
    "context_pack": "context",
    "created_at": "occurred_at",
    "doc_type": "type",
    "edges": "relations",
    "in_force": "in_effect",
    "has_summary": "has_abstract",
    "key": "name",
    "matches_a_turn": "max_matches",
    "members": "memories",
    "response_summary": "summary",
    "retired": "retracted",
    "session_id": "session",
    "slot": "attribute",
    "source": "origin|subject",
    "target": "object",
    "text": "content",
    "trending": "trend",
}
WORDS = {
    "action=both": "accept",
    "rule=edge": "relation",
    "status=moot": "obsolete",
    "status=retired": "retracted",
    "status=settled": "lapsed",
    "trending=stale": "dormant",
}
EXPECTED = (  # what differs in ``faults``, and which fault of ee43cfd it is due to
    (
        r"\.memories\..*\.status: active → candidate",
        "a restored memory went back to a status that an undo had taken from it",
    ),
    (
        r"\.memories\..*\.tags: \['art', 'art'\]",
        "a tag that was added twice, once by what an undo and a redo moved, was there twice",
    ),
    (r"\.recall What does the user like\?: ", "and recall gave the one that is a candidate"),
)

Json = Any


# --- in a process with one product or the other ----------------------------------------------------------------------


def product() -> Any:
    """The class with every method by its name of before: ``Ledger`` of ee43cfd, or what the older tests call."""
    import ledger

    if not hasattr(ledger.Ledger, "bind"):
        return ledger.Ledger
    sys.path.append(str(ROOT / "tests"))
    return import_module("old_names").Ledger


def live(path: str, sample: str, number: int) -> None:
    """A conversation imported and worked on, as an agent and its user would."""
    conversation = _conversations(sample)[number]
    chance, moment = random.Random(number), iter(range(10**9))

    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=next(moment))

    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump([conversation], file)
        file.flush()
        with product().open(path, clock=clock, random=chance.randbytes, actor="ann", client="compare") as ledger:
            ledger.import_file(file.name)
            ledger.adopt_policy(extract=True, expire=True)
            ledger.run_policies()
            _converse(ledger, conversation)
            _curate(ledger, conversation)
            _take_back(ledger)
            ledger.import_file(file.name)
            for each in conversation["qa"][:3]:
                ledger.recall(each["question"], among="all", receipt=True)
            ledger.checkpoint()


def small(path: str) -> None:
    """A little of everything that a conversion has to take care of: blobs, keys, a bulk act, what was erased once and twice."""
    writing, bulk = import_module("ledger.writing"), import_module("ledger.way_back.bulk")
    chance, moment = random.Random(13), iter(range(10**9))

    def clock() -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=next(moment))

    with product().open(path, clock=clock, random=chance.randbytes, actor="ann", client="before") as ledger:
        ledger.register_project("Kitchen", description="where it happens", key="first")
        ledger.set_state("kitchen", "status", "door", "open", source="the sign")
        with patch.object(writing, "INLINE_BYTES", 100):
            ledger.capture("Which tea? " + "x" * 120, "The user prefers green tea, I know.", project="kitchen")
            ledger.capture("Which cup? " + "y" * 120, "The blue one.", project="kitchen")
        tea = ledger.remember("The user prefers green tea.", kind="preference", confidence=0.5, tags=["tea"], key="tea")
        ledger.relate(tea.id, "user", "prefers", "green tea")
        ledger.unrelate(tea.id, "user", "prefers", "green tea", "which tea?")
        turn = ledger.capture("Tea?", "The user prefers green tea.", session_id="monday")
        lines = Path(path + ".lines")
        lines.write_text('{"prompt": "What is in the pot?", "response": "Peppermint leaves."}\n', encoding="utf-8")
        ledger.import_file(lines)
        notes = ledger.ingest("# Tea\n\nGreen tea is not fermented.\n", path="tea.md", title="Tea", tags=["drink"])
        ledger.observe("The user knows about tea.", [tea.id, turn.id], tags=["tea"], why="said twice")
        chat = ledger.session("talk")
        for number in range(4):
            chat.append("user", f"Number {number} of what I say about tea.", speaker="Ann")
        chat.set_summary("They talk about tea.")
        chat.truncate(2)
        ledger.recall("green tea", receipt=True, observations=1)
        position = ledger.position
        boat = ledger.propose("The user owns a boat.", source=turn.id)
        ledger.promote(boat.id, note="said so")
        ledger.undo(position + 2, reason="a joke")
        ledger.checkpoint()
        with patch.object(bulk, "BULK_EVENTS", 2):
            for number in range(3):
                ledger.remember(f"Trudy says {number}.", actor="trudy")
            ledger.distrust("trudy", kind="actor", reason="forged")
        twice = ledger.remember("The old kettle of Mary Poppins is loud.", tags=["kettle"], key="kettle")
        ledger.relate(twice.id, "old kettle", "owned by", "Mary Poppins")
        ledger.retract(twice.id, reason="it is not")
        ledger.restore(twice.id, reason="it is")
        ledger.erase(twice.id, "asked for")
        ledger.erase(notes.id, "asked for")
        seen = ledger.observe("Mary Poppins likes tea and kettles.", [tea.id], why="she said so")
        ledger.erase(seen.id, "asked for", sources="keep")
        bert = ledger.remember("Bert sweeps chimneys.", user="bert", actor="bert", key="chimneys")
        ledger.remember("Bert paints pavements.", user="bert", actor="bert")
        ledger.erase(bert.id, "asked for", user="bert")
        ledger.remember("The password is hunter2-hunter2, do not lose it.")
        for each in ("pot", "Which tea"):
            ledger.erase(next(i.id for i in ledger.interactions() if each in (i.prompt or "")), "asked for")
        with suppress(Exception):
            ledger.promote(twice.id)
        ledger.erase(user="bert", reason="asked for")
        ledger.remember("The kitchen has a blue door.", project="kitchen", valid_to="2026-12-31")
        ledger.checkpoint()
        Path(path + ".jsonl").unlink(missing_ok=True)
        ledger.export_file(path + ".jsonl")


def bulk(path: str) -> None:
    """Acts in several parts of each kind, as they were recorded above 10,000 events."""
    limits = {"way_back.bulk": "BULK_EVENTS", "erasure.erasing": "PART_EVENTS", "policies.evidence": "PART"}
    with ExitStack() as stack:
        for module, name in limits.items():
            stack.enter_context(patch.object(import_module(f"ledger.{module}"), name, 2))
        ledger = stack.enter_context(product().open(path, actor="ann"))
        facts = [ledger.remember(f"The user has been to city number {number}.") for number in range(6)]
        position = ledger.position
        ledger.ingest("\n\n".join(f"# Part {number}\n\nText {number}." for number in range(6)), title="Parts")
        ledger.undo(position + 1, reason="another book")
        ledger.redo(position + 1)
        for number in range(3):
            ledger.remember(f"Eve says {number}.", actor="eve")
            ledger.observe(f"The user travels, number {number}.", [facts[0].id, facts[number + 1].id])
            ledger.remember(f"Number {number} of Bert.", user="bert")
        ledger.distrust("eve", kind="actor", reason="forged")
        ledger.withdraw_source(facts[0].id, "misheard")
        ledger.restore(facts[0].id)
        ledger.trust("eve", kind="actor", reason="she was right")
        ledger.distrust("eve", kind="actor")
        ledger.erase(user="bert", reason="asked for")
        ledger.checkpoint()


def faults(path: str) -> None:
    """What ee43cfd folded wrongly, because an event stored what a later undo made untrue: ``EXPECTED`` names each."""
    with product().open(path, actor="ann") as ledger:
        idea = ledger.propose("The user rows.")
        promoted = ledger.promote(idea.id).position
        ledger.retract(idea.id)
        ledger.restore(idea.id, actor="bob")
        ledger.undo(promoted)
        tagged = ledger.remember("The user paints.")
        first = ledger.retag(tagged.id, ["art"]).position
        ledger.undo(first)
        ledger.retag(tagged.id, ["art"])
        ledger.redo(first)


def shuffled(path: str, seed: str) -> None:
    """Some 80 commands in no order that anybody meant, most of them taken back, by several people."""
    chance, moment = random.Random(int(seed)), iter(range(10**9))

    def clock() -> datetime:
        return datetime(2026, 5, 1, tzinfo=UTC) + timedelta(hours=next(moment))

    with product().open(path, clock=clock, random=chance.randbytes) as ledger:
        for number in range(80):
            with suppress(Exception):  # a refusal is part of it
                _something(ledger, chance, number)


def _something(ledger: Any, chance: random.Random, number: int) -> None:
    actor = chance.choice(("ann", "bob", "eve"))
    by = {"actor": actor}
    known = [each.id for each in ledger.memories(status="all", limit=100)]
    turns = [each.id for each in ledger.interactions(limit=100)]
    one, other = (chance.choice(known), chance.choice(known)) if known else ("", "")
    position = chance.randint(2, max(2, ledger.position))
    fact = f"The user has {chance.choice(('a boat', 'a dog', 'two cats', 'green tea', 'an old house'))} in town {number % 7}."
    acts: list[Callable[[], Any]] = [
        lambda: ledger.remember(fact, source=chance.choice([*turns, ()]), tags=["home"], **by),
        lambda: ledger.remember(f"Ana lives in {chance.choice(('Rome', 'Lisbon'))}.", **by),
        lambda: ledger.propose(fact, source=chance.choice([*turns, ()]), **by),
        lambda: ledger.capture("And?", f"{fact} I know.", session_id="day", **by),
        lambda: ledger.promote(one, **by),
        lambda: ledger.retract(one, **by),
        lambda: ledger.invalidate(one, **by),
        lambda: ledger.restore(one, **by),
        lambda: ledger.revise(one, fact + " Or so.", **by),
        lambda: ledger.retag(one, [chance.choice(("art", "home"))], [chance.choice(("art", "sea"))], **by),
        lambda: ledger.supersede(one, fact + " By now.", **by),
        lambda: ledger.merge([one, other], **by),
        lambda: ledger.reinforce(one, source=chance.choice(turns), **by),
        lambda: ledger.adjust(one, chance.random(), **by),
        lambda: ledger.relate(one, "user", "owns", fact.split()[3], **by),
        lambda: ledger.set_validity(one, valid_to=f"2027-0{chance.randint(1, 9)}-01", **by),
        lambda: ledger.quarantine(one, **by),
        lambda: ledger.release(one, **by),
        lambda: ledger.observe(f"The user owns things, {number}.", [one, other], **by),
        lambda: ledger.adopt_policy(gain=chance.choice((0.01, 0.1)), **by),
        lambda: ledger.find_conflicts(**by),
    ]
    back: list[Callable[[], Any]] = [
        lambda: ledger.undo(position, cascade=True, **by),
        lambda: ledger.redo(position, **by),
        lambda: ledger.distrust(chance.choice(("bob", "eve")), kind="actor", actor="ann"),
        lambda: ledger.trust(chance.choice(("bob", "eve")), kind="actor", actor="ann"),
        lambda: ledger.withdraw_source(one, **by),
        lambda: ledger.erase(one, "asked", quotes="keep", derived="keep", sources="keep") if number > 60 else None,
    ]
    chance.choice(acts if chance.random() < 0.7 else back)()


def _converse(ledger: Any, conversation: Json) -> None:
    chat = ledger.session("live")
    for turn in conversation["turns"][:160]:
        chat.append("user" if turn is conversation["turns"][0] else "assistant", turn["text"], speaker=turn["speaker"])
    chat.extract()
    chat.compact(2_000)
    chat.set_summary("They talked.")
    chat.assemble(3_000, record=True)
    chat.truncate(30)


def _curate(ledger: Any, conversation: Json) -> None:
    text = "\n\n".join(f"# {each['qid']}\n\n{each['answer']}" for each in conversation["qa"][:30])
    notes = ledger.ingest(text, path="answers.md", title="Answers")
    facts = [
        ledger.remember(f"{each['question']} {each['answer']}", kind="fact", tags=["qa"], key=each["qid"])
        for each in conversation["qa"][:40]
    ]
    ledger.remember("The first answer stands in the notes.", source=notes.chunks[0].id, actor="bob")
    ledger.consolidate("interactions", using="grouping")
    ledger.observe("Many questions were answered.", [each.id for each in facts[:3]], tags=["qa"])
    for one in facts[:5]:
        ledger.retract(one.id, reason="not asked")
    ledger.restore(facts[0].id)
    newer = ledger.supersede(facts[6].id, "The seventh answer is another.")
    ledger.relate(newer.id, "seventh answer", "replaces", "former answer")
    ledger.set_validity(facts[7].id, valid_to="2026-06-01")
    for city in ("Lisbon", "Rome"):
        ledger.remember(f"Ana lives in {city}.", confidence=0.9, actor="mallory")
    for often in ("", " often"):
        ledger.remember(
            f"In the evening the user{often} talks with a friend about the old wooden house.", tags=["talk"]
        )
    ledger.find_conflicts()
    ledger.find_merges()
    for each in ledger.merges()[:1]:
        ledger.merge(each.id, reason="one fact")


def _take_back(ledger: Any) -> None:
    position = ledger.position
    ledger.remember("The stove is green.")
    ledger.undo(position + 1, reason="wrong stove")
    ledger.redo(position + 1)
    ledger.distrust("mallory", kind="actor", reason="forged")
    ledger.distrust("bob", kind="actor", reason="unsure")
    ledger.trust("bob", kind="actor", reason="he was right")
    turns = ledger.interactions(limit=20)
    ledger.undo(turns[3].position, cascade=True)
    ledger.erase(turns[5].id, "asked for", quotes="erase", derived="erase", sources="keep")
    ledger.erase(ledger.memories(tag="qa")[3].id, "asked for")


def dump(path: str, questions: list[str]) -> Json:
    """Everything that a ledger says, by the words of its door."""
    import msgspec

    ledger = product().open(path, readonly=True, clock=lambda: NOW)
    with ledger:
        found = {user: _of_user(ledger, user, questions) for user in _users(path)}
    return json.loads(msgspec.json.encode(found, enc_hook=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, Iterable):
        return list(value)
    return {
        name: getattr(value, name)
        for name in dir(value)
        if not name.startswith("_") and not callable(getattr(value, name))
    }


def _users(path: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        sql = "SELECT DISTINCT ifnull(json_extract(state, '$.user'), '') FROM events ORDER BY 1"
        return [user for (user,) in connection.execute(sql)]


def _of_user(ledger: Any, user: str, questions: list[str]) -> Json:
    memories = ledger.memories(status="all", user=user, limit=100_000)
    found = {
        "memories": {each.id: each for each in memories},
        "confidence": {each.id: ledger.confidence(each.id, user=user) for each in memories},
        "interactions": ledger.interactions(user=user, limit=500),
        "documents": ledger.documents(status="all", user=user, limit=500),
        "observations": {each.id: each for each in ledger.observations(status="all", user=user, limit=500)},
        "merges": ledger.merges("all", user=user),
        "conflicts": ledger.conflicts("all", user=user),
        "projects": ledger.projects(user=user),
        "policy": ledger.policy(user=user),
        "distrusted": ledger.distrusted(user=user),
        "holds": ledger.holds(user=user),
        "refusals": ledger.refusals(user=user, limit=500),
        "audit": list(_pages(ledger, user)),
        "sessions": {each.id: _session(ledger, each, user) for each in ledger.sessions(user=user, limit=None)},
    }
    for question in questions:
        pack = ledger.recall(question, user=user, among="all")
        found[f"recall {question}"] = [[hit.id, round(hit.score, 9)] for hit in pack.items]
    return found


def _pages(ledger: Any, user: str) -> Iterator[Any]:
    before = None
    while page := ledger.audit(user=user, before=before, limit=500):
        for each in page:
            yield {
                name: getattr(each, name)
                for name in ("position", "subject", "command", "in_effect", "in_force", "actor", "event_id")
                if hasattr(each, name)
            }
        before = page[-1].position


def _session(ledger: Any, info: Any, user: str) -> Json:
    chat = ledger.session(info.name or info.id, user=user)
    return {
        "info": info,
        "messages": [[each.position, each.role, each.content, each.hidden] for each in chat.messages(hidden=True)],
        "window": [str(each).partition("(")[2] for each in chat.window()],  # the class has another name
        "summaries": chat.summaries(),
    }


# --- side by side ----------------------------------------------------------------------------------------------------


def _conversations(path: str) -> list[Json]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: list[Json] = json.load(file)
    return found


def ask(place: Path, *arguments: str) -> Json:
    """What another process says that works with the product at a place."""
    command = [sys.executable, __file__, "--product", str(place), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout or "null")


def renamed(value: Json, field: str = "") -> Json:
    """An answer of ee43cfd in the names of today; what may be one of several is joined by "|"."""
    if isinstance(value, dict):
        return {name: renamed(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, field) for each in value]
    if not isinstance(value, str):
        return value
    if field == "type" and value in tables.TYPES:
        return tables.TYPES[value].type or value
    if field == "command":
        several = tables.SEVERAL.get(value)
        return "|".join(sorted(several.values())) if several else tables.COMMANDS.get(value, value)
    return WORDS.get(f"{field}={value}", value)


def differences(path: str, one: Json, other: Json) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        today = {
            name: next((new for new in (name, *KEYS.get(name, "").split("|")) if new in other), name) for name in one
        }
        for name, new in today.items():
            if new in other:
                yield from differences(f"{path}.{new}", one[name], other[new])
            else:
                yield f"{path}.{name}: only before"
        if "id" not in one and "position" not in one:  # an answer may say more than it did
            yield from (f"{path}.{name}: only after" for name in other.keys() - set(today.values()))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(f"{path}[{number}]", left, right)
    elif one != other and not (path.endswith(".command") and other in one.split("|")):
        yield f"{path}: {one!s:.80} → {other!s:.80}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", help="conversations in the neutral format, gzipped")
    parser.add_argument("--before", type=Path, help="a checkout of commit ee43cfd")
    parser.add_argument("--conversations", type=int, default=3, help="of each file")
    parser.add_argument("--shuffled", type=int, default=20, help="ledgers of commands in no order")
    parser.add_argument("--product", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.product:
        sys.path.insert(0, options.product)
        what, path, *rest = options.files
        if what == "import":
            product().import_log(rest[0], path)
        elif what in ("small", "bulk", "faults"):
            globals()[what](path)
        elif what == "shuffled":
            shuffled(path, rest[0])
        elif what == "live":
            live(path, rest[0], int(rest[1]))
        else:
            json.dump(dump(path, rest), sys.stdout)
        return 0
    return compare(options.before.resolve(), options.files, options.conversations, options.shuffled)


def compare(before: Path, files: list[str], several: int, shuffles: int) -> int:
    from tools.convert import convert

    total = Counter[str](unexplained=0)
    with tempfile.TemporaryDirectory() as place:
        for number, (name, made, questions) in enumerate(_cases(before, files, several, shuffles)):
            old, new = Path(place, f"{number}.before.db"), Path(place, f"{number}.after.db")
            ask(before, made[0], str(old), *made[1:])
            counts = convert(str(old), str(new))
            with product().open(new) as ledger:
                assert not (problems := ledger.verify(full=True).problems), problems
            was = renamed(ask(before, "dump", str(old), *questions))
            found = list(differences("", was, ask(ROOT, "dump", str(new), *questions)))
            size = sum(len(each) for user in was.values() for each in user.values())
            print(f"{name}: {counts['events']} events, {size} answers, {len(found)} different")
            for each in found:
                fault = next(
                    (fault for path, fault in EXPECTED if name == "faults" and re.match(r"\." + path, each)), None
                )
                total["unexplained"] += fault is None
                print(f"    {each}" + (f" ({fault})" if fault else ""))
            total.update(ledgers=1, events=counts["events"], answers=size, different=len(found))
    print(", ".join(f"{count} {what}" for what, count in total.items()))
    return 1 if total["unexplained"] else 0


def _cases(before: Path, files: list[str], several: int, shuffles: int) -> Iterator[tuple[str, list[str], list[str]]]:
    for made in ("faults", "bulk"):
        yield made, [made], list(QUESTIONS)
    for seed in range(shuffles):
        yield f"shuffled {seed}", ["shuffled", str(seed)], list(QUESTIONS)
    for log in [*sorted(before.glob("tests/golden/log_format_*.jsonl")), *ROOT.glob("tests/golden/before_*.jsonl")]:
        yield log.name, ["import", str(log)], list(QUESTIONS)
    for file in files:
        for number, each in enumerate(_conversations(file)[:several]):
            asked = [qa["question"] for qa in each["qa"][:: max(1, len(each["qa"]) // 10)]]
            yield each["sample_id"], ["live", file, str(number)], asked


if __name__ == "__main__":
    raise SystemExit(main())
