"""What other people are shown of a person: ``python -m benchmarks.playbook.privacy OUT.json [--values 2000]``.

Faker makes names, e-mails, phones, cards, IBANs, URLs, addresses and ids in seventeen locales; in five of them, requests
about names are in the language of the locale. Each stands in the requests of
verified runs, as an argument, in an answer, or only in the words; half of them in several tasks. A quarter of them have a
tool of their own, so that nobody else's runs are in their lesson; the others share one for each sentence and place. Then
every lesson is rendered as a prompt would show it, and the prompt of a run for somebody else is built. A value leaks when
it stands in one, or a name when one of its words does that is no common English word. The journal and the files of the book
are searched, too.
"""

from __future__ import annotations

import json
import random
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faker import Faker
from rich.console import Console
from rich.progress import track

from ace.core.language import common_words
from ace.learner import Learner
from ace.playbook import Playbook
from ace.playbook.render import render_bullet, render_bullets
from ace.tasks import Feedback
from benchmarks.command import command
from benchmarks.playbook.merge import run

DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
LOCALES: list[str] = DATA["locales"]
SENTENCES: dict[str, list[str]] = DATA["sentences"]
"""By kind."""
OWN_WORDS: dict[str, list[str]] = DATA["own_words"]
"""By script, requests about a name."""
STRICT = ("email", "url", "card", "iban")
KINDS: dict[str, Callable[[Faker], str]] = {
    "name": lambda fake: fake.name(),
    "email": lambda fake: fake.email(),
    "url": lambda fake: fake.url(),
    "phone": lambda fake: fake.phone_number(),
    "card": lambda fake: fake.credit_card_number(),
    "iban": lambda fake: fake.iban(),
    "address": lambda fake: fake.address().replace("\n", ", "),
    "id": lambda fake: fake.bothify("??-####-##"),
}
PLACES = ("argument", "answer", "words")
MOST_TASKS = 8
"""Tasks in which one value stands."""


def planted(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return kind and text of each value; no two alike."""
    rng, found = random.Random(seed), dict[str, str]()
    fakers = [Faker(locale) for locale in LOCALES]
    for number, fake in enumerate(fakers):
        fake.seed_instance(seed + number)
    while len(found) < count:
        kind = list(KINDS)[len(found) % len(KINDS)]
        found.setdefault(KINDS[kind](rng.choice(fakers)), kind)
    return [(kind, text) for text, kind in found.items()]


def learn(book: Playbook, values: list[tuple[str, str]], seed: int) -> None:
    """Learn from runs that hold the values."""
    rng, learner = random.Random(seed), Learner(book)
    jobs: list[tuple[str, str, str, str, str]] = []
    for index, (kind, text) in enumerate(values):
        of_kind = index // len(KINDS)
        for _ in range(1 if of_kind % 2 else rng.randint(2, MOST_TASKS)):
            script = unicodedata.name(text[0], "").split()[0] if kind == "name" else ""
            sentences = OWN_WORDS.get(script, SENTENCES[kind])
            sentence, place = rng.choice(sentences), rng.choice(PLACES)
            shared = f"{script}{kind}_{sentences.index(sentence)}_{place}"
            tool = f"look_up_{index if of_kind % 8 < 2 else shared}"
            jobs.append((kind, text, sentence, place, tool))
    rng.shuffle(jobs)
    for number, job in enumerate(track(jobs, "runs", console=Console(stderr=True)), 1):
        kind, text, sentence, place, tool = job
        args = {kind: text} if place == "argument" else {}
        answer = json.dumps({"id": f"k{number}", "about": text if place == "answer" else "nothing"})
        calls = (
            (tool, args, answer, False),
            ("write_note", {"record": f"k{number}", "note": f"about {number}"}, "done", True),
        )
        ticket = f" (ticket {number})" if rng.random() < 0.5 else ""
        learner.learn(run(sentence.format(v=text) + ticket, number, *calls), Feedback(success=rng.random() < 0.8))


def plain(text: str) -> str:
    """Return the text in lower case, with one space between words."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def parts(kind: str, text: str) -> list[str]:
    """Return what of a value must not be seen: the whole, and of a name each word that is nothing else."""
    words = [word for word in plain(text).replace(".", " ").split() if len(word) > 3 and word.isalpha()]
    return [plain(text), *(w for w in words if kind == "name" and w not in common_words())]


def main(values: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """Learn, look, and return the report."""
    private = planted(values, seed)
    with tempfile.TemporaryDirectory() as folder, Playbook.open(Path(folder) / "book.db") as book:
        learn(book, private, seed)
        prompts = [render_bullet(bullet) for bullet in book.bullets]
        others = {s.format(v=f"someone {n}") for of_kind in SENTENCES.values() for s in of_kind for n in range(3)}
        prompts += [render_bullets(book.retrieve(text)) for text in others]
        shown = plain("\n".join(prompts))
        written = plain("\n".join(json.dumps(e, ensure_ascii=False, default=str) for e in book.history.entries()))
        saved = b"".join(p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()).lower()
    count, leaks, journal, files = Counter(kind for kind, _ in private), Counter[str](), Counter[str](), Counter[str]()
    examples: list[str] = []
    for kind, text in private:
        if any(part in shown for part in parts(kind, text)):
            leaks[kind] += 1
            examples.append(text)
        journal[kind] += plain(text) in written
        files[kind] += text.lower().encode() in saved
    report: dict[str, Any] = {
        "values": len(private),
        "hidden": 1 - sum(leaks.values()) / len(private),
        "hidden_strict": 1 - sum(leaks[k] for k in STRICT) / sum(count[k] for k in STRICT),
        "in_journal": sum(journal.values()),
        "in_files": sum(files.values()),
        "kinds": {k: {"values": count[k], "leaked": leaks[k], "in_journal": journal[k]} for k in KINDS},
        "leaked": examples[:50],
        "lessons": len(prompts) - len(others),
    }
    return report


if __name__ == "__main__":
    command(main)
