"""The gate before a model is asked: whether a piece of conversation can hold anything to remember (salience/3).

salience/1 asked for three informative words, and so passed over "No nuts please". salience/2 passed on nearly every
question, which holds nothing to remember: of 217 everyday messages of two invented years it passed over 9. salience/3
ignores the questions: it passes over 64, and of 232 messages with a fact none. A gate is never applied again on replay: the
messages that it passed over are recorded under its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ledger.domain.text import normalise
from ledger.english.words import STOP_WORDS, unspaced, words

GATES = "salience/"
GATE = f"{GATES}3"
"""The name and version: other signals, words or numbers are another version. All gates' names begin with GATES."""

LOOKED_CHARS = 20_000
"""The most characters of each line that are read (our choice): a longer line says something."""

WORD_SIGNS, ENOUGH_SIGNS = 2, 4
"""Without a durable signal four signs of a script without spaces are enough, and a word counts as two signs. So two
informative words are enough (our choice: rubino's three lose "no nuts please" for good)."""

# rubino's signals, and the same in a few other languages (our own). White space is one space, case is folded.
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
    ok okay k yes yeah yep yup nope nah sure thanks thank thx ty please pls hi hello hey bye goodbye morning evening
    good great nice cool fine perfect awesome excellent wow lol haha done right correct exactly agreed true wrong
    go going ahead continue proceed next try retry run again now still also maybe really very well just got it
    help stop wait back start show tell give look see sorry welcome hmm oh ah um uh
    ja danke bitte gut super oui merci bien sí gracias vale grazie sim obrigado да спасибо
"""
TRIVIAL = STOP_WORDS.union(words(_FILLERS))
"""Words that say nothing by themselves: the stop words, and small talk. The list is our own. A denying word is not in it,
because it turns the next word into a fact ("no nuts")."""

_PHRASES = (
    r"no (?:problem|worries|idea|way|need|rush)|never ?mind|not (?:yet|really|sure|now)|i (?:do not|don['’]?t) (?:know|care)",
    r"(?:sounds|looks|works|seems) (?:good|great|fine|right|perfect)|makes (?:total |perfect )?sense|fair enough|same here",
    r"good (?:job|work|idea|point|night|afternoon|day)|well done|of course|see you (?:later|soon|tomorrow|then)|you too",
    r"thank(?:s| you)(?: so| very)? (?:much|a lot)|thanks a lot|no,? (?:thanks|thank you)|how are you(?: doing| today)?",
    r"vielen dank|danke schön|kein problem|de rien|d['’]accord|merci beaucoup|muchas gracias|de nada|va bene|большое спасибо",
)
_BETWEEN = re.compile(rf"(?<!\w)(?:{'|'.join(_PHRASES)})(?=\s*(?:[^\w\s]|$))")  # "not yet.", but not "not yet married"
_POLITE = (
    "好的?|是的?|对|嗯|谢谢[你您]?|多谢|不客气|没问题|没事|可以|行|知道了|明白了?|你好|再见",
    "はい|いいえ|うん|ありがとう(?:ございます|ございました)?|わかりました|分かりました|了解(?:です|しました)?",
    "お願いします|すみません|こんにちは|네|예|아니요|감사합니다|고마워요?|알겠습니다|좋아요|안녕하세요",
)
_UNSPACED_BETWEEN = re.compile(rf"(?:{'|'.join(_POLITE)})+|(.)\1*")
"""Small talk in scripts without spaces, and one sign repeated."""


_QUESTION_WORDS = (
    r"what|who|whom|whose|when|where|which|why|how|is|are|was|were|do|does|did|can|could|would|should|will|shall|may",
    r"wer|wann|wo|warum|wie|welche[rsnm]?|kann|kannst|ist|sind|qui|quand|où|pourquoi|comment|quel(?:le)?s?|est-ce",
    r"qué|quién|cuándo|dónde|cómo|cuál|cosa|quando|dove|perché|come|chi|wie|wat|waar|waarom|hoe|welke",
)
_BEFORE = r"(?:(?:and|so|ok|okay|oh|also|but|hey|hi|und|et|y|e|en)[ ,]+){0,3}"
_ASKS = re.compile(rf"\s*{_BEFORE}(?:{'|'.join(_QUESTION_WORDS)})(?:['’](?:s|re|d))?(?!\w)", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


def stated_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text that do not ask: a question ends with its sentence, or at its first comma.

    "My laptop is a Framework, ignore?" tells of the laptop, and "can you stop, Tom was hacked" of Tom.
    """
    spans = list[tuple[int, int]]()
    for sentence in _SENTENCE.finditer(text):
        start, end = sentence.span()
        if _ASKS.match(text, start, end):
            start = text.find(",", start, end) + 1 or end
        elif sentence[0].rstrip(" \"')”’").endswith("?"):
            end = max(text.rfind(",", start, end), start)
        if text[start:end].strip():
            spans.append((start, end))
    return spans


def is_salient(user_lines: Iterable[str]) -> bool:
    """Return True if a user's lines are worth a model's time.

    They are with a durable signal in any line, or with two informative words in all of them together, or four signs of a script
    without spaces. Questions count only for their durable signals. Without a line of the user's the answer is False.
    """
    informative, signs = set[str](), 0
    for line in user_lines:
        looked = normalise(line[:LOOKED_CHARS])
        if _SIGNAL.search(looked) is not None:
            return True
        stated = " ".join(normalise(line[start:end]) for start, end in stated_spans(line[:LOOKED_CHARS]))
        informative_runs = set(words(_BETWEEN.sub(" ", stated))) - TRIVIAL
        signs += sum(map(_signs, informative_runs - informative))
        informative |= informative_runs
        if signs >= ENOUGH_SIGNS:
            return True
    return False


def _signs(run: str) -> int:
    """Return the number of signs that a run of letters counts."""
    if run in TRIVIAL:
        return 0
    if not unspaced(run):
        return WORD_SIGNS
    return 0 if _UNSPACED_BETWEEN.fullmatch(run) else len(run)
