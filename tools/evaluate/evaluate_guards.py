"""How well the guards tell attacks and secrets from notes: precision, recall and F1 over the corpus of this repository.

    python tools/evaluate/evaluate_guards.py [--json] [--misses] [--sentences [--half seen]] [--speed] [TEXTS.jsonl …]

The corpus lies in tests/corpus. Half of it was held out while the patterns were written; both halves are told apart. Files
given besides (JSON lines, or JSON, gzipped or not) count as benign: every text in them is scanned, and what is flagged is listed.
Of the sentences about secrets one half may be looked at; of the other only the totals are printed, and each look at them
makes the other half less of a proof: while rules are written, use ``--sentences --half seen``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import string
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ledger.guards import secrets, threats  # noqa: E402

CORPUS = ROOT / "tests" / "corpus"
LETTERS = string.ascii_letters + string.digits


def corpus(name: str) -> list[dict[str, Any]]:
    lines = (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# --- threats ---------------------------------------------------------------------------------------------------------


def scores(attacks: Iterable[dict[str, Any]], benign: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts, and precision, recall and F1 from 0 to 1."""
    hits = [bool(threats.scan(each["text"])) for each in attacks]
    alarms = [bool(threats.scan(each["text"])) for each in benign]
    return _scores(sum(hits), len(hits), sum(alarms), len(alarms))


def _scores(found: int, attacks: int, alarms: int, benign: int) -> dict[str, Any]:
    precision = found / (found + alarms) if found + alarms else 1.0
    recall = found / attacks if attacks else 1.0
    return {
        "attacks": attacks,
        "found": found,
        "benign": benign,
        "false_alarms": alarms,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    }


def by(field: str, rows: Iterable[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """(found, of) of each value of a field."""
    counts: dict[str, list[int]] = {}
    for each in rows:
        count = counts.setdefault(each[field], [0, 0])
        count[0] += bool(threats.scan(each["text"]))
        count[1] += 1
    return {name: (count[0], count[1]) for name, count in sorted(counts.items())}


# --- secrets ---------------------------------------------------------------------------------------------------------
# No key is written down here: each is put together when this runs, so that no scanner takes this file for a leak.


def synthetic_secrets(seed: int = 1) -> list[tuple[str, str, str]]:
    """(kind, text with a secret, the secret), made of nothing that was ever a key."""
    chance = random.Random(seed)

    def some(length: int, alphabet: str = LETTERS) -> str:
        core = "".join(chance.choice(alphabet) for _ in range(length - 3))
        return core + "".join(chance.choice(kind) for kind in _kinds(alphabet))

    return [
        (kind, frame.format(secret), secret)
        for kind, make, frames in _secret_kinds(some, chance)
        for frame in frames
        for secret in (make(),)
    ]


def _kinds(alphabet: str) -> tuple[str, str, str]:
    """Three alphabets, so that a made-up key has what real ones have, if its alphabet does."""
    wanted = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
    first, second, third = ("".join(each for each in kind if each in alphabet) or alphabet for kind in wanted)
    return first, second, third


_Some = Callable[..., str]
_IN_PROSE = ("our key is {}", "export TOKEN={}", "Use {} for the staging system.", '"key": "{}"')
_CALLED = (
    "the password is {}", "Password: {}", "DB_PASSWORD={}", "Das Passwort lautet {}", "le mot de passe est {}",
    "la contraseña es {}", "a senha é {}", "la password è {}", "het wachtwoord is {}", "hasło: {}", "пароль: {}", "密码是{}",
    "パスワードは{}", "wifi password for the guests is {}", 'password = "{}"', "pwd={}",
)  # fmt: skip
_NAMED = ("api_key = {}", "client_secret: {}", '{{"access_token": "{}"}}', "SECRET_KEY={}", "auth token: {}")


def _secret_kinds(some: _Some, chance: random.Random) -> Iterator[tuple[str, Callable[[], str], tuple[str, ...]]]:
    upper = string.ascii_uppercase + "234567"
    yield "aws_access_key", lambda: "AK" + "IA" + some(16, upper), _IN_PROSE
    yield "aws_secret_key", lambda: some(40), ("aws_secret_access_key = {}", "AWS secret: {}")
    yield "github_token", lambda: "gh" + "p_" + some(36), _IN_PROSE
    yield "github_token", lambda: "github" + "_pat_" + some(22) + "_" + some(59), _IN_PROSE
    yield "gitlab_token", lambda: "gl" + "pat-" + some(20), _IN_PROSE
    yield "slack_token", lambda: "xo" + "xb-" + some(12, string.digits) + "-" + some(24), _IN_PROSE
    yield "google_api_key", lambda: "AI" + "za" + some(35), _IN_PROSE
    yield "openai_key", lambda: "sk" + "-proj-" + some(48), _IN_PROSE
    yield "anthropic_key", lambda: "sk" + "-ant-" + "api03-" + some(80), _IN_PROSE
    yield "stripe_key", lambda: "sk_" + "live_" + some(24), _IN_PROSE
    yield "huggingface_token", lambda: "hf" + "_" + some(34), _IN_PROSE
    yield "jwt", lambda: "ey" + "Jh" + some(30) + ".ey" + "J" + some(60) + "." + some(43), _IN_PROSE
    yield "private_key", lambda: _pem(some), ("{}", "the host key:\n{}\nkeep it safe")
    yield "url_password", lambda: some(14), ("postgres://app:{}@db.internal:5432/shop", "redis://:{}@cache:6379/0")
    yield "bearer_token", lambda: some(40), ("curl -H 'Authorization: Bearer {}' https://api.example.com",)
    yield "password", lambda: some(8) + chance.choice("!?#%&") + some(4), _CALLED
    yield "secret", lambda: some(28), _NAMED
    yield "card_number", lambda: _card(chance), ("my card is {}", "Visa {} until 08/29", "{}")


def _pem(some: _Some) -> str:
    begin, end = ("-----" + word + " RSA PRIV" + "ATE KEY-----" for word in ("BEGIN", "END"))
    return "\n".join([begin, some(64), some(64), some(40), end])


def _card(chance: random.Random) -> str:
    """A number with the right check digit, in groups of four."""
    digits = "4" + "".join(chance.choice(string.digits) for _ in range(14))
    checked = next(digits + each for each in string.digits if secrets.luhn(digits + each))
    return " ".join(checked[at : at + 4] for at in range(0, 16, 4))


EXAMPLES = (
    "password: <your password>", "password=changeme", "token = os.environ['TOKEN']", "The password policy was changed.",
    "Passwords must have at least 14 characters", "api_key: ${API_KEY}", "secret: none", "the key is under the mat",
    "password: ********", "https://user:password@example.com", "max_tokens: 4096", "key=lambda pair: pair[1]",
    "token is 15 characters", "password: str", "ISBN 978-3-16-148410-0", "phone +49 30 1234567", "passed: 1234 tests",
    "primary key = (user, position)", "The session token is rotated daily.", "hasło dnia: radość", "clave es la paciencia",
    "commit 3f2a9c1d8b7e6f5a4c3d2e1f0a9b8c7d6e5f4a3b", "SHA256:uNiVztksCsDhcc0u9e8BrqZsLQ", "secretary: Anna Müller",
    "550e8400-e29b-41d4-a716-446655440000", "sk-learn is imported as sklearn", "order 1234567890123456", "passport: DE",
    "password reset form: done", "keys: id, name", "The secret is to knead the dough", "DATABASE_URL points at the replica",
)  # fmt: skip


def secret_scores(benign: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """A secret counts as found when nothing of it is left in the redacted text."""
    kinds: dict[str, list[int]] = {}
    for kind, text, secret in synthetic_secrets():
        count = kinds.setdefault(kind, [0, 0])
        count[0] += secret not in secrets.redacted(text, secrets.scan(text))
        count[1] += 1
    plain = [*EXAMPLES, *(each["text"] for each in benign)]
    alarms = sum(bool(secrets.scan(text)) for text in plain)
    found, of = (sum(count[at] for count in kinds.values()) for at in (0, 1))
    return _scores(found, of, alarms, len(plain)), {name: (count[0], count[1]) for name, count in kinds.items()}


SENTENCES = ("secret_sentences", "secret_sentences_2")  # the corpora of sentences about secrets, the newest last
HALVES = ("seen", "unseen")
LEAST_LEFT = 4  # characters of a secret that are left side by side make it one that is missed; of a shorter one all


def sentence_scores(name: str, half: str) -> dict[str, Any]:
    """Count of one half of a corpus the sentences with a secret that is missed, and the others that lose anything."""
    rows = [each for each in corpus(name) if each["half"] == half]
    with_one = [each for each in rows if secrets_of(each)]
    without = [each for each in rows if not secrets_of(each)]
    missed = sum(is_missed(each) for each in with_one)
    false = sum(bool(secrets.scan(each["text"])) for each in without)
    return {"secrets": len(with_one), "missed": missed, "talk": len(without), "false": false}


def secrets_of(row: dict[str, Any]) -> list[str]:
    """Return the secrets that a sentence of a corpus says; the first corpus has one at the most."""
    return row["secrets"] if "secrets" in row else [row["secret"]] if row["secret"] else []


def is_missed(row: dict[str, Any]) -> bool:
    """Return True if a part of one of the secrets of a sentence is still in its text."""
    taken = {at for each in secrets.scan(row["text"]) for at in range(each.start, each.end)}
    return any(_left(row["text"], secret, taken) >= min(LEAST_LEFT, len(secret)) for secret in secrets_of(row))


def _left(text: str, secret: str, taken: set[int]) -> int:
    """Return the characters of the longest part of a secret that is left, wherever it stands, without blanks around it."""
    longest = 0
    for start in (at for at in range(len(text)) if text.startswith(secret, at)):
        kept = "".join("\0" if at in taken else text[at] for at in range(start, start + len(secret)))
        longest = max(longest, *(len(part.strip()) for part in kept.split("\0")))
    return longest


# --- texts of yours --------------------------------------------------------------------------------------------------


def texts(path: str) -> Iterator[str]:
    """Every text in a file of JSON or JSON lines."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        whole = file.read()
    try:
        waiting = [json.loads(whole)]
    except ValueError:
        waiting = [json.loads(line) for line in whole.splitlines() if line.strip()]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def conversation_turns(path: str) -> list[str]:
    """Return the texts of the turns in a file of conversations ({"turns": [{"text": …}]}); [] for any other file."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        try:
            whole = json.load(file)
        except ValueError:
            return []
    if not isinstance(whole, list):
        return []
    return [turn["text"] for one in whole if isinstance(one, dict) for turn in one.get("turns", ())]


# --- report ----------------------------------------------------------------------------------------------------------


def measure() -> dict[str, Any]:
    attacks, benign = corpus("attacks"), corpus("benign")
    halves = {
        name: scores(*([each for each in rows if each["held_out"] == held] for rows in (attacks, benign)))
        for name, held in (("dev", False), ("held_out", True))
    }
    told, kinds = secret_scores(benign)
    return {
        "threats": {"all": scores(attacks, benign), **halves},
        "techniques": by("technique", attacks),
        "languages": by("language", attacks),
        "secrets": told,
        "kinds": kinds,
        "sentences": {name: {half: sentence_scores(name, half) for half in HALVES} for name in SENTENCES},
    }


def _print(found: dict[str, Any], misses: bool) -> None:
    for name, each in {**found["threats"], "secrets": found["secrets"]}.items():
        numbers = f"precision {each['precision']:.3f}, recall {each['recall']:.3f}, F1 {each['f1']:.3f}"
        counted = f"{each['found']} of {each['attacks']}, {each['false_alarms']} false alarms in {each['benign']:,}"
        print(f"{name:9} {numbers} ({counted})")
    _print_sentences(found["sentences"])
    for what in ("techniques", "languages", "kinds"):
        print(f"\n{what}")
        for name, (hit, of) in found[what].items():
            print(f"  {name:26} {hit:4} of {of}")
    if misses:
        _print_misses()


def _print_misses() -> None:
    """Of the half that may be looked at."""
    for name, wanted in (("attacks", True), ("benign", False)):
        for each in corpus(name):
            if not each["held_out"] and bool(threats.scan(each["text"])) != wanted:
                print("missed" if wanted else "alarm", each["id"], ascii(each["text"])[:160])
    _print_missed_sentences(SENTENCES)


def _print_sentences(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'sentences about secrets':24} half    missed            false")
    for name, halves in found.items():
        for half, each in halves.items():
            missed, false = (f"{each[part]} of {each[of]}" for part, of in (("missed", "secrets"), ("false", "talk")))
            shares = [each["missed"] / each["secrets"], each["false"] / each["talk"]]
            print(f"{name:24} {half:6}  {missed:9} {shares[0]:6.1%}  {false:9} {shares[1]:6.1%}")


def _print_missed_sentences(names: Iterable[str]) -> None:
    for each in (each for name in names for each in corpus(name) if each["half"] == "seen"):
        found = secrets.scan(each["text"])
        if is_missed(each) if secrets_of(each) else found:
            clean = secrets.redacted(each["text"], found)
            print("missed" if secrets_of(each) else "false", repr(each["text"]), secrets_of(each), repr(clean))


def speed(every: Iterable[str], rounds: int = 5) -> dict[str, tuple[int, float]]:
    """(texts, µs of processor time each) of a look at notes of 45 to 75 characters, and at 1,500 characters of what is longer."""
    known = list(every)
    found = {}
    for name, some in (
        ("notes of 60 characters", [each for each in known if 45 <= len(each) <= 75]),
        ("turns of 1,500", [each[:1_500] for each in known if len(each) >= 1_500]),
    ):
        best = min(_looked_through(some[:1_000]) for _ in range(rounds))
        found[name] = (len(some[:1_000]), best / max(1, len(some[:1_000])) * 1e6)
    return found


def _looked_through(some: Iterable[str]) -> float:
    start = time.process_time()
    for text in some:
        secrets.scan(text)
        threats.scan(text)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--sentences", action="store_true", help="the sentences about secrets alone")
    parser.add_argument("--half", choices=HALVES, action="append", help="with --sentences: one half alone")
    parser.add_argument("--speed", action="store_true", help="of a look at the texts given and at the benign ones")
    given = parser.parse_args()
    if given.speed:
        known = [*(each["text"] for each in corpus("benign")), *(text for path in given.files for text in texts(path))]
        for name, (number, each) in speed(known).items():
            print(f"{name}: {each:.1f} µs ({number:,} texts)")
        return
    if given.sentences:
        halves = given.half or HALVES
        _print_sentences({name: {half: sentence_scores(name, half) for half in halves} for name in SENTENCES})
        if given.misses:
            _print_missed_sentences(SENTENCES)
        return
    found = measure()
    print(json.dumps(found, indent=1)) if given.json else _print(found, given.misses)
    for path in given.files:
        every = list(dict.fromkeys(texts(path)))
        flagged = [(text, hit) for text in every if (hit := threats.scan(text) or secrets.scan(text))]
        print(f"\n{path}: {len(flagged)} of {len(every):,} texts flagged")
        if turns := conversation_turns(path):
            alarms = sum(bool(secrets.scan(text)) for text in turns)
            print(f"  secrets in {alarms} of {len(turns):,} turns ({alarms / len(turns):.2%})")
        for text, hit in flagged:
            what = getattr(hit[0], "label", None) or getattr(hit[0], "kind", "")
            print(f"  {what}: {text[:100]!r}")


if __name__ == "__main__":
    main()
