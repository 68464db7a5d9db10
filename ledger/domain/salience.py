"""Whether a piece of conversation can hold anything to remember: the gate before a model is asked (salience/1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ledger.domain.question import unspaced
from ledger.domain.text import STOP_WORDS, normalise, words

GATE = "salience/1"
"""Name and version: other signals, words or numbers are another version."""

INFORMATIVE_WORDS = 3
"""A line without a durable signal needs so many words that say something (SEEDS 2b)."""

LOOKED_CHARS = 20_000
"""So much of each line is looked at (ours): what is longer says something."""

CHARACTERS_A_WORD = 2
"""In scripts without spaces so many characters count as a word (ours)."""

# rubino's signals (SEEDS 2b), and the same in a few other languages (ours). White space is one space, case is folded.
_ENGLISH = (
    r"my name is|call me|i am|i['’]?m",
    r"i (?:also |really |usually |generally |mostly )?(?:prefer|like|love|hate|dislike|use|want|need|always|never|work|live"
    r"|moved|switched|joined|quit|own|have|study)",
    r"we (?:also |usually |always |never )?(?:use|used|decided|agreed|chose|prefer|require|need|run|deploy)",
    r"(?:always|never|do not|don['’]?t) (?:use|do|run|write|add|commit|push|call|ask|make|put|touch)",
    r"remember (?:that|this)|remember ?:",
    r"(?:the|this|our|my) (?:project|repo|repository|team|company|codebase|service|app|database)"
    r" (?:\w+ ){0,2}?(?:uses?|is|are|prefers?|requires?|runs?|needs?|has)",
)
_OTHERS = (
    r"(?:ich (?:heiße|heisse|bin|bevorzuge|mag|nutze|benutze|will)|mein name ist|nenn mich|merk dir)",
    r"wir (?:nutzen|haben entschieden)",
    r"(?:je (?:m['’]appelle|suis|préfère|prefere|utilise)|j['’](?:aime|utilise|habite)|nous utilisons|on utilise|souviens-toi)",
    r"(?:me llamo|mi nombre es|soy|prefiero|me gusta|(?:yo )?uso|usamos|recuerda que|llámame)",
    r"(?:mi chiamo|io sono|preferisco|mi piace|usiamo|ricorda che|chiamami)",
    r"(?:meu nome é|eu sou|prefiro|eu gosto|nós usamos|lembre-se)",
    r"(?:mijn naam is|ik ben|ik heet|ik gebruik|wij gebruiken|onthoud)",
    r"(?:меня зовут|я предпочитаю|я люблю|я использую|мы используем|запомни)",
)
_UNSPACED = r"我叫|我是|我喜欢|我们使用|记住|私の名前は|私は|が好き|覚えて"
_SIGNAL = re.compile(rf"(?<!\w)(?:{'|'.join((*_ENGLISH, *_OTHERS))})(?!\w)|{_UNSPACED}")

_FILLERS = """
    ok okay k yes yeah yep yup no nope nah sure thanks thank thx ty please pls hi hello hey bye goodbye morning evening
    good great nice cool fine perfect awesome excellent wow lol haha done right correct exactly agreed true wrong
    go going ahead continue proceed next try retry run again now still also maybe really very well just got it
    help stop wait back start show tell give look see sorry welcome hmm oh ah um uh
    ja nein danke bitte gut super oui non merci bien sí gracias vale grazie sim obrigado да нет спасибо
"""
TRIVIAL = STOP_WORDS | frozenset(_FILLERS.split())
"""Words that say nothing by themselves: the stop words, and what people say in between. The list is ours."""


def is_salient(user_lines: Iterable[str]) -> bool:
    """Whether what a user said is worth a model's time: a durable signal in any line, or three informative words in all.

    Only the user's lines count; without any there is nothing.
    """
    informative = set[str]()
    for line in user_lines:
        looked = line[:LOOKED_CHARS]
        if _SIGNAL.search(normalise(looked)) is not None:
            return True
        informative.update(word for word_of in words(looked) for word in _counted(word_of))
        if len(informative) >= INFORMATIVE_WORDS:
            return True
    return False


def _counted(word: str) -> Iterable[str]:
    """The informative words that one run of letters stands for."""
    if word in TRIVIAL:
        return ()
    if not unspaced(word):
        return (word,)
    return [word[at : at + CHARACTERS_A_WORD] for at in range(0, len(word) - 1, CHARACTERS_A_WORD)]
