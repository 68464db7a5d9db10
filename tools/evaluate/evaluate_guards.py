"""An evaluation of the guards: precision, recall and F1 on the attacks, secrets and harmless notes of this repository.

    python tools/evaluate/evaluate_guards.py [--json] [--misses] [--sentences [--half seen]] [--speed] [TEXTS.jsonl …]

The corpus lies in tests/corpus. Half of it was held out while the patterns were written; the report shows the halves apart.
Further files (JSON lines, or JSON, gzipped or not) count as benign: every text in them is scanned, and the flagged texts are
listed. Of the sentences about secrets, and of the lines that begin with a role, the half "seen" may be looked at; of the half
"unseen" only the totals are printed. "material" counts the attacks and notes that are held as a turn, message or document,
where a role alone is no threat.
Each look at these totals makes the unseen half less of a proof: while you write rules, use ``--sentences --half seen``.
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

from ledger.domain.scan import secrets, threats  # noqa: E402

CORPUS = ROOT / "tests" / "corpus"
LETTERS = string.ascii_letters + string.digits


def corpus(name: str) -> list[dict[str, Any]]:
    lines = (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# --- threats ---------------------------------------------------------------------------------------------------------


def is_held(text: str) -> bool:
    """Return True if a text is a threat as a turn, message or document."""
    return any(not finding.beliefs_only for finding in threats.scan(text))


def is_threat(text: str) -> bool:
    """Return True if a text is a threat as a memory."""
    return bool(threats.scan(text))


def scores(
    attacks: Iterable[dict[str, Any]], benign: Iterable[dict[str, Any]], judge: Callable[[str], bool] = is_threat
) -> dict[str, Any]:
    """Return counts, and precision, recall and F1 from 0 to 1."""
    hits = [judge(row["text"]) for row in attacks]
    alarms = [judge(row["text"]) for row in benign]
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
    """Return the number of rows found and the number of rows, by the value of a field."""
    counts: dict[str, list[int]] = {}
    for row in rows:
        count = counts.setdefault(row[field], [0, 0])
        count[0] += bool(threats.scan(row["text"]))
        count[1] += 1
    return {name: (count[0], count[1]) for name, count in sorted(counts.items())}


def role_line_scores(half: str) -> dict[str, Any]:
    """Return the scores of one half of the lines that begin with a role: orders, and chats that were written down."""
    rows = [row for row in corpus("role_lines") if row["half"] == half]
    attacks, chat = ([row for row in rows if row["kind"] == kind] for kind in ("attack", "chat"))
    return scores(attacks, chat, is_held)


# --- secrets ---------------------------------------------------------------------------------------------------------
# No key is written down here: the keys are put together at run time, so that no scanner takes this file for a leak.


def synthetic_secrets(seed: int = 1) -> list[tuple[str, str, str]]:
    """Return (kind, text with a secret, secret) for made-up secrets that were never keys."""
    chance = random.Random(seed)

    def random_key(length: int, alphabet: str = LETTERS) -> str:
        core = "".join(chance.choice(alphabet) for _ in range(length - 3))
        return core + "".join(chance.choice(kind) for kind in _kinds(alphabet))

    return [
        (kind, frame.format(secret), secret)
        for kind, make, frames in _secret_kinds(random_key, chance)
        for frame in frames
        for secret in (make(),)
    ]


def _kinds(alphabet: str) -> tuple[str, str, str]:
    """Return the upper case letters, lower case letters and digits of an alphabet.

    A made-up key gets a character of each kind, as real keys have them.
    """
    alphabets = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
    first, second, third = ("".join(letter for letter in kind if letter in alphabet) or alphabet for kind in alphabets)
    return first, second, third


_RandomKey = Callable[..., str]
_IN_PROSE = ("our key is {}", "export TOKEN={}", "Use {} for the staging system.", '"key": "{}"')
_CALLED = (
    "the password is {}", "Password: {}", "DB_PASSWORD={}", "Das Passwort lautet {}", "le mot de passe est {}",
    "la contraseña es {}", "a senha é {}", "la password è {}", "het wachtwoord is {}", "hasło: {}", "пароль: {}", "密码是{}",
    "パスワードは{}", "wifi password for the guests is {}", 'password = "{}"', "pwd={}",
)  # fmt: skip
_NAMED = ("api_key = {}", "client_secret: {}", '{{"access_token": "{}"}}', "SECRET_KEY={}", "auth token: {}")


def _secret_kinds(
    random_key: _RandomKey, chance: random.Random
) -> Iterator[tuple[str, Callable[[], str], tuple[str, ...]]]:
    upper = string.ascii_uppercase + "234567"
    yield "aws_access_key", lambda: "AK" + "IA" + random_key(16, upper), _IN_PROSE
    yield "aws_secret_key", lambda: random_key(40), ("aws_secret_access_key = {}", "AWS secret: {}")
    yield "github_token", lambda: "gh" + "p_" + random_key(36), _IN_PROSE
    yield "github_token", lambda: "github" + "_pat_" + random_key(22) + "_" + random_key(59), _IN_PROSE
    yield "gitlab_token", lambda: "gl" + "pat-" + random_key(20), _IN_PROSE
    yield "slack_token", lambda: "xo" + "xb-" + random_key(12, string.digits) + "-" + random_key(24), _IN_PROSE
    yield "google_api_key", lambda: "AI" + "za" + random_key(35), _IN_PROSE
    yield "openai_key", lambda: "sk" + "-proj-" + random_key(48), _IN_PROSE
    yield "anthropic_key", lambda: "sk" + "-ant-" + "api03-" + random_key(80), _IN_PROSE
    yield "stripe_key", lambda: "sk_" + "live_" + random_key(24), _IN_PROSE
    yield "huggingface_token", lambda: "hf" + "_" + random_key(34), _IN_PROSE
    yield "jwt", lambda: "ey" + "Jh" + random_key(30) + ".ey" + "J" + random_key(60) + "." + random_key(43), _IN_PROSE
    yield "private_key", lambda: _pem(random_key), ("{}", "the host key:\n{}\nkeep it safe")
    yield (
        "url_password",
        lambda: random_key(14),
        ("postgres://app:{}@db.internal:5432/shop", "redis://:{}@cache:6379/0"),
    )
    yield "bearer_token", lambda: random_key(40), ("curl -H 'Authorization: Bearer {}' https://api.example.com",)
    yield "password", lambda: random_key(8) + chance.choice("!?#%&") + random_key(4), _CALLED
    yield "secret", lambda: random_key(28), _NAMED
    yield "card_number", lambda: _card(chance), ("my card is {}", "Visa {} until 08/29", "{}")


def _pem(random_key: _RandomKey) -> str:
    begin, end = ("-----" + word + " RSA PRIV" + "ATE KEY-----" for word in ("BEGIN", "END"))
    return "\n".join([begin, random_key(64), random_key(64), random_key(40), end])


def _card(chance: random.Random) -> str:
    """Return a card number with the right check digit, in groups of four digits."""
    digits = "4" + "".join(chance.choice(string.digits) for _ in range(14))
    checked = next(digits + digit for digit in string.digits if secrets.luhn(digits + digit))
    return " ".join(checked[start : start + 4] for start in range(0, 16, 4))


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
    """Return the scores of all secrets, and the number found of each kind.

    A secret counts as found if no copy of it is left in the redacted text.
    """
    kinds: dict[str, list[int]] = {}
    for kind, text, secret in synthetic_secrets():
        count = kinds.setdefault(kind, [0, 0])
        count[0] += secret not in secrets.redacted(text, secrets.scan(text))
        count[1] += 1
    plain = [*EXAMPLES, *(row["text"] for row in benign)]
    alarms = sum(bool(secrets.scan(text)) for text in plain)
    redacted, total = (sum(count[column] for count in kinds.values()) for column in (0, 1))
    return _scores(redacted, total, alarms, len(plain)), {name: (count[0], count[1]) for name, count in kinds.items()}


SENTENCES = ("secret_sentences", "secret_sentences_2")  # the corpora of sentences about secrets, the newest last
HALVES = ("seen", "unseen")
LEAST_LEFT = 4  # a secret counts as missed if so many of its characters (all, of a shorter one) are left side by side


def sentence_scores(name: str, half: str) -> dict[str, Any]:
    """Count the missed secrets and the false alarms in one half of a corpus of sentences."""
    rows = [row for row in corpus(name) if row["half"] == half]
    with_secret = [row for row in rows if secrets_of(row)]
    without = [row for row in rows if not secrets_of(row)]
    missed = sum(is_missed(row) for row in with_secret)
    false = sum(bool(secrets.scan(row["text"])) for row in without)
    return {"secrets": len(with_secret), "missed": missed, "talk": len(without), "false": false}


def secrets_of(row: dict[str, Any]) -> list[str]:
    """Return the secrets in a sentence of a corpus; sentences of the first corpus have one at the most."""
    return row["secrets"] if "secrets" in row else [row["secret"]] if row["secret"] else []


def is_missed(row: dict[str, Any]) -> bool:
    """Return True if a part of one of the secrets of a sentence is still in its text."""
    taken = {at for hit in secrets.scan(row["text"]) for at in range(hit.start, hit.end)}
    return any(_left(row["text"], secret, taken) >= min(LEAST_LEFT, len(secret)) for secret in secrets_of(row))


def _left(text: str, secret: str, taken: set[int]) -> int:
    """Return the length of the longest part of a secret that is left in a text, without blanks around it."""
    longest = 0
    for start in (at for at in range(len(text)) if text.startswith(secret, at)):
        kept = "".join("\0" if at in taken else text[at] for at in range(start, start + len(secret)))
        longest = max(longest, *(len(part.strip()) for part in kept.split("\0")))
    return longest


# --- texts of yours --------------------------------------------------------------------------------------------------


def texts(path: str) -> Iterator[str]:
    """Yield every text in a file of JSON or JSON lines."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        whole = file.read()
    try:
        waiting = [json.loads(whole)]
    except ValueError:
        waiting = [json.loads(line) for line in whole.splitlines() if line.strip()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


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
    return [
        turn["text"]
        for conversation in whole
        if isinstance(conversation, dict)
        for turn in conversation.get("turns", ())
    ]


# --- report ----------------------------------------------------------------------------------------------------------


def measure() -> dict[str, Any]:
    attacks, benign = corpus("attacks"), corpus("benign")
    halves = {
        name: scores(
            [row for row in attacks if row["held_out"] == held], [row for row in benign if row["held_out"] == held]
        )
        for name, held in (("dev", False), ("held_out", True))
    }
    scored, kinds = secret_scores(benign)
    return {
        "threats": {"all": scores(attacks, benign), **halves, "material": scores(attacks, benign, is_held)},
        "role_lines": {half: role_line_scores(half) for half in HALVES},
        "techniques": by("technique", attacks),
        "languages": by("language", attacks),
        "secrets": scored,
        "kinds": kinds,
        "sentences": {name: {half: sentence_scores(name, half) for half in HALVES} for name in SENTENCES},
    }


def _print(report: dict[str, Any], misses: bool) -> None:
    lines = {f"role lines, {half}": figures for half, figures in report["role_lines"].items()}
    for name, figures in {**report["threats"], **lines, "secrets": report["secrets"]}.items():
        numbers = f"precision {figures['precision']:.3f}, recall {figures['recall']:.3f}, F1 {figures['f1']:.3f}"
        counted = f"{figures['found']} of {figures['attacks']}, {figures['false_alarms']} false alarms in {figures['benign']:,}"
        print(f"{name:18} {numbers} ({counted})")
    _print_sentences(report["sentences"])
    for table in ("techniques", "languages", "kinds"):
        print(f"\n{table}")
        for name, (hit, total) in report[table].items():
            print(f"  {name:26} {hit:4} of {total}")
    if misses:
        _print_misses()


def _print_misses() -> None:
    """Print the misses of the half of the corpus that may be looked at."""
    for name, is_attack in (("attacks", True), ("benign", False)):
        for row in corpus(name):
            if not row["held_out"] and bool(threats.scan(row["text"])) != is_attack:
                print("missed" if is_attack else "alarm", row["id"], ascii(row["text"])[:160])
    for row in corpus("role_lines"):
        if row["half"] == "seen" and is_held(row["text"]) != (row["kind"] == "attack"):
            print("missed" if row["kind"] == "attack" else "alarm", row["id"], ascii(row["text"])[:160])
    _print_missed_sentences(SENTENCES)


def _print_sentences(scored: dict[str, dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'sentences about secrets':24} half    missed            false")
    for name, halves in scored.items():
        for half, count in halves.items():
            missed, false = (
                f"{count[part]} of {count[whole]}" for part, whole in (("missed", "secrets"), ("false", "talk"))
            )
            shares = [count["missed"] / count["secrets"], count["false"] / count["talk"]]
            print(f"{name:24} {half:6}  {missed:9} {shares[0]:6.1%}  {false:9} {shares[1]:6.1%}")


def _print_missed_sentences(names: Iterable[str]) -> None:
    for row in (row for name in names for row in corpus(name) if row["half"] == "seen"):
        hits = secrets.scan(row["text"])
        if is_missed(row) if secrets_of(row) else hits:
            clean = secrets.redacted(row["text"], hits)
            print("missed" if secrets_of(row) else "false", repr(row["text"]), secrets_of(row), repr(clean))


def speed(every: Iterable[str], rounds: int = 5) -> dict[str, tuple[int, float]]:
    """Return the number of texts, and the µs of processor time that scanning a text takes, for short and long texts.

    Short texts have 45 to 75 characters; of long texts the first 1,500 characters are scanned. The time is the best of
    several rounds.
    """
    known = list(every)
    figures = {}
    for name, sample in (
        ("notes of 60 characters", [text for text in known if 45 <= len(text) <= 75]),
        ("turns of 1,500", [text[:1_500] for text in known if len(text) >= 1_500]),
    ):
        best = min(_looked_through(sample[:1_000]) for _ in range(rounds))
        figures[name] = (len(sample[:1_000]), best / max(1, len(sample[:1_000])) * 1e6)
    return figures


def _looked_through(sample: Iterable[str]) -> float:
    start = time.process_time()
    for text in sample:
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
    parser.add_argument(
        "--speed", action="store_true", help="measure how long scanning the benign texts and the files takes"
    )
    options = parser.parse_args()
    if options.speed:
        known = [
            *(row["text"] for row in corpus("benign")),
            *(text for path in options.files for text in texts(path)),
        ]
        for name, (number, microseconds) in speed(known).items():
            print(f"{name}: {microseconds:.1f} µs ({number:,} texts)")
        return
    if options.sentences:
        halves = options.half or HALVES
        _print_sentences({name: {half: sentence_scores(name, half) for half in halves} for name in SENTENCES})
        if options.misses:
            _print_missed_sentences(SENTENCES)
        return
    found = measure()
    print(json.dumps(found, indent=1)) if options.json else _print(found, options.misses)
    for path in options.files:
        every = list(dict.fromkeys(texts(path)))
        flagged = [(text, hit) for text in every if (hit := threats.scan(text) or secrets.scan(text))]
        print(f"\n{path}: {len(flagged)} of {len(every):,} texts flagged")
        if turns := conversation_turns(path):
            alarms = sum(bool(secrets.scan(text)) for text in turns)
            print(f"  secrets in {alarms} of {len(turns):,} turns ({alarms / len(turns):.2%})")
        for text, hit in flagged:
            label = getattr(hit[0], "label", None) or getattr(hit[0], "kind", "")
            print(f"  {label}: {text[:100]!r}")


if __name__ == "__main__":
    main()
