"""What tests of the playbook share."""

from conftest import letters

from ace.playbook import Add, CallableEmbedder, Playbook, PlaybookBullet


def opened(path, **options):
    return Playbook.open(path, embedder=CallableEmbedder("letters", letters), **options)


def bullet(content="find the order", **fields):
    """A lesson that a model wrote: what a person wrote is nobody's to retire."""
    return PlaybookBullet(**{"section": "Strategies", "content": content, "words_from": ("model",), **fields})


def filled(book, *contents):
    book.commit([Add(bullet=bullet(text), reason="first") for text in contents], author="ana")
    return book


def bullets(n):
    return [
        Add(bullet=PlaybookBullet(section="Strategies", trigger=f"task {'xyz'[i % 3] * (i + 1)} {i}", content="x"))
        for i in range(n)
    ]


def answers(book):
    return [[b.id for b in book.retrieve(f"task {'xyz'[i % 3] * (i + 1)} {i}")] for i in range(12)]


def strategy(trigger, *tools, **fields):
    return PlaybookBullet(
        section="Strategies", trigger=trigger, content="Do it.", tool_sequence=tools, changing_tools=tools, **fields
    )
