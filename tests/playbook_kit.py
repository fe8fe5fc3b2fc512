"""What tests of the playbook share."""

from ace.playbook import Add, PlaybookBullet


def bullet(content, **fields):
    return PlaybookBullet(**{"section": "Strategies", "content": content, **fields})


def filled(book, *contents):
    book.commit([Add(bullet=bullet(text), reason="first") for text in contents], author="ana")
    return book
