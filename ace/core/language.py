"""Language, all in one place: lists of words by what they do in a sentence, scripts, and how words lose their endings.

No other module holds a list of words of a language; what uses these says what for. What has no list for a language is
neutral in it.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
import zlib
from functools import lru_cache
from importlib import resources
from itertools import chain

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
)
"""Characters of scripts that put no spaces between words (Thai, Lao, Burmese, Khmer, kana, Han), as ranges of a class."""


_BLOCKS = chain(range(0x300, 0x2100), range(0x2CE0, 0x3100), range(0xA600, 0xAC00), range(0xFB00, 0xFE30))
MARKS = "".join(c for c in map(chr, _BLOCKS) if unicodedata.category(c)[0] == "M") + "\u200c\u200d"
"""What belongs to the letter before it, as a character class; Python's ``\\w`` leaves vowel signs out."""
HANGUL = "\uac00-\ud7a3"
"""Korean letters: a word may end in particles, as in \uc774\uc601\ud76c\uc5d0\uac8c, "to Yi Yeong-hui"."""
JOINED = f"\u0590-\u06ff{HANGUL}{UNSPACED}"
"""Characters of scripts that write a word together with its neighbours."""
PREFIXES = (
    "(?:[\u0648\u0641\u0628\u0643\u0644]{0,2}(?:\u0627\u0644)?|[\u05d5\u05d4\u05d1\u05db\u05dc\u05de\u05e9]{0,2})"
)
"""What Arabic and Hebrew write together with the next word: "and", "to", "the" and the like; a part of a pattern."""


def _words(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


FUNCTION_WORDS = _words(
    # articles, demonstratives, quantities
    "a an the this that these those all another any both each either enough every few less least many more most",
    "much neither no none nothing one other others own part same several some such whole",
    # pronouns
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her",
    "hers herself it its itself they them their theirs themselves who whom whose which what anyone anybody",
    "anything everyone everybody everything someone somebody something nobody whoever whatever whichever",
    # prepositions
    "about above across after against along amid among amongst around as at before behind below beneath beside",
    "besides between beyond by despite down during except for from in inside into near of off on onto out",
    "outside over past per since through throughout till to toward towards under underneath until up upon via",
    "with within without due",
    # conjunctions, and what joins sentences
    "and but or nor so yet if unless because although though while whereas whether than then once when whenever",
    "where wherever why how however therefore thus hence moreover otherwise meanwhile nevertheless instead",
    "indeed further",
    # auxiliary and modal verbs, and the little verbs around them
    "am is are was were be been being do does did doing done have has had having can could may might must shall",
    "should will would cannot ought let get gets got give go keep made put seem seems seemed see take please",
    # negation
    "not never n't nowhere neither couldn't don't doesn't didn't isn't aren't wasn't won't can't",
    # adverbs of degree, time and place that stand anywhere
    "again almost alone already also always anyhow anyway anywhere away back else elsewhere even ever",
    "everywhere here hereby just later latter maybe mostly namely now often only perhaps quite rather really",
    "sometime sometimes somehow somewhere soon still there thereby thereafter too together very well afterwards",
    "beforehand formerly",
    # numerals and orders, as words
    "two three four five six seven eight nine ten eleven twelve fifteen twenty forty fifty sixty hundred first",
    "third last next former",
    # what a request or an answer about anything may say
    "amount became become becomes becoming bottom call describe detail empty fill find found front full",
    "interest move name serious show side system top",
    # what stands for a word
    "eg ie etc re vs",
)
"""Words that tell nothing of what a text is about, by what they are; in lower case."""

FUNCTION_WORDS_ELSEWHERE = _words(
    # German
    "der die das den dem des ein eine einen einem einer eines und oder aber mit ohne für von vom zu zum zur im am",
    "auf aus bei nach vor über unter um bis ist sind wird werden hat haben kann bitte ich du er sie es wir ihr mein",
    "meine meinen dein deine unser unsere ihre ihren noch einmal wieder schon auch nur sehr hier dort wenn dass",
    "weil wie was wer wo nicht kein",
    # French
    "le la les un une des du de et ou mais avec sans pour par sur sous dans en au aux chez vers est sont été peut",
    "je tu il elle nous vous ils elles mon ma mes ton ta tes son sa ses notre votre leur ce cette ces qui que quoi",
    "où quand comme encore aussi très ici ne pas plus fois",
    # Spanish
    "el los las unos unas del al y o pero con sin para por sobre bajo entre hasta desde es son está están ha han",
    "puede yo tú él ella nosotros ellos mi mis su sus nuestro nuestra este esta estos estas ese esa que quién qué",
    "dónde cuándo como otra otro vez también muy aquí no favor",
    # Portuguese
    "os as um uma uns umas do da dos das ao à aos às e ou mas com sem por pelo pela sob entre até é são está pode",
    "eu ele ela nós eles elas meu minha seu sua nosso nossa esse essa isso isto quem onde quando outra vez também",
    "muito aqui não",
)
"""The like of German, French, Spanish and Portuguese: a lesson may show them, whoever said them."""

CONNECTING = _words(
    "a an and any are as at be been being but by can could do does each either every for from get gets had has have",
    "he her his how if in into is it its just make makes made may might must of on onto or our out own per she should",
    "so some such than that the their them then there these they this those through thus to up upon us use used using",
    "via was we were what when where whether which while who whose why will with would you your also always already",
    "both even ever here more most much now only other over same still too very before after until first again need",
    "needs ensure ensures please e g eg etc i e",
)
"""Words that two lessons may differ in and teach the same."""

NEGATIVE = _words(
    "not no never nothing none neither nor cannot without except unless avoid refuse stop skip forbid ban exclude",
    "ignore prevent disable disallow deny reject omit hardly rarely false fail fails failed unable impossible unsafe",
    "invalid disabled forbidden excluded refused rejected skipped",
    "nicht nichts kein keine keinen keinem keiner nie niemals ohne",
    "ne pas jamais rien sans aucun aucune",
    "nunca jamás nada sin ningún ninguna",
    "não jamais nem sem nenhum nenhuma",
)
"""Words that negate a meaning, in English, German, French, Spanish and Portuguese."""

_TO_TEN = "zero one two three four five six seven eight nine ten"
_TO_TWENTY = "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
NUMBERS = {word: str(value) for value, word in enumerate(f"{_TO_TEN} {_TO_TWENTY}".split())} | {
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90", "hundred": "100", "thousand": "1000",
    "once": "1x", "twice": "2x", "thrice": "3x", "first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th",
    "half": "0.5", "double": "2x", "triple": "3x", "quarter": "0.25", "dozen": "12", "single": "1", "both": "2",
}  # fmt: skip
"""What a word counts."""

UNITS = _words(
    "second seconds minute minutes hour hours day days week weeks month months year years ms percent eur usd gbp kg",
    "km mb gb tb january february march april may june july august september october november december monday tuesday",
    "wednesday thursday friday saturday sunday morning afternoon evening night daily weekly monthly yearly annually",
    "hourly today tomorrow yesterday",
)
"""Units, months and days."""

FORCES = tuple(
    tuple(frozenset(kind.split()) for kind in kinds.split(" / "))
    for kinds in (
        "must shall should / may might can could",
        "all every each / any / some few several / most",
        "and / or",
        "> / >= ≥ / < / <= ≤",
        "== / !=",
    )
)
"""Words of one kind are synonyms; one kind in the place of another changes what is asked for."""

_PAIRS = """
always/never before/after include/exclude allow/deny allow/forbid allow/refuse allow/block enable/disable
with/without ascending/descending increase/decrease add/remove accept/reject accept/decline first/last oldest/newest
earliest/latest above/below over/under more/fewer more/less most/least longer/shorter up/down upper/lower on/off
open/close opens/closes start/end start/stop true/false public/private sender/recipient sender/receiver
import/export read/write manual/automatic manually/automatically required/optional inclusive/exclusive left/right
source/target buy/sell succeed/fail succeeds/fails success/failure safe/unsafe trust/distrust prefer/avoid
prefers/avoids keep/drop keep/delete keep/discard all/none larger/smaller higher/lower high/low early/late
earlier/later minimum/maximum min/max front/back top/bottom inside/outside internal/external online/offline
encrypt/decrypt lock/unlock show/hide visible/hidden synchronous/asynchronous local/remote inbound/outbound
input/output upload/download credit/debit parent/child lend/borrow push/pull lowercase/uppercase wins/loses
first/second client/server buyer/seller can/cannot possible/impossible available/unavailable cheap/expensive
cheaper/dearer approve/reject join/leave mandatory/optional hot/cold warm/cold wet/dry legal/illegal strict/lenient
sequential/parallel serially/parallel eager/lazy plural/singular relative/absolute narrow/broad narrow/widen
once/repeatedly recommend/discourage strictly/loosely stop/continue pause/resume attach/detach mount/unmount
register/unregister follow/unfollow like/unlike
"""
ANTONYMS = frozenset(frozenset(pair.split("/")) for pair in _PAIRS.split())
"""Pairs of words, each a set of two, that reverse a lesson when one replaces the other."""

EXTREMES = _words("most least first last highest lowest oldest newest longest shortest")
"""Words that choose one of many by its place in an order."""

VERBS = _words("go get do make put give take tell show call move fill keep")
"""Verbs among the words that say little elsewhere."""

NO_REQUESTS = _words(
    "be not i you we they it he she the a an have has had at in on for of with this that and or to look note see",
    "thanks thank find please",
)
"""What stands at the beginning of a clause, or after "please", without asking for something."""

AGREEING = re.compile(
    r"y|yes|yep|yup|yeah|ok|okay|sure|right|correct|fine|good|great|perfect|thanks?|thats|confirm|confirmed|agreed?|ahead|sounds"
    r"|proceed|approved?|absolutely|definitely|certainly|ja|jawohl|genau|gerne|oui|d['’]accord|sí|claro|vale|sim|certo|obrigado"
    r"|gracias|danke|merci|好的?|是的?|可以|对|没问题|はい|お願いします|大丈夫です"
)
"""Words of a user who agrees, also in German, French, Spanish, Portuguese, Chinese and Japanese."""

REFUSING = (
    r"error|errors|failed|failure|invalid|missing|refused|denied|(?-i:[Uu]nknown(?= [a-z]))|unable|"
    r"cannot|could not|must|not (?:\w+ )?(?:found|valid|allowed|provided|permitted|available|supported|exist)|no such|"
    r"does not exist|is required"
)
"""How an answer says that a call was refused; a part of a pattern, as all that follow."""

DONE = (
    r"deleted|removed|cleared|cleaned|created|updated|changed|sent|added|marked|reordered|ordered|booked|cancell?ed|"
    r"saved|moved|assigned|closed|opened|archived|restored|retried|fixed|reported|scheduled|refunded|done|completed|"
    r"succeeded"
)
"""How an answer says what was done."""

FIELD_NAMES = (
    r"\w|api|bic|config|cvv|dob|eta|etag|gtin|guid|hostname|iban|imei|ip|isbn|iso|json|lat|lng|lon|metadata|msg|nr|num|oid|"
    r"params|pnr|qty|sku|sms|ssn|timestamp|timezone|uid|upc|uri|url|username|utc|uuid|vat|vin|zip"
)
"""Names of fields that no list of words has."""

TITLES = (
    "Mr", "Ms", "Mx", "Dr", "St", "Sr", "Fr", "Lt", "Mrs", "Rev", "Hon", "Sgt", "Col", "Mme", "Prof", "Capt", "Dipl",
)  # fmt: skip
"""Before a name, with a full stop."""

MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
EMPHASIS = r"(?:NOT|NO|NEVER|ALL|ANY|ONLY|DO|DON['’]T|MUST|AND|OR|BUT|IF|THE|ASAP|PLEASE)\b"
"""Words that are shouted, and name nobody."""

_ENDINGS = (
    "ations", "ation", "ions", "ion", "ments", "ment", "ings", "ing", "ied", "ies", "ers",
    "er", "ed", "es", "s", "e", "y",
)  # fmt: skip


def stem(word: str) -> str:
    """Cut the ending off a word in lower case: ``refunds`` and ``refunded`` are one.

    Examples:
        >>> stem("refunded"), stem("labelled")
        ('refund', 'labell')
    """
    end = next((e for e in _ENDINGS if word.endswith(e) and len(word) - len(e) >= 3), "")
    return word.removesuffix(end)


def undoubled(stem: str) -> str:
    """Drop the letter that an ending doubles: ``labelled`` is of ``label``.

    Examples:
        >>> undoubled(stem("labelled"))
        'label'
    """
    return stem[:-1] if stem[-1:] == stem[-2:-1] else stem


def name_as_text(name: str) -> str:
    """Separate the words of a name that code gave: ``send_mail`` and ``sendMail``, alone or in a text.

    Examples:
        >>> name_as_text("sendMail or send_mail")
        'send Mail or send mail'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_.]", " ", name))


def stems(text: str) -> frozenset[str]:
    """Find the telling words of a text or of a tool's name, without their endings.

    Examples:
        >>> sorted(stems("sendPayments to the payee"))
        ['pay', 'paye', 'send']
    """
    words = re.findall(r"[^\W\d_]{2,}", name_as_text(text).lower())
    return frozenset(stem(word) for word in words if word not in FUNCTION_WORDS)


FEATURES = 2**20
"""Words and word pairs are hashed to this many values."""
_RUN = re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[\w{MARKS}]){{2,}}")


def search_words(text: str) -> list[str]:
    """Find the words of a text in lower case; where a script has no spaces, its pairs of characters.

    Examples:
        >>> search_words("Mail 3 PDF文件夹")
        ['mail', 'pdf', '文件', '件夹']
    """
    found: list[str] = []
    for run in _RUN.findall(text.lower()):
        unspaced = re.match(f"[{UNSPACED}]", run) is not None and len(run) > 1
        found += [run[i : i + 2] for i in range(len(run) - 1)] if unspaced else [run]
    return found


def column(term: str) -> int:
    """Hash a term to its column; so many words share one that a column alone tells none of them.

    Examples:
        >>> column("refund")
        791640
    """
    return zlib.crc32(term.encode("utf-8", "replace")) % FEATURES


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Load common English words in lower case, without proper names: SCOWL, size 35 (its licence is in ``LICENSE``).

    Examples:
        >>> "refund" in common_words(), "ana" in common_words()
        (True, False)
    """
    packed = resources.files("ace.core").joinpath("words.txt.gz").read_bytes()
    return frozenset(gzip.decompress(packed).decode().split())


def is_foreign(text: str) -> bool:
    """Check whether English knows less than half of a text's words; a capital makes no name of a word there.

    Examples:
        >>> is_foreign("Storniere die Bestellung von Anna"), is_foreign("Cancel Anna's order")
        (True, False)
    """
    words = re.findall(r"\w+", text.lower())
    return 2 * sum(word in common_words() for word in words) < len(words)
