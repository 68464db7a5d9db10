"""The scanner "secrets/1": keys, passwords and card numbers in a text, each with its place, so that they can be taken out.

Keys are known by the marks that their makers gave them, passwords by the words before them, in twelve languages. What stands
for a secret in an example ("<your password>", "changeme", "${TOKEN}") is none. There is no entropy rule: it fires on every
digest and id of a working note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import digits

from msgspec import Struct

from ledger.domain.guards import words
from ledger.domain.guards.folding import as_bytes, classes
from ledger.domain.guards.gates import Gated, shortest_of

NAME = "secrets/1"


class Secret(Struct, frozen=True):
    """Characters ``start`` to ``end`` of a text are a secret of this ``kind``."""

    kind: str
    start: int
    end: int


def mark(kind: str) -> str:
    """What stands in a text for a secret that was taken out."""
    return f"[redacted:{kind}]"


MARK = re.compile(r"\[redacted:([a-z0-9_]+)\]")

_KEYS: tuple[tuple[str, str, str], ...] = (
    # kind, what has to be in the text (lower case), pattern
    (
        "private_key",
        "-----begin",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S]){0,20000}(?:-----END "
        r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    (
        "aws_access_key",
        "a",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    (
        "aws_secret_key",
        "aws",
        r"(?i:aws.{0,20}?(?:secret|key|token).{0,20}?)[\s:=\"']{1,5}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    ("github_token", "gh", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,255}"),
    ("github_token", "github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{40,255}"),
    ("gitlab_token", "gl", r"(?<![A-Za-z0-9])gl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_-]{20,64}"),
    ("slack_token", "xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    ("slack_token", "xapp-", r"(?<![A-Za-z0-9])xapp-\d-[A-Za-z0-9-]{20,250}"),
    ("slack_webhook", "hooks.slack", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,}"),
    ("google_api_key", "aiza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}"),
    ("google_token", "ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,}"),
    ("google_token", "gocspx-", r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("anthropic_key", "sk-ant-", r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{20,}"),
    (
        "openai_key",
        "sk-",
        r"(?<![A-Za-z0-9])sk-(?:proj-|svcacct-|"
        r"admin-)?(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9_-]{20,}",
    ),
    ("stripe_key", "k_", r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("sendgrid_key", "sg.", r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("npm_token", "npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}"),
    ("pypi_token", "pypi-", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{50,}"),
    ("huggingface_token", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"),
    ("digitalocean_token", "_v1_", r"(?<![A-Za-z0-9])do[opr]_v1_[a-f0-9]{64}"),
    ("telegram_token", ":aa", r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("age_key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    ("jwt", "eyj", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{10,})?"),
    ("azure_key", "accountkey=", r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})"),
    (
        "url_password",
        "://",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@<>\[\]{}$\"']{0,128}:([^\s/@<>\[\]\"']{3,256})@(?=[\w\[])",
    ),
    ("bearer_token", "bearer", r"(?i:\bbearer)\s+([A-Za-z0-9._~+/-]{16,}=*)"),
    ("basic_auth", "basic", r"(?i:authorization\s*[:=]\s*[\"']?basic)\s+([A-Za-z0-9+/]{8,}={0,2})"),
)

# What is called a password, in prose and in files.
_CALLED = (
    r"pass(?:word|wd|phrase|code)?s?|pwd|secret(?: key)?|(?:api|access|auth|secret|private|encryption|"
    r"signing|client|service|account|app|deploy|master)[ _-]?(?:key|token|secret)|"
    r"(?:session|refresh|id|bot|bearer|csrf|oauth|personal access)[ _-]?token|token|apikey|credentials?|"
    r"passwort|kennwort|passphrase|zugangscode|mot de passe|mdp|contrasen(?:a|ya)|contraseña|"
    r"clave(?: secreta| de acceso)?|senha|palavra[- ]passe|"
    r"parola d'ordine|password d'accesso|wachtwoord|has[lł]o|parol[ae]|пароль|пароля|密码|密碼|口令|パスワード|şifre|"
    r"lösenord|heslo|비밀번호"
)
_LINK = (
    r"(?:[ \t]*(?:=>|:=|=|:|：)[ \t]*"
    r"|[ \t]+(?:is|was|are|ist|lautet|war|est|es|è|é|is nu|to|jest|это|-|–|—)[ \t]*:?[ \t]+"
    r"|[ \t]*(?:是|为|は|が|는)[ \t]*:?[ \t]*)"
)
_NAMED = re.compile(
    rf"(?i)(?<![A-Za-z])(?P<name>(?:[A-Za-z0-9]{{1,64}}[_-]){{0,16}}(?:pg)?(?:{_CALLED})(?:[_-](?:key|token|value|prod|"
    rf"dev|test))?)[\"'`]?(?P<of> (?:for|of|to|für|pour|para|per|voor|do|для) [^\n:=,;]{{1,40}}?)?"
    rf"(?P<link>{_LINK})(?P<quote>[\"'`«“]?)(?P<value>[^\s\"'`«»“”,;]{{4,200}})"
)
_NAMES: dict[str, list[str]] = {}  # what one has to have in it, and those that have
for _name in shortest_of(_CALLED):
    _core = next((each for each in ("pass", "secret", "token", "key") if each in _name), _name)
    _NAMES.setdefault(_core, []).extend(() if _core in _NAMES.get(_core, ()) else (_name,))
_IN_NAME = re.compile("[A-Za-z0-9_-]")  # what may be in front of it, without a blank
_BEGINNING = re.compile(r"(?<![A-Za-z])[^\W_]")
_ODD_LETTERS = re.compile("[\u0130\u0131\u017f\u212a]")  # are others in lower case
_PLACES = 64  # above which all of the text is searched
_NEAR = (
    "pass",
    "pwd",
    "secret",
    "key",
    "token",
    "cred",
    "kennw",
    "zugang",
    "passe",
    "mdp",
    "contras",
    "clave",
    "senha",
    "parola",
    "wachtw",
    "has",
    "парол",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "şifre",
    "lösen",
    "heslo",
    "비밀",
)
_EXAMPLE = re.compile(
    r"(?i)^(?:<.*|\$.*|%.*%?|\{.*|\[.*|\*+|x{3,}|\.{3}|…|-+|_+|#+|changeme|change[-_ ]?me|change[-_]?it|"
    r"your[-_ ]?.*|my[-_]?(?:password|secret|token|key).*|"
    r"example.*|sample.*|dummy.*|placeholder.*|todo|tbd|none|null|nil|undefined|true|false|empty|unset|"
    r"required|optional|redacted|hidden|"
    r"string|str|int|bytes|secretstr|password\d*|passwort|passwd|pass|pwd|secret|token|key|test|foo|bar|"
    r"baz|hunter2|"
    r"os\.environ.*|process\.env.*|env\..*|env\(.*|getenv.*|settings\..*|config\..*|self\..*|args\..*|"
    r"input\(.*|getpass.*|vault:.*|op://.*|ssm:.*|file:.*|!.*|\(.*|/.*|~.*|https?://.*)$"
)
_WORDLIKE = re.compile(r"[^\W\d_]?[^\W\d_A-Z]*(?:[-_./'][^\W\d_]+)*(?:\(.*)?")
# A date, a time, a number with its unit, a version, a word with a number.
_USUAL = re.compile(
    r"\d{4}-\d\d-\d\d.*|\d{1,3}(?:[.,]\d+)*%?|[\d.:/-]+[a-z]{0,4}|v\d+[\d.]*|[a-z]+\d{0,2}|[A-Z][a-z]+|"
    r"\d+[-_]?[a-z]+"
)
_KINDS = tuple(map(re.compile, ("[a-z]", "[A-Z]", r"\d", r"[^\w\s]")))
_INNER = re.compile(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z\d][!@#$%^&*?+=~]")
_CARD = re.compile(r"(?<![\w.,-])(?:\d[ -]?){12,18}\d(?![\w-]|[.,]\d)")
_ISSUED = re.compile(r"3[47]|3(?:0[0-5]|[689])|4|5[1-5]|2[2-7]|6(?:011|4|5|2)|35")
_PATTERNS = tuple((kind, needs, Gated(pattern)) for kind, needs, pattern in _KEYS)
# The beginnings of words without one of which an ASCII text without long numbers and addresses has no secret.
_BEGINNINGS = """
    abia acca acco age agpa aida aiza akia anpa anva apik aroa asia aws basi bear begi clav cont cred doo dop dor
    gho ghp ghr ghs ghu gith glcb gldt glpa glpt glrt gocs hasl hesl hf hook kenn key keys mdp mot npm pala paro
    pass pgpa pwd pypi rk secr senh sg shar sk toke wach xapp xoxa xoxb xoxe xoxo xoxp xoxr xoxs ya zuga
"""
HEADS = frozenset(_BEGINNINGS.split())
HEAD = 4
# Those of them that begin only what is called a password: then no key is looked for but these, which may begin in a word.
_PASSWORD_HEADS = """
    clav cont cred hasl hesl kenn key keys mdp mot pala paro pass pgpa pwd secr senh toke wach zuga
"""
_OF_NAMES = frozenset(_PASSWORD_HEADS.split())
_WITHIN_WORDS = tuple(each for each in _PATTERNS if each[0] in ("aws_secret_key", "azure_key", "age_key"))
_PIECES = frozenset(each for each in _NAMES if each.isascii() and len(each) >= words.GRAM)
_OTHERS = tuple(each for each in _NAMES if each not in _PIECES)
words.ask(HEAD, HEADS, lambda: _PIECES)
_DIGITS = classes(x=digits)


def scan(text: str) -> list[Secret]:
    """The secrets of a text, in their order; none lies within another."""
    lowered = text.lower()
    if lowered.isascii() and not may_have(lowered):
        return []
    found = sorted(_found(text, lowered), key=lambda each: (each.start, -each.end))
    kept: list[Secret] = []
    for each in found:
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def may_have(lowered: str) -> bool:
    """False only of an ASCII text (in lower case) without any secret."""
    return _may_have_key(lowered) or not HEADS.isdisjoint([word[:HEAD] for word in words.of(lowered)])


def _may_have_key(lowered: str) -> bool:
    """Whether there is more to look for than what is called a password."""
    if "://" in lowered or "eyj" in lowered or _has_digits(lowered, 8):
        return True
    return any(word[:HEAD] in HEADS and word[:HEAD] not in _OF_NAMES for word in words.of(lowered))


def _has_digits(text: str, number: int) -> bool:
    """False only of an ASCII text without so many digits in a row, blanks and hyphens between them left aside."""
    return b"x" * number in as_bytes(text).translate(_DIGITS, b" -")


def _found(text: str, lowered: str) -> Iterator[Secret]:
    every = not lowered.isascii() or _may_have_key(lowered)
    for kind, needs, pattern in _PATTERNS if every else _WITHIN_WORDS:
        if needs not in lowered:
            continue
        for hit in pattern.finditer(text):
            start, end = hit.span(1 if hit.re.groups else 0)
            if not (hit.re.groups and _is_example(text[start:end])):
                yield Secret(kind, start, end)
    yield from _named(text, lowered)
    if not text.isascii() or _has_digits(text, 13):
        yield from _cards(text)


def _named(text: str, lowered: str) -> Iterator[Secret]:
    """What is called a password: by ``=`` or ``:`` whatever it is, in prose only what does not look like a word."""
    at = 0
    regions = list(_regions(text, lowered))
    if not regions or not any(near in lowered for near in _NEAR):
        return
    for start, end in regions:
        at = max(at, start)
        while at <= end and (hit := _NAMED.search(text, at) if end == len(text) else _first(text, at, end)) is not None:
            begin, close = hit.span("value")
            value = text[begin:close].rstrip(".,;:)]}>、。")
            secret = _is_secret(value, hit)
            at = max(hit.end("name") + 1, close if secret else 0)
            if secret:
                yield Secret("password" if _is_password(hit["name"]) else "secret", begin, begin + len(value))


def _first(text: str, start: int, end: int) -> re.Match[str] | None:
    """The first name that begins between two places."""
    for begin in _BEGINNING.finditer(text, start, end + 1):
        if (hit := _NAMED.match(text, begin.start())) is not None:
            return hit
    return None


def _regions(text: str, lowered: str) -> Iterator[tuple[int, int]]:
    """Between which places a name may begin: at each word of ``_CALLED``, or at what is joined to it in front."""
    places: set[int] = set()
    pieces = frozenset[str]().union(*words.of(lowered).values())
    cores = [*(_PIECES & pieces), *(each for each in _OTHERS if each in lowered)]
    for core in cores:
        for name in _NAMES[core]:
            at = lowered.find(name)
            while at >= 0 and len(places) <= _PLACES:
                places.add(at)
                at = lowered.find(name, at + 1)
    if len(places) > _PLACES or len(lowered) != len(text) or (not text.isascii() and _ODD_LETTERS.search(text)):
        yield 0, len(text)
        return
    behind = 0
    for place in sorted(places):
        start = place
        while start > behind and _IN_NAME.match(text, start - 1) is not None:
            start -= 1
        yield start, place
        behind = place + 1


def _is_password(name: str) -> bool:
    return not re.search(r"(?i)key|token|secret|cred|clave", name)


def _is_secret(value: str, hit: re.Match[str]) -> bool:
    if len(value) < 4 or _is_example(value) or MARK.search(value):
        return False
    if _is_mixed(value):
        return True
    link, known = hit["link"].strip(), _is_password(hit["name"])
    if hit["of"] or link not in ("=", ":=", "=>", ":", "："):
        return False
    if known and (link in ("=", ":=") or hit["quote"]):
        return len(value) >= 5
    return len(value) >= 6 and not _is_word(value)


def _is_word(value: str) -> bool:
    """Whether it reads as a word or a name: letters alone, at the most with a capital in front, or words in a path."""
    return _WORDLIKE.fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    """Whether it mixes what words do not mix: digits or signs among letters, or capitals in the middle; or is a long number."""
    if _USUAL.fullmatch(value):
        return value.isdigit() and len(value) >= 4
    kinds = sum(each.search(value) is not None for each in _KINDS)
    return kinds >= 2 and len(value) >= 5 and _INNER.search(value) is not None


def _is_example(value: str) -> bool:
    bare = value.strip("\"'`.,;:")
    return _EXAMPLE.match(bare) is not None or len(set(bare.lower())) < 3


def _cards(text: str) -> Iterator[Secret]:
    for hit in _CARD.finditer(text):
        digits = re.sub("[ -]", "", hit.group())
        if 13 <= len(digits) <= 19 and _ISSUED.match(digits) and len(set(digits)) > 2 and luhn(digits):
            yield Secret("card_number", hit.start(), hit.end())


def luhn(digits: str) -> bool:
    """The check digit of ISO/IEC 7812."""
    doubled = [int(each) * (1 + at % 2) for at, each in enumerate(reversed(digits))]
    return sum(each - 9 * (each > 9) for each in doubled) % 10 == 0


def redacted(text: str, found: list[Secret]) -> str:
    """The text with a mark in the place of each secret."""
    for each in reversed(found):
        text = text[: each.start] + mark(each.kind) + text[each.end :]
    return text
