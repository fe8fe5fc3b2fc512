"""The words that the screen looks for, and the disguises that it sees through."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

LONGEST_WORD = 120
"""Longer ones are broken, so that a pattern has little to go back over."""


def _words(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


PATTERNS: tuple[tuple[str, float, re.Pattern[str]], ...] = (
    (
        "overrides instructions",
        1.0,
        _words(
            r"\b(ignore|disregard|forget|override|set aside|skip)\b[^.]{0,40}\b(previous|prior|above|earlier|preceding|former)\b"
            r"[^.]{0,20}\b(instructions?|rules?|prompts?|directions?|guidelines?|commands?|requests?)\b",
            r"\b(strictly|must|only|always)\b[^.]{0,20}\b(adhere to|obey|comply with|follow)\b[^.]{0,40}\b(this|these|the following|my)\b"
            r"[^.]{0,20}\b(instructions?|orders?|commands?|directives?)\b",
            r"\b(system prompt|new instructions?|jailbreak|developer mode|hidden instructions?)\b",
            r"\b(regardless of|no matter)\b[^.]{0,30}\b(user|task|request|instructions?|asked)\b",
            r"\b(instead of|rather than)\b[^.]{0,20}\b(the (user|original|actual|requested) (task|request|question|goal))\b",
            r"\b(instructions?|rules?|guidance|guidelines?|prompts?|(was|were) asked( for)?|before this line|above)\b[^.]{0,25}\b(no longer"
            r" (matters?|appl(y|ies)|count)|(are|is) (void|outdated|obsolete|revoked|cancelled|superseded))\b",
            r"\b(pay no attention to|drop|abandon|leave aside|never mind)\b[^.]{0,30}\b(the (assignment|task|user|person|request|question)|what (the|was))",
            r"\b(your|the|its) (sole|only|one|single|real|true) (duty|job|task|purpose|valid step|goal|mission)\b",
            r"\byou are now\b|\bfrom now on\b[^.]{0,20}\b(you|act|behave|answer|respond|reply)\b|\b(act|behave|pose) as (the|an?|if you)\b"
            r"[^.]{0,30}\b(assistant|admin\w*|attacker|developer|persona|human)\b|\bpretend (to be|that you)\b|\bwithout (any )?(limits|restrictions|filters)\b",
            r"\b(system|admin|security|developer) (override|note|notice|update|message|alert)\b\s*[:.]",
            # the same command in other languages
            r"\b(ignorier|vergiss|missachte)\w*\b[^.]{0,40}\b(anweisung|befehl|regel)\w*|\b(olvid|ignor)\w+\b[^.]{0,40}\b(instruc[ct]\w+|reglas?|istruzioni)\b|"
            r"\b(oublie|ignore)\w*\b[^.]{0,40}\b(consignes|règles|instructions)\b|\b(negeer|vergeet)\b[^.]{0,40}\b(instructies|regels)\b|"
            r"\b(ignora|dimentica)\b[^.]{0,40}\bistruzioni\b|忽略.{0,12}(指令|指示)|(以前|前)の指示を無視|игнориру\w*.{0,30}инструкци\w*",
        ),
    ),
    (
        "speaks like a command",
        0.5,
        _words(r"\bIMPORTANT\s*:", r"\bnothing (more|else)\s*[.!]?$"),
    ),
    (
        "forbids other tools",
        1.0,
        _words(
            r"\b(do not|don't|never|without)\b[^.]{0,15}\b(use|using|call|calling|touch)\b[^.]{0,15}\b(any )?(other|another|else)\b"
            r"[^.]{0,10}\btools?\b(?! (when|if|unless|once|after|before|until|for)\b)",
            r"\b(only|exclusively|solely)\b[^.]{0,10}\b(use|call|through|by|via|with)\b[^.]{0,12}\bthe\b[^.]{0,40}\btool\b",
            r"\bno other tools?\b",
        ),
    ),
    (
        "hides something from the user",
        1.0,
        _words(
            r"\b(do not|don't|never|without)\b[^.]{0,15}\b(tell|telling|inform|informing|notify|notifying|mention|mentioning|alert|alerting|"
            r"reveal|revealing|disclose|disclosing)\b[^.]{0,15}\b(the )?(user|owner|customer|client|patient|operator|admin|anyone|"
            r"anybody|human|consent|permission)\b",
            r"\b(undetected|unnoticed|undetectable|stealth\w*|covert\w*|secretly|discreetly|surreptitiously|clandestine\w*|on the quiet|"
            r"behind (his|her|their|the) backs?)\b",
            r"\b(skip|bypass|omit|without|disable|turn off|no need for)\b[^.,]{0,20}\b(confirmation|approval|permission dialogs?|consent|"
            r"sign-?off|second look)\b|\b(pre-?approved|always (grant|approve|accept)|answer '?yes'? to every|the user never minds)\b",
            r"\b(avoid|evad\w+|escape|without|not be|isn't|is not|goes?)\b[^.]{0,15}\b(detect\w*|suspicion|monitoring|oversight|notice)\b",
            r"\b(hide|hides|hiding|conceal\w*|cover up|covering up|erase|erasing|remove)\b[^.,]{0,20}\b(traces|tracks|evidence|any trace) of\b|"
            r"\b(hide|conceal)\w*[^.,]{0,20}\b(access|activity|identity)\b",
        ),
    ),
    (
        "a transcript, not a lesson",
        1.0,
        _words(
            r"(^|[\n;.]\s{0,3})(agent|assistant|system|user|human)\s*:\s",
            r"['\"]tool_use['\"]|\bworkflow\s*:\s*\[|['\"]function['\"]\s*:|<\|?(system|im_start|assistant)",
            r"\banswer\s*:\s*task (is )?(complete|done)|\[INST\]|### ?(instruction|system)",
            r"(^|[\n;.]\s{0,3})(task|query)\s*:[^\n]{5,400}(workflow|plan|steps?|tools?|actions?)\s*:",
            r"\b(task|request|booking|order|work|question)\b[^.]{0,25}\b(is|has been|was)\b[^.]{0,12}\b(finished|done|completed?|solved|fulfilled)\b[^.]{0,20}[.!]"
            r"\s+(now|next|then|proceed|carry|as a)\b|(^|\n)\s{0,3}(great|done|perfect)\s*[!,.]",
            r"\bis switched to executing\b|\[\S{0,80}ollama/",
        ),
    ),
    (
        "names a harm",
        1.0,
        _words(
            r"\b(steal\w*|theft|thef\b|(data|information) leak\w*|leak(s|ed|ing)? (data|information|the)|exfiltrat\w*|sabotag\w*|tamper\w*|falsif\w*|fraud\w*|forge|forging|forgery|counterfeit\w*|"
            r"plagiari\w*|phish\w*|malware|malicious|ransomware|spyware|keylog\w*|backdoor\w*|trojan|hijack\w*|ponzi|launder\w*|brib\w*|blackmail\w*|"
            r"extort\w*|insider trading|quackery|spoof\w*|eavesdrop\w*|surveil\w*|unlawful\w*|illegal\w*|illicit\w*|mislead\w*|"
            r"deceiv\w*|deception|decepti\w*|(operation|service)s? interruptions?|disinformation|misinformation|(credential|data|e-?mail|identity|password)s? ?harvest\w*|"
            r"manipulat\w* (data|records?|results?|logs?|prices?|markets?)|(data|market) ?manipulation|breach\w*|jailbreak\w*|deprivation|"
            r"discriminat\w+|false (claims?|diagnos\w+|data|information|reports?)|misdiagnos\w*|overcharg\w*|impersonat\w*|"
            r"fabricat\w*|embezzl\w*|smuggl\w*|crash (the|a|its) (server|system|service))\b",
        ),
    ),
    (
        "may name a harm",
        0.5,
        _words(
            r"\b(harvest(ing|s|ed)?|wip(e|es|ed|ing)|biased?|overload\w*|intercept\w*|disrupt\w*|divert\w*|diversion|interruptions?)\b"
        ),
    ),
    (
        "sends data away",
        1.0,
        _words(
            r"\b(send|forward|upload|export|post|copy|transfer|bcc|share|transmit)\b[^.]{0,60}\b(external|third[- ]party|outside|remote|attacker\w*|"
            r"unknown|my own)\b[^.]{0,20}\b(server|address|account|site|url|endpoint|party|drive|part(y|ies)|e-?mail)\b"
            r"(?! (that |which )?the user (names|gives|asks|wants))",
            r"https?://(?!127\.)\d{1,3}(\.\d{1,3}){3}|https?://\S{1,120}\s[^.]{0,20}\b(followed by|with) (the|your) (result|answer|conversation|history|key)|\bcurl\b[^.]{0,40}\|\s*(ba|z)?sh|\bbase64\b[^.]{0,20}\b(decode|-d)\b",
            r"\b(b?cc|copy|copies|forward|attach|push|upload|transfer|pay|wire|refunds? go|grant|requests? from)\b[^\n]{0,80}"
            r"(?<![\w.])([\w.+-]{1,64}@(?!example\.)[\w-]+\.\w{2,}|https?://(?!localhost|127\.|(\w+\.)?example\.)\S+|0x[0-9a-fA-F]{4,}|[A-Z]{2}\d{2} ?(\d{4} ?)+)",
            r"(?<![\w.])[\w.+-]{1,64}@(?!example\.)[\w-]+\.\w{2,}\b[^.]{0,20}\b(in|as|to|on) b?cc\b",
            r"!\[[^\]]{0,200}\]\(https?://|\becho [A-Za-z0-9+/]{8,}={0,2}\b[^.]{0,40}\b(shell|sh|bash|run)\b|\bonly in base64\b",
            r"\b(send|forward|upload|post|paste|include|attach|publish|share)\b[^.]{0,40}\b(card numbers|phone numbers|session tokens?|address book|"
            r"contact list|client list|payroll|chat history|conversation so far|\.env|answer key|unpublished)\b",
            r"\b(send|forward|upload|post|paste|include)\b[^.]{0,40}\b(passwords?|api keys?|secrets?|private keys?|credentials)\b[^.]{0,30}\bto\b",
        ),
    ),
    (
        "puts one in the place of another",
        1.0,
        _words(
            r"\b(treat(ed)?|answer(ed)?|handle[ds]?|count(ed)?|read|interpret(ed)?)\b[^.]{0,50}\b(as if (they|he|she|it|you)|as (queries|requests|orders|questions)"
            r" (about|for|of|from))\b|\bwhen(ever)? (the user|somebody|anyone|a user)\b[^.]{0,60}\b(mentions?|says?)\b[^.]{0,80}\b(instead|as if)\b",
        ),
    ),
    (
        "fixes one case",
        0.5,
        _words(
            r"\b(id|ids|identifier|no\.|number|code|account|case|ref(erence)?|ticket)[ :#=]{1,3}(is |of )?['\"(]?(?=[A-Z-]{0,4}\d)[A-Z0-9-]{4,}\b",
            r"\b[A-Z]{1,3}\d{4,}\b",
        ),
    ),
)

ASSETS = _words(
    r"\b(patients?|medical|clinical|medications?|prescriptions?|prescribed|treatments?|therap\w+|psycholog\w+|mental health|"
    r"health ?(care|records?|management)|insurance claims?|insulin|surger(y|ies)|surgical|diagnos[ei]s (provided|of|for|to)|dos(es|age)\b|care plans?)\b",
    r"\b(students?|grades?|grading|exams?|tuition|scholarships?|admissions?|academic|thesis|coursework|school records?)\b",
    r"\b(legal|lawsuits?|litigation|attorneys?|lawyers?|contractual|(create|draft|sign|review|formulat\w+) [^.]{0,30}contracts?|contract (formulation|"
    r"clauses?|fraud)|court (case|records?|filings?)|intellectual property|patents?|copyrights?|legal counsel|digital evidence|non-disclosure|case id|trademarks?)\b",
    r"\b((e-?mail|web|database|backup|accounting|mainframe|company|dns|file) servers?|server \(?id|mainframe|dns records|(company|corporate|it|computer)"
    r" networks?|network (traffic|for|access|security|resources?)|firewalls?|(research|customer|entire|company) databases?|database (of|maintenance|"
    r"management|security|server)|system (logs?|backup|process\w*|resources?|stability|integrity|clean-?up|shutdown)|logs? on the|operating systems?|"
    r"user (rights|privileges|permissions)|(unauthori[sz]ed )?access (controls?|attempts?|rights|privileges)|unauthori[sz]ed|vulnerabilit\w+|"
    r"security (audits?|checks?|tests?|scans?|measures?|reviews?|patch\w*|polic\w+)|cyber\w*|system'?s security)\b",
    r"\b(vehicles?|vehicle-to-everything|aircrafts?|aerospace|flight (paths?|data|plans?|systems?|controls?|simulat\w+)|satellites?|spacecraft|"
    r"engine (components?|id|integrity)|lidar|sensor data|autonomous|braking|avionics|control systems?|collision|rockets?)\b",
    r"\b(investors?|investments?|investing|securities|portfolios?|financial (data|statements?|records?|information|reports?|model|operations of|"
    r"accounts?|discrepanc\w+)|accounting records|bank accounts?|loan applications?|trad(e|ing) securities|trading strateg\w+|company id|account id|market data|"
    r"[^.]{0,12}transactions? (from|of|for|by) (account|company|client))\b",
    r"\b(confidential\w*|proprietary|sensitive (information|records?|documents?)|personal (data|information|records?)|private data|"
    r"customer (data|information|records?)|client (data|information|records?|id|files?)|identity (protection|theft)|employee (data|records?))\b",
    r"\b(research (data|databases?|papers?|findings?|work|projects?)|researchers?|publications?|citations?|peer[- ]review\w*|"
    r"institutional repositor\w+|conference websites?|scholarly|academic papers?|paper id|journal)\b",
    r"\b((marketing|sales|campaign|consumer|supplier) data|promotional campaigns?|inventory (audit|theft|records)|brand integrity)\b",
)
WARDED = _words(
    r"\b(detect\w*|report\w*|scan\w*|check\w*|avoid\w*|prevent\w*|flag\w*|against|refus\w+|suspect\w*|suspicious|if [^.]{0,30} is|no|not|never|don't)\s+(\w+\s+){0,2}$"
)
READS = re.compile(r"(?:\w+\.)*(get|find|list|lookup|look|search|show|read|view|count|describe)(_[a-z0-9_]+)?")
"""A tool that reads, by its name: looking at what people depend on is what most tasks are about."""
_CAMEL = r"""[`'"“]?([A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*)(?![A-Za-z0-9]|'s)[`'"”]?"""
USED = (
    re.compile(
        r"(?i:\b(?:use|uses|using|used|call|calls|calling|called|run|runs|running|invoke|invoking|via|with|through|by|employ|employing|let|"
        r"rely on|relying on|choose|pick|from)\s+(?:the\s+)?)" + _CAMEL
    ),
    re.compile(_CAMEL + r"(?i:\s+(?:tool|software|utility|plugin|helps|is the|lets|can be|works)\b)"),
    re.compile(_CAMEL + r"(?=\()"),
    re.compile(r"[(:>→-]\s*" + _CAMEL + r"(?=\s*(?:[),;]|$))"),
    re.compile(r"""(?i:tool_use['"]?\s*:\s*\[[^\]]{0,400}?)['"](\w+)['"]"""),
    re.compile(r"""[`'"“]?\b([A-Za-z]\w*(?:_\w+)+|(?<=[`'"“])[A-Za-z]\w*)[`'"”]?\s+(?i:tool)\b"""),
)
ERROR = re.compile(r"(Error|Errors|Exception|Type|Warning)$")
ORDINARY = frozenset(
    "a an any appropriate available correct each every first given its last matching new next one only other right same same-named search second "  # noqa: SIM905
    "single such that the this external necessary relevant required suitable analysis specific dedicated wrong another tool".split()
)
CAMEL_NAME = re.compile(r"[A-Z]?[a-z0-9]+[A-Z]|[A-Z][a-z]")
CHANGES = _words(
    r"\b(add|adjust|alter|approve|book|buy|cancel|change|charge|close|copy|cut|delete|disable|download|dump|edit|enter|extend|fake|forward|give|"
    r"grant|halt|hide|inflate|inject|insert|leave|lift|lower|mark|merge|modify|move|open|override|pay|port|post|publish|push|put|raise|record|"
    r"redirect|reduce|release|remove|rename|replace|report|reset|restrict|revoke|sell|send|set|share|shift|shut|slow|start|stop|submit|suspend|"
    r"swap|switch|take|tell|transfer|trip|turn|unlock|update|use|withdraw|write)(s|es|d|ed|ing|ting|ping)?\b"
)


_LOOKALIKES = str.maketrans("аеорсухікмтнвАЕОРСУХІКМТНВοανερτικ", "aeopcyxikmtnbAEOPCYXIKMTHBoaveptik")
_LEET = str.maketrans("013457$", "oieasts")


def plain(text: str) -> str:
    """The text in one alphabet's letters, without invisible ones, and in pieces that no pattern takes long over."""
    text = re.sub(r"[\u00ad\u200b-\u200f\u2060\ufeff]", "", unicodedata.normalize("NFKC", text))
    text = re.sub(r"[^\S\n]{2,}", "  ", re.sub(r"\s*\n\s*", "\n", text))
    return re.sub(rf"\S{{{LONGEST_WORD}}}", r"\g<0> ", text)


def unmasked(text: str, names: Collection[str] = ()) -> str:
    """A plain text without disguises: letters that look alike, digits for letters, letters with spaces between them.

    Args:
        text: What `plain` made.
        names: Words that are what they are.
    """
    # a word that mixes alphabets is a disguise; one in its own alphabet is a word
    text = re.sub(r"\w+", lambda word: _latin(word.group(0)), text)
    text = re.sub(r"\b(?:\w ){3,}\w\b", lambda letters: letters.group(0).replace(" ", ""), text)
    return re.sub(r"\b[a-zA-Z]+[013457$][a-zA-Z013457$]*[a-zA-Z]\b", lambda word: _unleet(word.group(0), names), text)


def _latin(word: str) -> str:
    return word.translate(_LOOKALIKES) if not word.isascii() and re.search("[A-Za-z]", word) else word


def _unleet(word: str, names: Collection[str]) -> str:
    # `sha256sum` and `Route53Lookup` are names, `prev1ous` is not
    rare = len(re.findall(r"[013457$]+", word)) * 4 <= len(word) and len(word) > 5
    return word.translate(_LEET) if rare and word not in names and not re.search("[a-z0-9][A-Z]", word) else word


def spelled_out(text: str) -> str:
    """CamelCase and snake_case names as words: a tool's name tells its purpose."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"(?<=[A-Za-z0-9])[_.](?=[A-Za-z0-9])", " ", spaced)
