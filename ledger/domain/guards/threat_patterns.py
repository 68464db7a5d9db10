"""The patterns of the scanner "threats/1", as they match a folded text: in English, and in ten other languages.

Each says what a text must have for it to be tried at all: the beginnings of words, or signs. A blank in them is a tilde.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from ledger.domain.guards.folding import fold
from ledger.domain.guards.gates import Gated


class Pattern(Struct, frozen=True):
    label: str
    needs: tuple[str, ...]  # one of these is in every text that it matches
    found: Gated


_GAP = r"\W+(?:\w+(?:['-]\w+)?\W+){0,%d}?"  # so many words; each can be read in few ways, or a row of hyphens takes for ever
_OBJECTS = (
    r"(?:instruction|directive|rule|guideline|guidance|prompt|constraint|restriction|safeguard|limitation|"
    r"programming|"
    r"command|order|training|polic(?:y|ies)|system message|safety|filter)s?"
)
_BEFORE = (
    r"(?:previous|prior|above|earlier|preceding|former|foregoing|initial|original|existing|your|its|"
    r"developer'?s?|operator'?s?|safety|system|content|hidden|every|all|any|these|those|other|given|told)"
)
_UNHEED = (
    r"(?:ignore|disregard|forget|override|overrule|bypass|neglect|discard|abandon|disobey|circumvent|"
    r"violate|suspend|"
    r"set aside|put aside|throw (?:away|out)|get rid of|drop|cancel|skip|pay no attention to|"
    r"(?:do not|don't|must not|never|stop|no longer|not) (?:follow|obey|heed|adher\w* to|comply\w* with)|"
    r"(?:stop )(?:following|obeying))"
)
_SEND = (
    r"(?:send|forward|post|upload|mail|e-?mail|transmit|submit|share|leak|exfiltrate|copy|paste|append|"
    r"attach|include|put|add|insert|relay)"
)
_SECRETS = (
    r"(?:passwords?|credentials?|secrets?|api[ _-]?keys?|access keys?|tokens?|cookies?|private keys?|"
    r"ssh keys?|id_(?:rsa|ed25519)|"
    r"env(?:ironment)? (?:variables|vars)|\.env|card numbers?|credit cards?|bank details|iban)"
)
_PRIVATE = (
    r"(?:(?:the |a |every |all |any ){0,4}(?:user|owner|customer|client|their|his|her)(?:'?s|s')? ?(?:own |"
    r"private |last |saved |stored ){0,4}"
    r"(?:messages?|data|e-?mails?|mails?|conversations?|chats?|history|notes|files|documents?|inputs?|"
    r"answers?|secrets?)|"
    r"(?:conversation|chat|message) (?:history|log|summary)|copy of (?:each|every|the user|all))"
)
_PLACE = (
    r"(?:https?:|ftp[:.]|www\.|[\w.+-]{1,64}@[\w-]{1,64}\.|webhook|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|query string|"
    r"header|url|dns|search query)"
)
_STANDING = (
    r"(?:from (?:now|this (?:point|moment|day)|today) (?:on|forward)|going forward|always|henceforth|"
    r"permanently|"
    r"(?:in|for|during) (?:all|every|each|any|the|later|future)(?: (?:all|every|each|future|later|coming|"
    r"next)){0,4}"
    r" (?:future |later )?(?:conversation|session|chat|answer|reply|response|request|message|"
    r"interaction)s?|whenever|every time|each time)"
)
_REVEAL = (
    r"(?:reveal|print|show|output|display|repeat|tell|give|write|leak|expose|share|dump|recite|what (?:is|"
    r"was|are|were)|list)"
)
_HIDDEN = (
    r"(?:system ?prompt|system message|(?:initial|original|hidden|secret|first|configured) (?:instruction|"
    r"prompt|configuration|message|rule|directive)s?|"
    r"your (?:instruction|prompt|configuration|rules|directive|guideline)s?\b(?!-)|context window|"
    r"everything above|(?:words|text) above)"
)
_FREE = (
    r"(?:without|no|any|remove\w{0,3}|lift\w{0,3}|off|disable[ds]?|bypass\w{0,3}|ignoring|free (?:of|from)|"
    r"free from) (?:any |all |your |every |its |safety |content ){0,5}"
    r"(?:restriction|limit|limitation|filter|rule|content polic|safety|safeguard|guideline|censorship|"
    r"boundar)\w{0,8}"
)
_ENGLISH: tuple[tuple[str, str, str], ...] = (
    # label, what it needs, pattern
    (
        "prompt_injection",
        "ignor disreg forget overr bypass neglect discard aband disobey circumv violat suspend aside throw "
        "drop cancel "
        "skip attention follow obey heed adher compl",
        rf"\b{_UNHEED}\b{_GAP % 4}(?:of )?{_BEFORE}\b{_GAP % 4}{_OBJECTS}\b",
    ),
    (
        "prompt_injection",
        "ignor disreg forget",
        r"\b(?:ignore|disregard|forget)\b (?:(?:all|everything|anything|whatever)(?: of)?(?: that|"
        r" which)?(?: (?:was|is|the))? ?"
        r"(?:above|before|previous|prior|you (?:know|were|have|are|learned)|(?:the )?user said|"
        r"(?:that )?came before|so far|up to now|said)"
        r"|(?:the )?(?:above|foregoing|preceding)\b(?! (?:example|message|mail|line|table|comment|picture))|"
        r"what the user (?:wants|asked|said)"
        r"|the user'?s? (?:request|question|wish)|your (?:role|rules|instructions|guidelines|task|training))",
    ),
    (
        "prompt_injection",
        "ignor disreg overr irrelev",
        (
            r"\b(?:must|should|shall|has to|have to) (?:ignore|disregard|override) the user|"
            r"\beverything the user said\b.{0,40}\b(?:irrelevant|ignore)"
        ),
    ),
    (
        "prompt_injection",
        "instruction directive rule order prompt task polic",
        r"\b(?:instruction|directive|rule|order|prompt|guideline|guidance|constraint|system message|polic(?:y|"
        r"ies))s?\b"
        r"[^.!?\n]{0,50}\b(?:(?:are|is|were|was) (?:now )?(?:void|outdated and|cancel\w*|revoked|obsolete and|"
        r"invalid|a test|lifted|removed|switched off|turned off)"
        r"|no longer (?:apply|applies|bind|count)\b[^.]{0,20}\b(?:you|this (?:chat|conversation))|"
        r"have changed\b.{0,40}\bobey|(?:has|have) been (?:replaced|overridden|cancell?ed|lifted))",
    ),
    (
        "prompt_injection",
        "directive instruction order task objective prompt",
        (
            r"(?:^|[.!?:;\n]\s{0,20}|\b(?:your|the real|the actual) )(?:new|real|actual|updated|secret) (?:instruction|"
            r"directive|order|task|objective|system prompt)s?\s*(?::|begin|are\b|is\b|follow)"
        ),
    ),
    (
        "prompt_injection",
        "supersede replaces",
        (
            r"\b(?:supersedes?|replaces?|overrides?)\b (?:all |any |every )*(?:of )?(?:your|previous|prior|"
            r"earlier)\b.{0,30}\b(?:instruction|rule|directive|order|prompt)s?"
        ),
    ),
    (
        "prompt_injection",
        (
            "unrestr unfilt admin root developer terminal assistant hacker model obey without limit maint debug "
            "free acting evil mode dan"
        ),
        r"\byou (?:are|will|must|shall) (?:now|from now on|no longer|henceforth)\b(?! (?:able|connected|"
        r"logged|subscribed|ready|invited|"
        r"registered|signed|on the list|a member|leaving|entitled|eligible))[^.]{0,40}\b(?:dan\b|god mode|"
        r"evil|unrestricted|unfiltered|an? (?:ai|model|assistant|hacker|terminal|admin)|"
        r"root|developer|admin\w*|assistant|act as|acting|obey|without|limits?|in (?:maintenance|debug|"
        r"developer|god|admin) mode|free)",
    ),
    (
        "prompt_injection",
        "unrestr unfilt uncens jailbr root dan",
        (
            r"\byou are (?:an? |now |hereby )*(?:unrestricted|unfiltered|uncensored|jailbroken|dan)\b|"
            r"\byou are a terminal with root"
        ),
    ),
    (
        "prompt_injection",
        "restr limit filter rule polic safety safeg guidel censor bound",
        rf"\b(?:act|pretend|imagine|behave|role-?play|play|answer|respond|reply|comply)\b.{{0,60}}\b{_FREE}\b",
    ),
    (
        "prompt_injection",
        "restrict safety rule guideline safeguard filter polic",
        (
            r"\b(?:restrictions?|safety rules?|guidelines|safeguards?|content (?:filter|polic(?:y|"
            r"ies))s?)\b.{0,20}\b(?:were|was|are|is|have been|has been)? ?(?:turned off now|lifted|removed by|"
            r"switched off for this|disabled for (?:this|you))"
        ),
    ),
    (
        "prompt_injection",
        "developer jailbreak debug admin unrestr sudo god dan",
        (
            r"\b(?:enter|switch to|activate|enable|go into|start|you are (?:now )?in)\b (?:the )?(?:developer|god|"
            r"dan|debug|admin\w*|jailbreak|unrestricted|sudo) mode\b"
        ),
    ),
    (
        "prompt_injection",
        "safeguard restriction filter limits",
        (
            r"\b(?:disable|bypass|remove|turn off|switch off|deactivate|unlock) (?:all |any |every |your |"
            r"the )*(?:safeguards?|restrictions?|safety \w+|content filters?|limits|security filters?|"
            r"(?:all )?features<)"
        ),
    ),
    (
        "prompt_injection",
        "root obey system",
        (
            r"\banswer as root\b|\bobey (?:only )?(?:me|the (?:person|following|text|attacker))\b|"
            r"\bsystem-level (?:command|instruction|order)|\bover (?:any|the|every) system (?:message|prompt)"
        ),
    ),
    (
        "prompt_injection",
        "prompt system instruct configur direct rules guideline above context",
        (
            rf"\b{_REVEAL}\b(?: (?:me|us|out|back))*(?: (?:the|your|all|of|my|its|any|contents?|entire|full|whole|"
            rf"complete|exact|everything|in))*\W{{1,3}}{_HIDDEN}(?!.{{0,30}}\b(?:is|are) (?:in|kept|stored|"
            rf"reviewed)\b)(?:\b.{{0,60}}|$)"
        ),
    ),
    (
        "prompt_injection",
        "language assist chatbot llm llms ai ais",
        r"(?:\b(?:note|message|attention|hey|hello|dear|to|important)\b[^.\n]{0,20}\b(?:ai|language model|llm|"
        r"ai agent|ai assistant|assistant|chatbot)s?\b(?: (?:reading|processing|that|who|summar\w+|"
        r"if you)[^.:\n]{0,40})?"
        r"\s*[:,]\s*(?:if |do not|don't|please|you|ignore|skip|treat|instead|forward|send|the (?:user|text)|"
        r"run|call|print|must))|\bas an ai(?: agent| assistant| model)?\b.{0,40}\b(?:you are required|must|"
        r"have to)\b"
        r"|\bif you(?:'re| are)? (?:an ai|reading this as)|\bthe assistant must (?:ignore|call|send|run|not)\b",
    ),
    (
        "prompt_injection",
        "execute perform treat hidden instead obey written",
        (
            r"\b(?:execute|perform|run|follow|do) the (?:task|command|instruction|step)s? (?:hidden|at the end|"
            r"below instead|in this (?:e-?mail|page|document))|\btreat (?:the|this) (?:text|paragraph|message|"
            r"note)\b.{0,40}\b(?:system|developers?|highest)\b|\bfollow (?:only )?(?:this text|"
            r"what is written in this|these rules) instead|\bobey this (?:message|text|document)|"
            r"\bfollow only what is written"
        ),
    ),
    (
        "prompt_injection",
        "delete wipe erase reveal ### print send",
        (
            r"^\W*(?:instruction|task|command)s?\s*:\s*(?:delete|wipe|erase|print|reveal|send)\b|"
            r"###\s*instructions?\s*:"
        ),
    ),
    # role markers
    (
        "role_spoofing",
        "system assistant developer human",
        (
            r"(?:^\s*|\n[^\S\n]*)(?:system|assistant|developer)\s*:\s*(?:you\b|ignore|i will (?:now )?comply|sure\b|"
            r"override|the (?:user|policy|admin)|print|content polic|all |always|never|from now|reveal|forget|"
            r"disregard)"
        ),
    ),
    (
        "role_spoofing",
        "<|",
        (
            r"<\|(?:im_start|im_end|endoftext|system|user|assistant|end|start_header_id|end_header_id|eot_id|"
            r"begin_of_text|endofprompt)\|>"
        ),
    ),
    ("role_spoofing", "inst] <<sys <start_of <end_of <</sys", r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"),
    (
        "role_spoofing",
        "<system </system </context </document </user </data <admin <developer",
        (
            r"</?(?:system|admin|developer)(?:[-_ ]?(?:prompt|message|"
            r"instructions?))?>\s*\w+(?! is\b).{0,80}\b(?:you|grant|approved?|tool|rights|ignore|reply|obey|"
            r"override|admin\w*)\b|</(?:context|document|user_input|data)>\s*<"
        ),
    ),
    ("role_spoofing", "###", r"###\s*(?:system|assistant|human|user)\s*:"),
    (
        "role_spoofing",
        "[system [admin",
        r"\[system\]\s*\(#|\[system\]\s*:|\[(?:system|admin) (?:message|override|note)\]",
    ),
    (
        "role_spoofing",
        "system message",
        (
            r"\bbegin system (?:message|prompt)\b|\bsystem (?:message|override|notice)\s*:\s*(?:disable|ignore|"
            r"you|override|all)"
        ),
    ),
    (
        "role_spoofing",
        "human:",
        (
            r"(?:^\s*|\n[^\S\n]*)human\s*:.{0,300}\n\s{0,20}assistant\s*:|(?:^\s*|\n[^\S\n]*)assistant\s*:.{0,300}\n\s{0,20}(?:user|"
            r"human)\s*:"
        ),
    ),
    # tool calls
    (
        "tool_spoofing",
        "<tool_ </tool_ <function </function <invoke <antml </antml </invoke",
        (
            r"</?(?:tool_call|tool_result|tool_response|tool_use|function_calls?|function_results?|antml:\w+)>|"
            r"<invoke name=|<function=|<parameter name=.{0,40}</invoke"
        ),
    ),
    ("tool_spoofing", "tool_calls", r'"(?:tool_calls|function_call)"\s*:\s*[\[{]\s*\{?\s*"'),
    (
        "tool_spoofing",
        "role",
        (
            r'"role"\s*:\s*"system"\s*,\s*"content"\s*:\s*"(?:you|always|never|ignore|approve|disregard|reveal|'
            r"forget)"
        ),
    ),
    (
        "tool_spoofing",
        "granted authori",
        (
            r"\b(?:function|tool) (?:result|response|output)\s*:.{0,60}\b(?:granted|approved|authori[sz]ed|"
            r"is an admin)"
        ),
    ),
    # standing orders
    (
        "memory_poisoning",
        "send forward post upload mail e-mail email transmit submit share leak exfil copy paste append attach include insert",
        rf"\b{_STANDING}\b.{{0,60}}\b{_SEND}\b.{{0,60}}(?:{_SECRETS}|{_PRIVATE})",
    ),
    (
        "memory_poisoning",
        "silently secretly quietly without~telling without~informing without~notifying without~asking~the",
        (
            rf"\b(?:silently|secretly|quietly)\b.{{0,60}}\b(?:{_SEND}(?:s|ed|ing)?|install|remove|delete)\b|"
            rf"\b{_SEND}(?:ed|s)?\b.{{0,80}}\b(?:silently|secretly|without (?:telling|informing|notifying|"
            rf"asking) the (?:user|owner))"
        ),
    ),
    ("memory_poisoning", "secretly silently", r"\bsecretly (?:add|send|install|forward|copy|include|store)\b"),
    (
        "memory_poisoning",
        "tell mention inform warn reveal alert show",
        (
            r"\b(?:do not|don't|never|without|not) (?:tell|telling|mention|mentioning|inform|informing|warn|"
            r"warning|reveal|alert|alerting|show)\w*\b[^.]{0,40}\b(?:the |this |it to the |to the )*(?:user|"
            r"account owner|owner)\b(?! (?:guide|interface|manual|stor))"
        ),
    ),
    (
        "memory_poisoning",
        "secret conceal hide hidden quiet",
        (
            r"\b(?:keep|hold)\b.{0,20}\b(?:secret|hidden|quiet)\b.{0,20}\b(?:from|to|about|that|why)\b|\b(?:hide|"
            r"conceal|suppress)\b.{0,50}\b(?:from (?:the )?(?:user|owner|account)|warnings?\b.{0,20}must)"
        ),
    ),
    (
        "memory_poisoning",
        "say explain mention admit",
        r"\b(?:do not|don't|never) (?:say|explain|mention|admit) (?:why|that|risks?|it)\b.{0,20}$",
    ),
    (
        "memory_poisoning",
        "confirm permission asking ask",
        (
            r"\b(?:never|not|don't|no longer|without|skip|stop)\b(?: ever| have to)? ?(?:ask|asking|asks|"
            r"confirmation|confirm|confirming)\b.{0,40}(?:\b(?:confirmation|permission)\b|"
            r"\bbefore (?:delet|runn|execut|transfer|send|install|pay|overwrit)\w*)|"
            r"\bwithout (?:ever )?(?:asking|confirm\w+)\W{0,3}$"
        ),
    ),
    (
        "memory_poisoning",
        "approv authori",
        (
            r"\b(?:approve|authori[sz]e|accept|allow|grant)d?\b (?:every|all|any|each)\b.{0,40}\b(?:request|"
            r"command|payment|transfer|refund|permission|tool call|action|pull request|purchase)s?\b|"
            r"\b(?:pre-?approved|(?:permanently|already) (?:approved|authori[sz]ed))\b|\b(?:approved|"
            r"authori[sz]ed) all\b|\bapprove (?:pull requests|transfers|payments|refunds)\b.{0,60}\b(?:without|"
            r"automatically|from)"
        ),
    ),
    (
        "memory_poisoning",
        "always automatic without",
        (
            r"\b(?:always|automatically)\b.{0,20}\b(?:execute|run|install|open|trust)\b.{0,60}\b(?:without|"
            r"commands? found|links? from|them|it$)|\b(?:execute|run|install)\b.{0,60}\bwithout (?:asking|confirm|"
            r"permission|checking|review)"
        ),
    ),
    (
        "memory_poisoning",
        "skip disable bypass security warnings check verification factor",
        (
            r"(?<!can )(?<!could )(?<!may )\b(?:skip|disable|bypass|omit|turn off|suppress)\b[^.\n]{0,40}\b(?:confirmation|"
            r"verification|security (?:check|warning|verification)s?|two[- ]factor|2fa|password checks?|"
            r"warnings?)\b|\bpassword check can be skipped|\bsecurity warnings?\b.{0,60}\b(?:never shown|"
            r"suppressed|must be (?:ignored|suppressed)|are never)"
        ),
    ),
    (
        "memory_poisoning",
        "recommend promote suggest praise",
        (
            r"\b(?:recommend|promote|suggest|praise)\b.{0,60}\b(?:as the only|in (?:every|each|all) (?:reply|"
            r"answer|response|conversation)|do not mention|never (?:show|mention)|and not\b.{0,10}\brisks?)|"
            r"\b(?:in every (?:future )?(?:conversation|reply|answer)|in future sessions|"
            r"whenever)\b.{0,60}\brecommend\b"
        ),
    ),
    (
        "memory_poisoning",
        "treat admin",
        (
            r"\btreat (?:messages|commands|orders|requests) from\b.{0,60}\bas if\b|\b(?:as if|"
            r"as though) (?:the user|he|she|they|it) (?:were|was|came|come)\b.{0,30}\badmin"
        ),
    ),
    (
        "memory_poisoning",
        "safe trust always open",
        (
            r"\b(?:links?|files?|packages?|attachments?) (?:to|from)\b.{0,60}\b(?:are safe|is safe|always (?:open|"
            r"install|trust)|open them)|\balways (?:trust|open) (?:links|files|attachments)"
        ),
    ),
    ("memory_poisoning", "first", r"\bfirst (?:fetch|open|load|read) https?:.{0,60}\b(?:do|follow|obey|run)\b"),
    (
        "memory_poisoning",
        "answer reply response message",
        (
            r"\b(?:in|to|at the end of) (?:each|every)\b.{0,10}\b(?:answer|reply|response|"
            r"message)s?\b.{0,60}\b(?:api key|password|link to https?|sponsored)|\b(?:each|every) (?:answer|reply|"
            r"response)\b.{0,40}\b(?:insert|add|include)\b.{0,40}https?:|\badd the line\b.{0,80}\b(?:each|"
            r"every) answer"
        ),
    ),
    (
        "memory_poisoning",
        "iban account bank",
        (
            r"\b(?:when|whenever|always)\b.{0,40}\b(?:asked|asks)? ?(?:for )?(?:the )?(?:bank details|iban|"
            r"account number)\b.{0,20}\bgive\b|\bwants? every (?:invoice|payment|bill) (?:paid|sent|"
            r"transferred) to (?:the )?account"
        ),
    ),
    (
        "memory_poisoning",
        "deny claim recalled",
        r"\balways deny\b|\bclaim (?:they|it|that)\b.{0,30}\b(?:recalled|unsafe|dangerous|broken)",
    ),
    (
        "memory_poisoning",
        "password credential secret api key token cookie ssh env iban bank card",
        (
            rf"\b(?:assistant|agent|bot|you)\b.{{0,30}}\b(?:pastes?|includes?|adds?|posts?|"
            rf"files?)\b.{{0,40}}{_SECRETS}|\bpreference that\b.{{0,20}}{_SECRETS}"
        ),
    ),
    # ways out
    (
        "secret_exfiltration",
        "password credential secret api key token cookie ssh aws id_rsa environ env card credit bank iban",
        rf"\b{_SEND}\b.{{0,60}}{_SECRETS}.{{0,60}}\b(?:to|in|into|at|on|as|through|via|by)\b.{{0,40}}{_PLACE}",
    ),
    (
        "secret_exfiltration",
        "send forward post upload mail transmit submit share leak exfil",
        (
            rf"\b{_SEND}\b.{{0,40}}(?:{_PRIVATE}|every file\b|/etc/passwd|~/\.ssh|~/\.aws|"
            rf"contents? of [~/.]).{{0,60}}{_PLACE}"
        ),
    ),
    (
        "secret_exfiltration",
        (
            "password credential secret api key token cookie ssh aws id_rsa environ env card credit bank iban "
            "passwd history memory conversation chat message files"
        ),
        (
            rf"\b(?:read|collect|look up|get|encode|base64 encode|cat|take)\b.{{0,60}}(?:{_SECRETS}|{_PRIVATE}|"
            rf"/etc/passwd|~/\.\w{1, 20}|chat history|memory).{{0,80}}\b(?:{_SEND}|it to me|pipe|get request)\b"
        ),
    ),
    (
        "secret_exfiltration",
        "password credential secret api key token cookie ssh aws id_rsa environ env card credit bank iban",
        (
            rf"\b(?:include|add|put|append|share|forward|leak|exfiltrate|send)\b (?:the |all |stored |your |my |"
            rf"user'?s? |admin |every |session )*{_SECRETS}\b.{{0,60}}(?:\b(?:next|outgoing|every|each) (?:search|"
            rf"request|query|answer|bug report)|{_PLACE}|\bto (?:me|us|the \w+ bot)\b)"
        ),
    ),
    (
        "secret_exfiltration",
        "exfiltrat dns leak",
        (
            r"\bexfiltrat(?:e|ing) (?:the|all|user|this|data)|\bleak\b.{0,40}\b(?:through|via|by) dns\b|"
            r"\bdns lookups? of the form"
        ),
    ),
    (
        "secret_exfiltration",
        "curl wget netcat ncat nc",
        (
            r"\b(?:cat|env|printenv|pg_dump|tar|history)\b[^\n]{0,80}\|\s*(?:curl|wget|nc|ncat|netcat)\b|"
            r"\bcurl\b[^\n]{0,80}(?:-d|--data\w*(?:-binary)?|-f|-t)\s*[\"']?(?:@-|@~|@/etc|\$\(|`|@\.env)|"
            r"\bpiping it to nc\b"
        ),
    ),
    (
        "markdown_beacon",
        "![ <img",
        (
            r"(?:!\[[^\]]{0,300}\]\(|<img[^>]{0,40}src=[\"']?)\s*https?://[^)\s\"'>]{0,300}[?&][\w-]{1,64}=[^)\"'>]{0,300}(?:\{\{?|\$\{|"
            r"<[a-z]|\[[a-z_]+\]|%7b|url_encoded|placeholder|=x\))"
        ),
    ),
    (
        "markdown_beacon",
        "](",
        (
            r"\b(?:append|finish|end|include|render|show|add|put)\b.{0,120}(?:!\[[^\]]{0,300}\]|"
            r"\[[^\]]{0,300}\])\(https?://[^)\s]{0,300}[?&][\w-]{1,64}=(?:[^)]{0,300}(?:history|secret|insert|context|user|conversation|"
            r"memory|message|key)|x\b)"
        ),
    ),
    # rubino's
    (
        "exfiltration_url_credentials",
        "://",
        (
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@<>\[{$]{1,128}:(?!(?:password|pass|pwd|secret|token|xxx+|\*+|"
            r"\.\.\.|<|\{|\$|\[)[^@]{0,3}@)[^\s/@<>\[{$]{1,256}@[\w.-]"
        ),
    ),
    (
        "exfiltration_pipe_to_shell",
        "curl wget fetch iex invoke",
        r"\b(?:curl|wget|fetch)\b[^\n|"
        r"]{0,300}\|\s*(?:sudo\s+)?(?:-\w+\s+)*(?:/(?:usr/)?bin/)?(?:env\s+)?(?:ba|z|da|k|fi)?sh\b|\b(?:curl|"
        r"wget)\b[^\n|]{0,300}\|\s*sudo\s+(?:-\w\s+)*(?:ba|z|da|k)?sh\b"
        r"|\b(?:curl|wget)\b[^\n|]{0,300}\|\s*(?:sudo\s+)?(?:python[23]?|perl|ruby|node|php)\b|\b(?:(?:ba|z|"
        r"da|k)?sh|source|eval|python[23]?|perl|ruby|\.)\s*(?:-c\s*)?[\"']?\s*(?:<\s*\(|\$\(|`)\s*(?:curl|"
        r"wget)\b"
        r"|\b(?:iwr|irm|invoke-webrequest|invoke-restmethod)\b[^\n]{0,200}\|\s*(?:iex|invoke-expression)\b|"
        r"\biex\b.{0,60}\bdownloadstring",
    ),
)

# The words of other languages are folded as the texts are.
_UNHEED_IN = {
    "de": (
        (
            r"(?:ignorier\w*|missacht\w*|vergiss|vergesst|vergessen sie|uberschreib\w*|umgeh\w*|verwirf|"
            r"halte? dich nicht an)"
        ),
        (
            r"(?:anweisung|instruktion|regel|richtlinie|vorgabe|befehl|was (?:dir|ihnen|man dir)|"
            r"alles (?:bisherige|vorherige|was))"
        ),
    ),
    "fr": (
        (
            r"(?:ignore[zr]?|oublie[zr]?|neglige[zr]?|ne (?:tiens|tenez) (?:pas|aucun) compte|desobei\w*|"
            r"contourne[zr]?)"
        ),
        r"(?:instruction|consigne|regle|directive|tout ce qui precede|indications? (?:ci-dessus|precedente))",
    ),
    "es": (
        (
            r"(?:ignor[ae]n?|olvid[ae]n?|descart[ae]n?|no (?:hagas|haga|hagan) caso|desobede\w*|pasa por alto|"
            r"omite)"
        ),
        r"(?:instruccion|indicacion|regla|directri|ordenes|todo lo (?:anterior|que))",
    ),
    "it": (
        r"(?:ignora(?:te|re)?|dimentica(?:te|re)?|trascura|disobbedisci|non (?:seguire|tenere conto))",
        r"(?:istruzion|regole|direttiv|indicazion|ordini|tutto (?:quello|cio) che)",
    ),
    "pt": (
        r"(?:ignor[ea]m?|esque[cç]a\w*|esquece|desconsider[ea]|nao (?:siga|obedeca)|desobede\w*)",
        r"(?:instruc|regras|diretriz|indicac|ordens|tudo o que)",
    ),
    "nl": (
        r"(?:negeer|vergeet|overtreed|omzeil|volg niet)",
        r"(?:instructie|regels|richtlijn|opdracht|aanwijzing|alles wat)",
    ),
    "pl": (
        r"(?:z?ignoruj\w*|zapomnij\w*|pomin\w*|nie (?:przestrzegaj|sluchaj))",
        r"(?:instrukc|polecen|zasad|wytyczn|regul|wszystk\w+,? co)",
    ),
    "ru": (
        r"(?:игнорируй\w*|проигнорируй\w*|забудь\w*|не (?:следуй|слушай|выполняй)\w*|отбрось\w*|нарушай)",
        r"(?:инструкци|указани|правил|команд|распоряжени|вс[её],? что)",
    ),
}
_UNHEED_NEEDS = {
    "de": "ignorier missacht vergiss vergesst vergessen~sie uberschreib umgeh verwirf halte~dich halt~dich",
    "fr": "ignor oublie neglige compte desobei contourne",
    "es": "ignor olvid descart caso desobed pasa~por~alto omite",
    "it": "ignora dimentica trascura disobbed seguire tenere~conto",
    "pt": "ignor esqueca esquece desconsider siga obedeca desobed",
    "nl": "negeer vergeet overtreed omzeil volg~niet",
    "pl": "ignoruj zignoruj zapomnij pomin przestrzegaj sluchaj",
    "ru": "игнорируй проигнорируй забудь следуй слушай выполняй отбрось нарушай",
}
_STANDING_NEEDS = {
    "de": "sofort von~nun~an jetzt kunftig zukunft immer",
    "fr": "maintenant desormais dorenavant toujours",
    "es": "ahora siempre",
    "it": "d'ora da~ora~in~poi adesso sempre",
    "pt": "agora sempre",
    "nl": "vanaf~nu voortaan altijd",
    "pl": "od~teraz od~tej~pory zawsze odtad",
    "ru": "момента отныне всегда впредь",
    "zh": "从现在 今后 以后 总是 始终 从此",
    "ja": "今後 これから 今から 常に 必ず",
}
_WHOSE_IN = {
    "de": r"alle|bisherig|vorherig|obig|fruher|vorig|deine|dir|ihre|regeln\.",
    "fr": r"precedent|ci-dessus|ci dessus|anterieur|toutes|tes |vos |que l'on t|qu'on t|donnee|precede",
    "es": r"anterior|previa|arriba|todas|tus |recibid|todo lo|sus ",
    "it": r"precedent|sopra|tutte|tue |ricevut|tutto|che ti",
    "pt": r"anterior|acima|todas|suas|recebe|tudo|que te|que voce",
    "nl": r"eerder|vorige|bovenstaand|alle|je hebt|jouw|je is|je eerder",
    "pl": r"poprzedn|powyzsz|wczesniej|wszystk|swo|otrzyma|ktor",
    "ru": r"предыдущ|прежн|выше|все |вс[её],|тебе|твои|раньше|ранее|полученн",
}
_ELSEWHERE = r"(?:https?:|[\w.+-]{1,64}@[\w-]{1,64}\.)"
_STANDING_IN = {
    "de": (
        r"(?:ab sofort|von nun an|ab jetzt|kunftig|in zukunft|immer)",
        r"(?:schick|sende|leite|weiterleit|ubermittel|kopier)",
    ),
    "fr": (
        r"(?:a partir de maintenant|desormais|dorenavant|toujours)",
        r"(?:envoi|envoy|transmet|transfer|transfere|copie|partage)",
    ),
    "es": (
        r"(?:a partir de ahora|desde ahora|de ahora en adelante|siempre)",
        r"(?:envi|reenvi|manda|transmit|copia|comparte)",
    ),
    "it": (r"(?:d'ora in poi|da ora in poi|da adesso|sempre)", r"(?:invia|inoltra|manda|trasmett|copia|condivid)"),
    "pt": (
        r"(?:a partir de agora|de agora em diante|desde agora|sempre)",
        r"(?:envi|encaminh|mande|transmit|copi|compartilh)",
    ),
    "nl": (r"(?:vanaf nu|voortaan|altijd)", r"(?:stuur|verstuur|doorstur|zend|mail|deel)"),
    "pl": (r"(?:od teraz|od tej pory|zawsze|odtad)", r"(?:wysylaj|przesylaj|przekazuj|kopiuj)"),
    "ru": (
        r"(?:с этого момента|отныне|теперь всегда|всегда|впредь)",
        r"(?:отправляй|пересылай|высылай|передавай|копируй)",
    ),
    "zh": (r"(?:从现在|今后|以后|总是|始终|从此)", r"(?:发送|转发|发给|传送|上传)"),
    "ja": (r"(?:今後|これから|今から|常に|必ず)", r"(?:送信|転送|送って|アップロード)"),
}
_FREE_IN = (
    (
        "ohne freier bose uneingeschrankt",
        (
            r"\bohne (?:jede |alle )?(?:einschrankung|beschrankung|filter|regeln|grenzen)\w*.{0,40}\b(?:antwort|"
            r"beantwort)\w*|\b(?:modell|assistent|ki)\b.{0,20}\bohne (?:jede )?(?:einschrankung|filter|regeln|"
            r"grenzen)|\bantworte?\b.{0,30}\bohne (?:jede )?(?:einschrankung|filter|regeln)|\bdu bist (?:jetzt|"
            r"nun|ab sofort) ein (?:freier?|bose\w*|uneingeschrankt\w*)"
        ),
    ),
    (
        "sans",
        (
            r"\b(?:repond\w*|assistant|modele|agis)\b.{0,30}\bsans (?:aucune? )?(?:limite|restriction|filtre|"
            r"regle)"
        ),
    ),
    (
        "sin",
        (
            r"\b(?:respond\w*|asistente|modelo|actua)\b.{0,30}\bsin (?:ningun\w* )?(?:limite|restriccion|filtro|"
            r"regla)"
        ),
    ),
    (
        "senza",
        (
            r"\b(?:rispond\w*|assistente|modello|agisci)\b.{0,30}\bsenza (?:alcun\w* )?(?:limit|restrizion|filtr|"
            r"regol)"
        ),
    ),
    ("sem", r"\b(?:respond\w*|assistente|modelo|aja)\b.{0,30}\bsem (?:nenhum\w* )?(?:limite|restric|filtro|regra)"),
    ("zonder", r"\b(?:antwoord|assistent|model)\b.{0,30}\bzonder (?:enige )?(?:beperking|filter|regels|grenzen)"),
    ("bez", r"\b(?:odpowiada\w*|asystent\w*|model\w*)\b.{0,30}\bbez (?:zadnych )?(?:ogranicz|filtr|zasad)"),
    ("без", r"(?:отвечай|ассистент|модель|помощник).{0,30}без (?:всяких |каких-либо )?(?:ограничени|фильтр|правил)"),
    ("限制 约束", r"(?:没有|不受|无).{0,4}(?:限制|约束).{0,6}(?:助手|模型|回答|地)|不受任何限制"),
    ("制限", r"制限(?:なし|のない|無し).{0,6}(?:答|回答|アシスタント|モデル)"),
)
_PROMPT_IN = (
    "systemprompt system-prompt systeemprompt systeme sistema systemow системн 系统提示 システムプロンプト",
    r"(?:gib|zeig\w*|nenn\w*|verrat\w*|affiche\w*|montre\w*|revele\w*|muestra\w*|revela\w*|mostra\w*|"
    r"mostr[ea]\w*|rivela\w*|toon|geef|pokaz\w*|ujawnij|wypisz|покажи\w*|выведи\w*|раскрой\w*)\b.{0,30}"
    r"(?:system-? ?prompt|systeemprompt|prompt (?:systeme|del? sistema|di sistema|systemowy)|"
    r"mensaje del? sistema|системн\w+ (?:промпт|запрос))"
    r"|(?:输出|显示|告诉我|透露).{0,8}系统提示|系统提示.{0,8}(?:输出|显示|告诉)|システムプロンプト.{0,8}(?:教え|表示|出力|見せ)",
)
_ASIAN = (
    (
        "忽略 无视 忘记 忘掉 不要理会",
        r"(?:忽略|无视|忘记|忘掉|不要理会)(?!.{0,4}(?:浇|带|关)).{0,10}(?:指令|指示|规则|提示|之前的一切|以上所有|一切)",
    ),
    ("無視 忘れ", r"(?:指示|命令|ルール|指令|規則)(?:を|は)?.{0,8}(?:無視|忘れ)|(?:無視)し.{0,6}(?:次の|以下)"),
)
_KEPT_QUIET = (
    "nichts rien nada niente niets nic ничего",
    (
        r"\bsag\w*\b.{0,20}\b(?:benutzer|nutzer|anwender)\b.{0,10}\bnichts\b|\bne (?:dis|"
        r"dites)\b.{0,20}\brien\b.{0,20}\butilisateur|\bno (?:le )?digas\b.{0,20}\bnada\b.{0,20}\busuario|"
        r"\bnon dire\b.{0,20}\b(?:niente|nulla)\b.{0,20}\butente"
    ),
)
_PASSWORDS_IN = r"(?:passw|kennwort|mots? de passe|contrasen|senhas?|wachtwoord|hasl|парол|密码|パスワード)"


def _patterns() -> Iterator[Pattern]:
    for label, needs, pattern in _ENGLISH:
        yield Pattern(label, _needs(needs), Gated(pattern, re.DOTALL))
    for language, (verbs, objects) in _UNHEED_IN.items():
        whose = fold(_WHOSE_IN[language])
        pattern = rf"(?<!\w){fold(verbs)}(?=.{{0,60}}(?:{whose})).{{0,60}}{fold(objects)}"
        yield Pattern("prompt_injection", _needs(_UNHEED_NEEDS[language]), Gated(pattern))
    far = rf"(?:{_ELSEWHERE}|{fold(_PASSWORDS_IN)})"
    for language, (starts, sends) in _STANDING_IN.items():
        start, send = fold(starts), fold(sends)
        orders = (
            rf"(?:{start}.{{0,60}}{send}|{send}.{{0,60}}{start}).{{0,120}}{_ELSEWHERE}|"
            rf"{start}.{{0,60}}{far}.{{0,60}}{send}"
        )
        yield Pattern("memory_poisoning", _needs(_STANDING_NEEDS[language]), Gated(orders))
    for needs, pattern in (*_FREE_IN, _PROMPT_IN, *_ASIAN):
        yield Pattern("prompt_injection", _needs(needs), Gated(fold(pattern)))
    yield Pattern("memory_poisoning", _needs(_KEPT_QUIET[0]), Gated(fold(_KEPT_QUIET[1])))


def _needs(words: str) -> tuple[str, ...]:
    return tuple(fold(each).replace("~", " ") for each in words.split())


PATTERNS = tuple(_patterns())
