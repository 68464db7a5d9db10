"""Secrets in plain sentences: what follows "the password is", to the end of its clause, unless that is plainly talk.

A pattern finds the noun ("password", "PIN", "door code", "API key"); the rules here find what is said of it. There are three
ways to say a secret: the noun and a verb before it, a sentence after it ("It's …"), and, of what is no word at all, the same
sentence. Each noun looks at a bounded stretch of text, so that the time is that of the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.late import late
from ledger.guards.patterns import part

_PUBLIC = late(r"(?i)(?<![a-z])public[ _-]?key")
_OF_A_KIND = late(r"(?i)(?<![a-z])(?:public|private)[ _-]?key")  # "an Ed25519 private key" names the algorithm
AHEAD, BEHIND, CLAUSE = 160, 90, 200  # characters after a noun, before it, and of a clause at the most

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "‘": "’", "”": "”"}
_END = late(r"[.!?…](?=[\s\"'”’»)*_]|$)|[。！？]|\n")
_WORD, _WITH_DIGIT = late(r"\S+"), late(r"(?<!\S)(?=[^\s\d]{0,80}\d)\S{1,200}")
# What may stand between the noun and its verb: where it is for, and who uses it. No other noun: "password manager" is none.
_GAP = (
    r"(?:[ \t]{1,3}(?:new|old|current|temporary|nueva|nuevo|actual|neu|neues|aktuelles|nouveau|nouvelle|everywhere|again|today|for|of|to|on|at|in|from|with|here|now|that|which|i|we|he|she|they|you|für|fürs|zu|zum|zur|von|vom|auf|am|im|"
    r"beim|an|bei|der|des|ich|wir|pour|du|de|des|sur|au|à|que|qui|para|del|en|di|del|della|dello|dell|per|da|do|dos|van|voor|op)\b"
    r"[^\n.:=,;!?…]{0,60}?|[ \t]{1,3}d['’][^\n.:=,;!?…]{1,40}?|[ \t]{1,3}\([^\n()]{1,40}\)|,[ \t][^\n,.:=!?]{1,30},)?"
)
_CHANGED = r"(?:(?:is|was|has been|got|were|had|wurde|ist|est|a été|fue|ha sido) )?(?:now )?(?:set|changed|reset|updated|switched|rotated|geändert|gesetzt|changé|cambiad[oa]) (?:to|auf|en|à|a|por)|(?:should|must|has to|needs to|can|could) be|would be|used to be|(?:has|had|have) (?:always |long )?been|ha sido|a toujours été|war (?:schon )?immer|remains|stays|bleibt|queda"
_NAMES = (
    _CHANGED
    + r"|is called|is spelled|equals|se llama|s['’]appelle|nennt sich|reads|says|goes|spells|lautet|heißt|heisst|ist|sind|est|sont|reste|es|son|era|è|sono|é|são|is|was|are|were|will be|wird|jest|to|это|är|je"
)
_ADVERB = (
    r"(?:[ \t](?:now|currently|nu|jetzt|ahora|maintenant|ora|agora|still|just|simply|literally|einfach|also|nun))?"
)
_LINK = late(
    rf"(?i)[\"'”»*`]{{0,3}}{_GAP}(?P<link>[ \t]{{1,3}}(?:{_NAMES}){_ADVERB}:?[ \t]{{1,3}}|['’]s{_ADVERB}[ \t]{{1,3}}|"
    r"[ \t]{0,3}(?::=?|=|：)(?!//)[*]{0,2}(?:[ \t]{0,3}|[ \t]{0,3}\n{1,2}[ \t]{0,8}(?:[-*>•] )?)|[ \t]{1,2}(?:[-–—→]|[-=]>)[ \t]{1,2}|[ \t]{0,2}(?:是|为|は|が|는)[ \t:]{0,2})(?=\S)"
)
_LATER = late(
    r"(?i)[\"'”»*)]{0,3}(?:[ \t]{1,3}[^\n.!?…]{0,80}?)?(?:[.,;:!?…]|[ \t][-–—])[ \t]{0,3}(?:and |und |et |y |e )?"
    r"(?:(?:it|that|this|which|they|das|es|er|sie|der|die|c|ce|il|elle|esta|questa|questo|het|dat)['’ ]{0,1}(?:s|is|are|reads|ist|"
    r"lautet|heißt|heisst|est|è)|es|son|è|é)[ \t]{1,3}(?=\S)|[ \t]?\?[ \t]{1,3}(?=[\"“«]|\S{1,30}[\d-])"
)
_VERB = (
    r"(?:(?:i|we|he|she|they|you)(?:['’](?:m|ve|d|re)| am| was| are| were| have| had)?(?: (?:just|always|now|then|usually|finally))? "
    r"(?:type|typed|typing|enter|entered|entering|put|use|used|using|wrote|write|writing|tried|try|trying|went with|picked|chose|"
    r"settled on|set it to|was given|were given|got|received|set|made it|changed it to|keep|chosen|took)(?: in)?|(?:please )?(?:use|enter|type|set|try|save|remember|store|note)(?: it to)?|"
    r"ich (?:habe?|nehme|nutze|benutze|verwende|tippe|gebe)(?: immer)?|wir (?:haben|nehmen|nutzen)|j['’](?:ai (?:mis|choisi|tapé|pris)|utilise)|"
    r"je (?:tape|mets)|on a mis|nous avons (?:mis|choisi)|he (?:puesto|elegido|usado)|(?:puse|uso|usé|elegí|escribo|pongo)|hemos puesto|ho (?:messo|scelto)|uso)"
)
_TYPED = late(rf"(?i)[^\n]{{0,60}}?[ \t,;.:?!…]{{1,3}}(?:(?:and|but|so|then|und|et|y) )?{_VERB}[ \t]{{1,3}}(?=\S)")
_AS = late(r"(?i)\b(?:as|como|als|comme|come)(?: (?:a|the|my|our|la|mi|mon|das|mein|o))?[ \t]{1,2}$")
_USED_AS = late(
    rf"(?i)(?:^|[^\w]){_VERB}[ \t](?P<value>[^\n.!?:]{{2,70}}?),?[ \t](?:as|como|als|comme|come)(?: (?:an?|the|my|our|his|her|la|el|mi|nuestra|mon|le|notre|das|mein|unser|neues|new))?(?: [\w-]{{2,15}})?[ \t]$"
)
_IS_ONE = late(
    r"(?i)(?:^|[.!?:;,][ \t]{1,2}|\n|\b(?:that|and|but|because|so|dass|que) )(?P<value>[^\n.!?:;,]{3,70}?)[ \t](?:is|was|ist|war|est|es|era|è|=)[ \t](?:still |now |also )?"
    r"(?:the|my|our|his|her|their|mein|meine|unser|unsere|das|der|die|mon|ma|notre|le|la|mi|nuestra|nuestro|el)(?: [\w’'-]{1,15}){0,3}[ \t]$"
)
_JOINED = late(  # a word of several, directly behind the noun
    r"[ \t]\(?(?P<value>[^\W\d_]{2,20}(?:[-_.][^\W\d_]{2,20}){1,6})(?<!\.com)(?<!\.org)(?<!\.net)(?<!\.io)(?<!\.py)(?<!\.txt)(?<!\.js)"
    r"(?<!-protected)(?<!-based)(?<!-related)\)?(?=$|[.,;:!?\n])"
)
_TO_THEN = late(r"(?i)[^\n.!?]{0,40}?[ \t]auf[ \t](?P<value>\S{3,40})[ \t](?:gesetzt|geändert|gestellt)\b")
_TAKEN = late(
    r"(?i)[ \t](?P<value>\S{3,40})[ \t](?:genommen|gesetzt|gewählt|verwendet|benutzt|eingegeben|mis|choisi)\b"
)
_THEN = late(r"(?i)[^\n:.!?]{0,60}?:[*]{0,2}[ \t]{1,3}(?=\S)")
_THIS = late(r"(?i)\b(?:this|following|dieses?|ce|esta|este)(?: \w{1,12})?[ \t]$")
_WORD_OF = late(r"(?i)(?:(?:just|simply|einfach|nur) )?(?:the|das|le|la) (?:words?|wort|mot|palabra) (?=\S)")
_KEYS = ("clave", "llave", "clé", "clef", "chiave", "schlüssel", "zugangscode")
_NAMELY = late(
    r"[^\n.!?,:]{0,60}?\b(?:name|birthday|word|dog|cat|pet|city|street|town|nom|nombre|Name|Hund|Katze|always|siempre|toujours|immer|usual)\b"
    r"[^\n.!?,:]{0,30}[,:] (?P<value>[^\W\d_a-z][\w-]{2,20}|\w{0,20}\d\w{0,20})(?=[.,;!?\n]|$)"
)
_NEW_ONE = late(
    r"(?i)[!.,;:]{0,2}[ \t](?:(?:y|and|und|et|then) (?:(?:la|lo|it|we|i|je|l['’]ai) ){0,2}(?:cambié|changed|set|changé|cambiado)(?: it)? (?:a|to|en|auf|por)|(?:and |but |now |und |et |y ){0,2}(?:the (?:new|other|current|second) ones?|it|is now|is|jetzt(?: ist)?(?: es)?|"
    r"maintenant(?: c['’]est)?|ahora(?: es)?)(?: is(?: now)?|['’]s(?: now)?|:)?)[ \t](?=\S)"
)
_QUOTED = late(
    r"(?i)[\"“«„](?P<value>[^\"”»“\n]{3,60})[\"”»“][ \t](?:(?:is|be|a|an|as|for|my|good|strong|ok|okay|the|ist|ein|als|es|una|como|est|un|comme)[ \t])(?:[\w-]{1,15}[ \t]){0,3}$"
)
_SET = late(
    r"(?i)\b(?:set|chang\w{0,4}|reset\w{0,5}|updat\w{0,4}|switch\w{0,4}|rotat\w{0,4}|ändere|geändert|setz\w{0,3}|cambi\w{0,6}|chang\w{1,4})\b[^.!?\n]{0,50}$"
)
_TO = late(r"(?i)(?:[ \t][^\n.!?:,;]{0,40}?)?[ \t](?:to|auf|à|a|en|por|in|as|als|como|comme)[ \t](?=\S)")
_USER = late(
    r"(?i)(?:user(?:name)?|login|meeting id|id|e-?mail|benutzer\w{0,5}|usuario|utilisateur|identifiant)\b[^\n!?]{1,50}(?:and|und|et|y|with|mit|avec|con|,|/|;) (?:the |my |mon |mi |mein )?$|(?:user(?:name)?|login|benutzer(?:name)?|usuario|utilisateur|identifiant)[ :=]{1,3}\S{1,40}[ ,/;]{1,3}(?:and |und |et |y |with |mit )?(?:the )?$"
)
_PAIR = late(
    r"[^\n.!?:=]{0,60}?(?:[:=]| is| are| sind| son| sont| ist| est| es)[ \t]{1,3}[\w.@+-]{2,40}(?: ?/ ?|[ ,]{1,2}(?:and|und|et|y|e)[ \t])(?P<value>[^\s,;/]{4,40})(?=$|[\s,;])"
)
_APART = late(
    r"(?i)[ -](?:managers?|fields?|polic(?:y|ies)|resets?|hash(?:es|ing|ed)?|generators?|prompts?|rules?|hints?|lengths?|strength|recovery|vaults?|"
    r"files?|screens?|pages?|forms?|box|checks?|protect\w{2,4}|prompts?|requirements?|length|reviews?|snippets?|style|word hint|"
    r"columns?|variables?|inputs?|expir\w{1,5}|rotation|attempts?|authentication|links?|pad|number of|count|counts|"
    r"fingerprints?|pairs?|types?|ids?|names?|limits?|usage|quality|editor|coverage|freeze|smell|owners?|signing|chain|ring|board|points?|takeaways?|features?|stakeholders?|findings?)\b"
)
_CALLED = late(r"(?i)(?:heißt|heisst|lautet|reads|spells|says)[ \t]{0,3}$")
_WHICH = late(r"(?i),[ \t](?:which|welches|das|que|qui|che) ")
_BLANK_NAME = late(r"(?i)(?:wi-?fi|wlan|router|hotspot|network|netzwerk|réseau|wireless)\b")

_ODD = late(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z\d](?:[!?](?!$)|[@#$%^&*+=~])")
_GROUPS = late(r"\d{3,8}(?:-\d{3,8}){2,9}")
_USUAL = late(
    r"#[0-9A-Fa-f]{3,8}|\d{1,3}(?:[.,]\d{1,9})*%?|[\d.:/-]{1,20}[a-z]{0,4}|v\d[\d.]*|[A-Z]{1,6}-?\d{1,5}[A-Z]?|\d+[-_]?[A-Za-z]{1,9}|"
    r"[a-z]{1,2}\d{1,2}|[^\s@]{1,64}@[\w.-]{1,64}\.\w{1,12}|(?:https?://|www\.|/|~/|\.{1,2}/).*|[\w-]{1,40}(?:\.[\w-]{1,40}){0,4}\.[a-z]{2,6}(?:/.*)?|"
    r"(?i:(?:utf|sha|md|base|bcrypt|argon|pbkdf|scrypt|ipv|oauth|o?auth|aes|rsa|hmac|mfa|t?otp|iphone|ipad|ios|windows|"
    r"android|u?int|float|char|version|level|step|python|wpa|iso|web|log4j|k8s|i18n)[-_]?\d+[\w-]{0,8})"
)
_FIGURE = (
    r"(?<![\w.,/:€$£+-])(?![#*]{0,2}\d{4}-\d\d-\d\d)[#*]{0,2}(?:[A-Za-z]{0,2}\d{3,10}[A-Za-z]{0,2}[#*]?|\d{1,6}[A-Z]{1,3}\d{1,6}[#*]?|\d{2,4}[#*]\d{2,4}[#*]?|(?=[A-Z]{0,11}\d)(?=\d{0,11}[A-Z])[A-Z\d]{4,12}|\d{1,4}(?:[ -]\d{1,4}){2,4}|\d{2,4}(?: \d{2,4}){1,4}|"
    r"(?=[A-Z-]{0,30}\d)[A-Z0-9]{2,12}(?:-[A-Z0-9]{2,12}){1,5})(?![\w%]|[.,:/-]\d)"
    r"(?! ?(?:[€$£]|euros?\b|dollars?\b|volts?\b|hz\b|m\b|km\b|kg\b|units?\b|people\b|times\b|lines\b|users?\b|characters?\b|digits?\b|"
    r"chars\b|days\b|hours\b|minutes\b|seconds\b|years\b|zeilen\b|zeichen\b|stellen\b|líneas\b|lignes\b|words\b|possib|tokens?\b))"
)
_NUMBER_WORD = (
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|null|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zéro|un|deux|trois|"
    r"quatre|cinq|sept|huit|neuf|cero|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|zwo)"
)
_FIGURES = late(_FIGURE)
_PARTS = late(r"(?<![\w./@-])[a-zäöüéèñ]{2,15}(?:-[a-zäöüéèñ]{2,15}){2,6}(?![\w./@-])")
_LITTLE = frozenset(("to", "by", "of", "the", "up", "in", "on", "and", "or", "off", "be", "for", "it", "not"))
_IN_QUOTES = late(
    r"(?<!says )(?<!said )(?<!error )(?<!message )(?<!called )(?<!click )(?<!press )(?<!choose )(?<!select )(?<!label )"
    r"(?<!field )(?<!sagt )(?<!does )(?<![\w\"'“])[\"“„«](?P<value>[^\"“”»\n]{4,60})[\"”“»]"
    r"(?! ?(?:button|field|link|option|page|tab|menu|section|column|mean|error|message))"
)
_CODE = late(
    rf"(?:(?:(?:the|my|our|his|her|their|still|just|now|le|la|el|das|die|der|star|hash|pound|raute|étoile)\b)[^.!?\n]{{0,50}}?[ ,]{{1,2}})?[\"'“«*]{{0,2}}"
    rf"(?P<code>{_FIGURE}(?:[ ,/]{{1,2}}{_FIGURE}){{0,9}}|\d{{1,4}}(?:[./] ?\d{{1,4}}){{2,4}}|\d{{1,2}}(?:, ?\d{{1,2}}){{2,4}}|(?!\d{{4}}-)\d{{2,4}}-\d{{2,4}}(?![\w-])|(?i:(?:(?:l|r|left|right|links|rechts|then) ?(?:to )?\d{{1,3}}[ ,-]{{0,3}}){{2,5}})|(?i:{_NUMBER_WORD}(?:[ ,-]{{1,2}}{_NUMBER_WORD}){{2,11}}\b))"
)
_DATING = late(
    r"(?i)\b(?:set for|(?:jan|feb|fév|mar|mär|apr|abr|avr|may|mai|jun|juin|jul|juil|aug|ago|août|sep|oct|okt|nov|dec|dez|dic|déc|ene)[a-zéû]{0,7}\.?(?: de)?|in|since|until|from|by|on|at|before|after|room|version|port|page|year|line|about|over|seit|bis|um|en|desde|hasta|depuis|step|chapter|rfc)[ \t]$"
)
_FOLLOWS = late(
    r"(?i)[\"'”»*`)#]{0,3}(?:$|[.,;:!?…)\n]|[ \t](?:[-–—(]|(?:isn['’]t|wasn['’]t|doesn['’]t|didn['’]t|won['’]t|as|for|and|but|is|was|ist|war|est|es|era|to|so|because|since|which|or|when|now|if|on|at|in|by|please|pls|of|als|für|von|und|aber|oder|como|de|del|du|y|pero|para|comme|et|mais|pour|que|e|ma|lol|thanks)\b))"
)
_REFERENCE = late(r"[$&*]?[\w.]{1,60}[(\[].*|\w{1,40}(?:(?:\.|::|->)\w{1,40}){1,6}[;,]?")
_PROGRAM = late(r"[{}<>]|\[[\\\"']|\w\(|\)\.|;\s*$|=>|::|\w\[")
_OTHER_CODE = late(
    r"(?i)(?:area|postal|post|zip|country|dial\w{0,4}|status|error|exit|response|return|http|colou?r|source|promo\w{0,7}|discount|voucher|"
    r"coupon|sort|swift|bic|bar|qr|product|item|order|booking|flight|course|class|tax|legal|civil|penal|morse|dress|hex|op|byte|machine|"
    r"sample|example|vor|länder|landes|fehler|quell|fuente|airport|iata|stock|reason|event|char|style|zip-)[ -]?$"
)
_OTHER_CODE_BEHIND = late(
    r"(?i)[ -](?:postal|source|couleur|erreur|fuente|civil|pénal|penal|de error|d['’]erreur|promo|de país|postale|barre|barras|de retour)"
)

# --- talk: words that a clause about a secret begins with, and a clause that says one does not ----------------------------


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TALK = _set(  # prepositions, negations, degrees, questions, pronouns
    """in on at from for with without about by of under over behind below above inside outside to between via up out off near next
    next until per as not never no too so very quite rather really pretty still only also already always often usually
    probably definitely actually apparently supposed likely almost basically what where when why how which who whose whatever
    whichever wherever if because then than it its it's he she they we you i one ones mine yours his hers ours theirs there here
    this that these those both each every any some something anything nothing somewhere stuff like at least most more less
    better worse and or but a an your
    zu nicht nie sehr im auf an am bei beim aus mit ohne von vom für noch schon immer nur auch ganz wohl leider ein eine
    einer einem wieder was wo wie wer wenn ob weil es er sie ihr dein deine dieser diese dieses dasselbe dieselbe derselbe kein
    keine bereits nun doch dort hier irgendwo identisch
    trop pas très dans sur sous au aux en chez de du des un une encore toujours plus moins aussi bien mal déjà où quoi que
    qui ce cette celui celle ceux peut-être jamais pourtant votre ton ta tes
    no muy demasiado más menos en con sin sobre del un una siempre nunca también ya todavía aún donde dónde que qué cuando lo tan
    tu su esta este igual
    troppo non molto nel nella sul sulla sempre ancora già più meno un una uno dove che come questo questa tuo tua
    muito não em num numa no na sempre já ainda mais menos um uma onde que este esta seu sua
    te niet heel erg een altijd nog al waar wat op"""
)
_SPEAKING = _set(
    "i we you he she they no never what where who why how just only not because like this that it ich wir je nous yo"
)
_PRONOUNS = _set("i i'm i've i'll we you he she they ich wir sie je j'ai nous yo who")
_POINTING = _set("this it that there here these das es dies hier ce c'est esto hay")
_ONE = _set("a an ein eine un une una in on under over to")
_THINKING = _set(
    """think guess believe forgot forget don't do know knew want wanted use used set have had need wrote chose said told was were
    would could should can can't might did didn't am are is will must may just always never also changed entered typed got gave
    keep see see find found remember made habe hatte weiß glaube will kann muss ai avais crois peux dois sais"""
)
_OWNERS = _set("my our her their mi mein meine unser unsere mon ma notre nuestra nuestro mio mia meu minha mijn")
_THE = _set("the all der die das le la les l' el los las il lo gli i o os as de het")
_BINDING = _set(
    """of that which as from you we i same one name birthday birthdate date year number s own first last default same used set
    for word words password letters digits characters numbers lowercase uppercase caps thing von vom dass gleiche selbe name
    geburtstag que même nom prénom anniversaire celui del mismo misma nombre cumpleaños fecha stesso stessa nome data compleanno
    mesma mesmo zelfde naam"""
)
_FUNCTION = _set(
    """à al alla aux au the a an and or but so in on at by to for from with of as it its it's i i'm my me we our you your he she they this that if
    when while since because until every again per via not now please pls lol is are was be has have had will can could should
    just also then there here under over about after before into out off up down too yet anymore though although which who
    und oder aber im in auf an bei von für mit zu seit weil wenn ist sind ich wir sie es bitte noch nicht der die das ein eine
    denn damit falls genug enough assez suficiente et ou mais dans sur au en de du pour par avec depuis est c'est je il le la les un une si car
    y o pero en de del para por con desde es lo la el los un una si porque no e ma nel di da per che è não em para por
    en of maar op van voor sinds omdat cada chaque jeden zum zur beim vom client-side server-side"""
)
_TO_DO = _set(
    "be expire log access get unlock open use make keep work see protect reset something anything match the a my do let"
)
_BEGINNING = _set(
    "what where who how here there this that it which so and but if when security length problem question issue reason part thing step password changing resetting sharing using storing"
)
_VERBS_OF_TALK = _set(
    "is are was must should can cannot will may be please enter use you your click see ask contact required forgot"
)
_OF_PHRASES = _FUNCTION - _THE  # words behind "and" that begin another clause even where a passphrase was begun
_JOINS = _set("and but so or because since und aber oder weil denn et mais ou y pero e ma maar")
_STATES = late(
    r"(?:[\w-]{1,30}(?:ed|ing|(?<!f)ly|able|ible|less|ful|ive|ous|ory)|wrong|weak|strong|long|short|safe|correct|incorrect|right|same|different|unique|"
    r"invalid|valid|gone|lost|known|unknown|kept|sent|written|given|hidden|broken|stolen|simple|complex|hard|easy|fine|good|"
    r"great|bad|late|done|public|private|secure|insecure|personal|temporary|random|taken|shown|spoken|chosen|forgotten|set|put|okay|ok|"
    r"reset|default|ready|online|offline|stuck|back|down|empty|blank|missing|null|none|nil|true|false|optional|mandatory|important|"
    r"sufficient|consistent|permanent|redundant|irrelevant|different|secret|confidential|compliant|due|old|new|plain|plaintext|useless|minimum|maximum|"
    r"exactly|eight|ten|twelve|several|hashed|bcrypt|utf-?8|ascii|text|obsolete|free|sticky|annoying|yours|visible|read|"
    r"(?:ge|ver|be|er|zer|ent|ab|aus|ein|auf|zurück|hinter|nieder|nach|um|über|zu)\w{2,24}(?:t|en)|\w{2,24}(?:bar|ig|lich|los|isch|haft|sam)|falsch|"
    r"richtig|kurz|lang|schwach|stark|sicher|unsicher|weg|leer|geheim|gleich|fällig|korrekt|neu|alt|egal|"
    r"\w{2,24}(?:é|ée|és|ées|eux|euse)|court|courte|longue?|faible|forte?|correcte?|incorrecte?|faux|fausse|obligatoire|vide|inconnue?|perdue?|"
    r"écrite?|sûre?|mauvais|bon|bonne|\w{2,24}(?:ad[oa]|id[oa]|at[oa]|ut[oa]|bile|ável|ível)|correct[oa]|incorrect[oa]|cort[oa]|larg[oa]|débil|"
    r"fuerte|segur[oa]|nuev[oa]|vací[oa]|antigu[oa]|fácil|difícil|important[eia]|obligatori[oa]|válid[oa]|inválid[oa]|mal|errad[oa]|fraca|sbagliat[oa]|debole|"
    r"sicur[oa]|lung[oa]|vuot[oa]|verkeerd|fout|lang|zwak|sterk|veilig|verlopen|vergeten|leeg|ge\w{2,20}[dt])(?:['’]t)?"
)
_COUNTED = late(
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|twenty|four-digit|six-digit)"
)
_UNITS = late(
    r"(?i)(?:or|to|more|plus|random)?(?:characters?|chars?|digits?|letters?|words?|symbols?|bytes?|bits?|days?|weeks?|months?|years?|hours?|minutes?|times|zeichen|stellen|ziffern|caractères|chiffres|caracteres|dígitos|caratteri|cifre|tekens)"
)
_PLACEHOLDER = late(
    r"(?i)(?:<.*|\$[\{(A-Z_].*|\{.*|\[.*|%[\w(].*|\*+|x{3,}|\.{2,}|…+|-+|_+|#+|your[-_].*|changeme|password|passwort|passwd|none|null|nil|undefined|true|false|"
    r"redacted|todo|tbd|n/a|os\.environ.*|process\.env.*|env\..*|getenv.*|settings\..*|config\..*|self\..*|str|string|int|bytes|https?://.*)"
)


def found(text: str, lowered: str, nouns: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, start, end) of the secrets that the sentences of a text say; ``lowered`` is the text in lower case."""
    silent, places_of, begin = list[re.Match[str]](), list[tuple[str, int, int]](), 0
    for noun in nouns.finditer(lowered):
        if noun.start() < begin:  # within the secret before it
            continue
        kind = _KINDS[str(noun.lastgroup)]
        if kind == "key" and _PUBLIC.search(text, max(0, noun.start() - 12), noun.end()):
            continue
        places = list(_behind(text, noun, kind))
        for start, end in places:
            places_of.append((_LABELS[kind], start, end))
            begin = max(begin, end)
        if not places:
            silent.append(noun)
    yield from places_of
    yield from _conspicuous(text, silent, places_of)


def _conspicuous(
    text: str, nouns: list[re.Match[str]], places_of: list[tuple[str, int, int]]
) -> Iterator[tuple[str, int, int]]:
    """Yield what stands out in the sentences of nouns that say no secret, each once for figures and once for words."""
    seen, left = {True: 0, False: 0}, iter((*places_of, ("", len(text) + AHEAD, 0)))
    next_place = next(left)
    for noun in nouns:
        kind = _KINDS[str(noun.lastgroup)]
        if noun.end() <= seen[figures := kind in ("pin", "code")]:
            continue
        if _is_another(text, noun, kind) or (
            kind == "key" and _OF_A_KIND.search(text, max(0, noun.start() - 12), noun.end())
        ):
            continue
        start, seen[figures] = _sentence(text, noun)
        while next_place[2] and next_place[2] <= start:
            next_place = next(left)
        if next_place[1] >= seen[figures]:
            for place in _near(text, start, seen[figures], kind, noun):
                yield _LABELS[kind], *place


WORDS = ("word", "phrase")
_KINDS = {each: each for each in ("word", "phrase", "pin", "code", "key", "login")}
_KINDS |= {"compound": "word", "number": "pin", "word_key": "key"}  # at the end of a German word
_LABELS = {"word": "password", "phrase": "password", "login": "password", "pin": "pin", "code": "pin", "key": "secret"}


def _behind(text: str, noun: re.Match[str], kind: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what is said of a noun behind it."""
    at, limit = noun.end(), noun.end() + AHEAD
    if _APART.match(text, at) if kind != "code" else _is_another(text, noun, kind):
        return
    if kind in ("key", "code") and _BLANK_NAME.search(text, max(0, noun.start() - BEHIND), at + 20):
        kind = "word"
    if (
        (kind in WORDS or noun[0] == "pass")
        and text[at : at + 1] in " ="
        and (text.startswith("--", noun.start() - 2) or _USER.search(text, max(0, noun.start() - BEHIND), noun.start()))
    ):
        words = list(_clause(text, at + 1))
        if words and not _is_talk([words[0][0]], "word", False):
            yield at + 1, words[0][1]
            return
    hit = _FIGURES.match(text, at + 1, limit) if text.startswith(" ", at) and _has_figures(noun) else None
    capitals = text[noun.start()].isupper() and text[noun.end() - 1].isupper()
    if hit is not None and (capitals or _FOLLOWS.match(text, hit.end())):
        yield hit.span()
        return
    link = _LINK.match(text, at, limit)
    if link is not None:
        signed = link["link"].strip(" \t*")[:1] in (":", "=", "：")
        if signed and text[at] in "\"'":  # an object, which secrets.py reads
            return
        place = _value(text, link.end(), kind, signed)
        if place is None and not (signed and kind == "word"):
            if _has_figures(noun):
                place = _value(text, link.end(), "pin", signed)
            if place is None and kind in WORDS and (namely := _NAMELY.match(text, link.end(), limit)) is not None:
                place = namely.span("value")
        if place is not None:
            yield place
            if (again := _NEW_ONE.match(text, place[1], place[1] + 60)) and (other := _value(text, again.end(), kind)):
                yield other
            return
        if not link["link"].strip(" \t*").startswith(("-", "–", "—")):
            if not signed:
                yield from list(_later(text, at, limit, kind)) or _listed_later(text, at, limit, kind, noun)
            return
    yield from _unlinked(text, noun, kind)


def _unlinked(text: str, noun: re.Match[str], kind: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what is said of a noun that no verb or sign follows: "set the PIN to 4711", "we use X as password"."""
    at, limit = noun.end(), noun.end() + AHEAD
    if kind == "login":
        if (pair := _PAIR.match(text, at, limit)) is not None and not is_example(pair["value"]):
            yield pair.span("value")
        return
    if (
        kind in ("word", "pin", "code")
        and _SET.search(text, max(0, noun.start() - BEHIND), noun.start())
        and (to := _TO.match(text, at, limit))
    ):
        place = _value(text, to.end(), kind)
        if place is not None and not (kind in WORDS and text[slice(*place)].split()[0] in _TO_DO):
            yield place
            return
    if kind in WORDS and (place := _before(text, noun)):
        yield place
        return
    if (
        kind in WORDS
        and text[at : at + 1] == " "
        and text[at + 1 : at + 2] in _QUOTES
        and (place := _value(text, at + 1, kind))
    ):
        yield place
        return
    if kind in WORDS and (joined := _JOINED.match(text, at, limit)) is not None:
        yield joined.span("value")
        return
    if kind in WORDS and (typed := _TYPED.match(text, at, limit)) and (place := _value(text, typed.end(), kind)):
        yield place
        return
    if kind in WORDS and (then := (_TO_THEN.match(text, at, limit))) is not None:
        yield then.span("value")
        return
    if kind in WORDS and (namely := _NAMELY.match(text, at, limit)) is not None:
        yield namely.span("value")
        return
    if places := list(_later(text, at, limit, kind)) or list(_listed_later(text, at, limit, kind, noun)):
        yield from places
    elif kind in WORDS and (taken := _TAKEN.match(text, at, limit)) is not None:
        yield taken.span("value")
    elif kind in WORDS and _AS.search(text, max(0, noun.start() - 20), noun.start()) and text[at : at + 1] == " ":
        place = _value(text, at + 1, kind)
        if place is not None and (stands_out(text[slice(*place)].split()[0]) or text[slice(*place)].count(" ") > 1):
            yield place


def _later(text: str, at: int, limit: int, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the place of a secret that the sentence after a noun says: "I know the PIN. It's 4711"."""
    if (later := _LATER.match(text, at, limit)) is not None:
        place = _value(text, later.end(), kind)
        if place is not None and (kind not in WORDS or _is_talk_later(text, later, place)):
            yield place


def _listed_later(text: str, at: int, limit: int, kind: str, noun: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield the place of what stands behind a colon or a comma: "tell me if this passphrase is good: larks at dawn"."""
    is_this = _THIS.search(text, max(0, noun.start() - 20), noun.start()) is not None
    if is_this and kind in WORDS and text.startswith(", ", at):
        if (place := _value(text, at + 2, kind)) is not None:
            yield place
    elif kind in WORDS and (then := _THEN.match(text, at, limit)) is not None:
        place = _value(text, then.end(), kind, signed=True)
        if place is not None and (kind == "phrase" or is_this or not text[slice(*place)].replace(" ", "").isalpha()):
            yield place


def _before(text: str, noun: re.Match[str]) -> tuple[int, int] | None:
    """Return the place of plain words that are said to be a password: "I use three old owls as my password"."""
    begin = max(0, noun.start() - BEHIND)
    ends = _FOLLOWS.match(text, noun.end()) is not None
    if ends and (hit := _QUOTED.search(text, begin, noun.start())) is not None:
        return hit.span("value") if not _is_talk(hit["value"].split(), "word", False) else None
    for pattern in (_USED_AS, _IS_ONE):
        hit = pattern.search(text, begin, noun.start()) if ends else None
        if hit is None:
            continue
        start, end = hit.span("value")
        words = text[start:end].strip("\"'“”«»„").split()
        if (
            words
            and not _is_talk(words, "word", False)
            and (len(words) > 1 or pattern is _IS_ONE or not words[0].isalpha() or text[start] in _QUOTES)
        ):
            return (start, end) if len(words) < 9 and words[0].lower() not in _BEGINNING else None
    return None


def _is_talk_later(text: str, later: re.Match[str], place: tuple[int, int]) -> bool:
    """Return True if a sentence after the noun says it: plain words only right behind it, or where a verb names them."""
    value = text[slice(*place)]
    if (
        stands_out(value.split()[0])
        or _CALLED.search(later[0])
        or text[place[0] - 1] in _QUOTES
        or _WHICH.match(later[0])
    ):
        return True
    return (" " not in value and not value.isalpha()) or (later.end() - later.start() < 12 and len(value.split()) > 2)


def _value(text: str, start: int, kind: str, signed: bool = False) -> tuple[int, int] | None:
    """Return the place of the secret that begins at a place, if there is one."""
    if kind in ("pin", "code"):
        hit = _CODE.match(text, start, start + CLAUSE)
        return hit.span("code") if hit is not None and not _DATING.search(text, start, hit.start("code")) else None
    if (word := _WORD_OF.match(text, start)) is not None:
        start = word.end()
    while text.startswith(("*", "_"), start):
        start += 1
    opening = text[start : start + 1]
    if opening in ("\\", "[", "{", "("):
        return None
    close = _QUOTES.get(opening)
    if close is not None:
        end = text.find(close, start + 1, start + CLAUSE)
        line = text.find("\n", start, start + CLAUSE)
        if end > start + 2 and not 0 <= line < end:
            start, end = start + 1, start + 1 + len(text[start + 1 : end].rstrip())
            return (start, end) if not _is_talk(text[start:end].split(), kind, False) else None
        return None
    words = list(_clause(text, start, kind))
    if not words:
        return None
    is_short = len(words[0][0]) < 4
    if signed and kind in WORDS and (words[-1][1] - start < 4 if is_short else is_example(words[0][0])):
        return None
    if _is_talk([word for word, _ in words], kind, signed):
        return None
    if kind in ("key", "login"):
        words = words[:1]
    return start, words[-1][1]


def _clause(text: str, start: int, kind: str = "word") -> Iterator[tuple[str, int]]:
    """Yield the words of a clause, each with its end: to a sign, a new line, or a word that begins another clause."""
    limit = min(len(text), start + CLAUSE)
    line = text.find("\n", start, limit)
    limit = line if line >= 0 else limit
    odd, first = False, True
    beginning = _OF_PHRASES if kind == "phrase" else _FUNCTION
    words = list(_WORD.finditer(text, start, limit))
    for number, hit in enumerate(words):
        word = hit[0]
        word = word.partition('\\"')[0].partition("\\'")[0]
        bare = word.rstrip(".,;:)]}>、。\"”’»*…'`")
        lower = bare.lower().replace("’", "'")
        following = words[number + 1][0].lower() if number + 1 < len(words) else ""
        if not first and (
            not bare.strip("-–—|(/")
            or word[0] in "(-–—|"
            or (odd and lower in _FUNCTION)
            or (lower in _JOINS and following.strip(".,;:!?").replace("’", "'") in beginning)
            or word.endswith(("=", ":"))
        ):
            return
        if not bare or (first and word.endswith((":", "="))):
            return
        yield bare, hit.start() + len(bare)
        if (
            (len(bare) < len(word) and word[len(bare)] in ".,;:)]}>、。…\"'`")
            or len(word) < len(hit[0])
            or word[-1] in "!?;"
        ):
            return
        odd, first = odd or stands_out(bare) or (bare.isdigit() and len(bare) > 3), False


def _is_talk(words: list[str], kind: str, signed: bool) -> bool:
    """Return True if a clause plainly tells about a secret, and does not say one."""
    if not words:
        return True
    lower = [word.strip("\"'`.,;:!?*“”").replace("’", "'") for word in words]
    first = lower[0]
    if (
        not first
        or _PLACEHOLDER.fullmatch(words[0])
        or "[redacted:" in words[0]
        or (signed and _is_name_of_code(words[0]))
    ):
        return True
    if kind in ("key", "login"):
        if signed and not any(map(str.isdigit, words[0])):
            return True
        return not (len(words[0]) >= 8 and (stands_out(words[0]) or _GROUPS.fullmatch(words[0])))
    if stands_out(words[0]):
        return False
    if len(first) < 3 and len(words) == 1 and not first.isdigit():
        return True
    rest = lower[1:]
    if _is_phrase(words[0], first, rest, kind, signed):
        return False
    if first in _TALK or "://" in words[0] or "@" in words[0][1:]:
        return True
    if first in _OWNERS:
        return len(rest) < 4 or not _BINDING.isdisjoint(rest) or any(word.endswith("'s") for word in rest[:2])
    if first in _THE or first.startswith(("l'", "d'")):
        return (
            len(rest) < 4
            or not _BINDING.isdisjoint(rest)
            or (len(rest) < 5 and any(word in _FUNCTION for word in rest[1:]))
        )
    if _COUNTED.fullmatch(first) and any(_UNITS.fullmatch(word) for word in rest[:3]):
        return True
    if "than" in rest[:3]:
        return True
    if words[0][:1].islower() and _STATES.fullmatch(first):
        return not rest or rest[0] in _FUNCTION or rest[0] in _TALK or _STATES.fullmatch(rest[0]) is not None
    if signed and len(words) > 1:
        return (
            first in _FUNCTION
            or not _VERBS_OF_TALK.isdisjoint(lower)
            or (words[0][:1].isupper() and words[1][:1].islower())
        )
    return False


def _is_phrase(word: str, first: str, rest: list[str], kind: str, signed: bool) -> bool:
    """Return True if words that begin like talk are a sentence of their own, which nobody says of a password."""
    if not signed and word[0].isupper() and not word.isupper() and first not in _PRONOUNS:
        return True
    if len(rest) > 1 and first in _SPEAKING and any(map(str.isdigit, rest[-1])):
        return True
    if len(rest) < 3 or _STATES.fullmatch(rest[0]):
        return False
    if first in _PRONOUNS:
        return rest[0] not in _THINKING and (kind == "phrase" or "'" not in rest[0])
    if first in _POINTING:
        return rest[0] in ("is", "was", "are", "were", "ist", "war", "sind", "est", "era")
    if first in ("never", "no", "all", "nie", "jamais", "nunca"):
        return _BINDING.isdisjoint(rest) and rest[0] not in _FUNCTION
    if first in ("where", "when", "how", "why"):
        return rest[0] not in _PRONOUNS and len(rest) > 3
    return kind == "phrase" and (first in _THE or (len(rest) > 3 and first in _ONE)) and _BINDING.isdisjoint(rest[:2])


def _is_name_of_code(word: str) -> bool:
    return _REFERENCE.fullmatch(word) is not None and not word[0].isdigit()


def is_example(value: str) -> bool:
    """Return True if a value stands for a secret in an example: "<your password>", "changeme"."""
    bare = value.strip("\"'`.,;:").lower()
    return part("secrets", "example").match(bare) is not None or len(set(bare)) < 3


def stands_out(word: str) -> bool:
    """Return True if a word mixes what words do not mix: letters with digits, or signs in the middle."""
    bare = word.strip("\"'`.,;:)*“”«»")
    if len(bare) < 5 or _USUAL.fullmatch(bare) or _PLACEHOLDER.fullmatch(bare):
        return False
    if any(map(str.isdigit, bare)):
        return any(map(str.isalpha, bare)) or _ODD.search(bare) is not None
    return _ODD.search(bare) is not None and _ODD.search(bare.swapcase()) is not None


def _has_figures(noun: re.Match[str]) -> bool:
    """Return True for what can be a number: a PIN, a passcode, and what other languages call a key."""
    return noun.lastgroup in ("pin", "number") or noun[0].endswith(("passcode", "passcodes", *_KEYS))


def _is_another(text: str, noun: re.Match[str], kind: str) -> bool:
    """Return True if the noun is part of a name of something else: "password manager", "postal code"."""
    if _APART.match(text, noun.end()):
        return True
    return kind == "code" and (
        _OTHER_CODE.search(text, max(0, noun.start() - 20), noun.start()) is not None
        or _OTHER_CODE_BEHIND.match(text, noun.end()) is not None
    )


def _sentence(text: str, noun: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the sentence of a noun, as far as it is looked at."""
    start = max(0, noun.start() - BEHIND)
    for hit in _END.finditer(text, start, noun.start()):
        start = hit.end()
    limit = min(len(text), noun.end() + AHEAD)
    end = _END.search(text, noun.end(), limit)
    return start, end.start() if end is not None else limit


def _near(text: str, start: int, end: int, kind: str, noun: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of what stands out in the sentence of a noun: figures, mixed words, a quotation."""
    if _PROGRAM.search(text, start, end):
        return
    if kind == "code" or _has_figures(noun):
        for hit in _FIGURES.finditer(text, start, end):
            apart = hit.end() <= noun.start() or hit.start() >= noun.end()
            dated = _DATING.search(text, max(start, hit.start() - 12), hit.start())
            inside = text[max(0, hit.start() - 1) : hit.start()] == "(" and text.startswith(")", hit.end())
            if apart and len(hit[0]) > 3 and not dated and (inside or _FOLLOWS.match(text, hit.end())):
                yield hit.span()
    if kind == "code":
        return
    for hit in _WITH_DIGIT.finditer(text, start, end):
        bare = hit[0].strip("\"'`.,;:()*“”«»")
        if (
            len(bare) > 5 + (kind not in WORDS)
            and stands_out(bare)
            and not is_example(bare)
            and not _REFERENCE.fullmatch(bare)
        ):
            begin = hit.start() + hit[0].index(bare)
            if begin >= noun.end() or begin + len(bare) <= noun.start():
                yield begin, begin + len(bare)
    if kind in WORDS:
        for hit in _PARTS.finditer(text, start, end):
            if _LITTLE.isdisjoint(hit[0].split("-")):
                yield hit.span()
        for hit in _IN_QUOTES.finditer(text, start, end):
            apart = (noun.end() + 1 < hit.start() or hit.end() <= noun.start()) and not text.startswith(
                ('"', "'"), noun.end()
            )
            if apart and not _is_talk(hit["value"].split(), "word", False):
                yield hit.span("value")
