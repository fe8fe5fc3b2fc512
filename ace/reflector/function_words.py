"""Words that tell nothing of what a text is about, by what they are in English."""

FUNCTION_WORDS = frozenset(
    word
    for words in (
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
    for word in words.split()
)
"""In lower case."""
