"""Two people and four agents on one PostgreSQL book see each other's changes within a second."""

import asyncio
import threading
import time
from contextlib import ExitStack

import httpx
from conftest import letters
from databases import fresh_database
from serve_kit import TOKENS, conversation, served

from ace.playbook import CallableEmbedder, Playbook
from ace.serve import SharedMemory
from ace.serve.live import Live

WITHIN = 1.0


class Watcher:
    """Reads a live feed, and notes when it saw which revision."""

    def __init__(self, url):
        self.seen, self._client = {}, httpx.Client(base_url=url, timeout=30)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        headers = {"authorization": f"Bearer {next(iter(TOKENS))}"}
        try:
            with self._client, self._client.stream("GET", "/live", headers=headers) as stream:
                for line in stream.iter_lines():
                    if line.startswith("data:"):
                        self.seen[int(line.removeprefix("data:"))] = time.monotonic()
        except httpx.HTTPError:
            pass  # the server has ended

    def saw(self, revision, since):
        while not (at := [t for seen, t in self.seen.items() if seen >= revision]):
            assert time.monotonic() - since < 5
            time.sleep(0.01)
        return min(at) - since


def test_people_and_agents_see_each_others_changes_within_a_second(postgres):
    database = fresh_database(postgres)

    def opened():
        return Playbook.open(database, embedder=CallableEmbedder("letters", letters))

    with ExitStack() as stack:
        books = [stack.enter_context(opened()) for _ in range(6)]
        addresses = [stack.enter_context(served(book)) for book in books[:2]]
        watchers = [Watcher(address) for address in addresses]
        agents = [SharedMemory(book, author=f"agent-{n}") for n, book in enumerate(books[2:])]
        tasks = ["Refund the order {}", "Paint the boat {}", "Close the window {}", "Water the garden {}"]
        took = []
        for number, (agent, task) in enumerate(zip(agents, tasks, strict=True)):
            done = agent.remember(conversation("o-17", f"tool_{number}", task), True)
            since = time.monotonic()
            took += [watcher.saw(done.revision, since) for watcher in watchers]
            for other in agents:
                while not any(
                    lesson.tools == (f"tool_{number}",) for lesson in other.recall(task.format("o-9")).lessons
                ):
                    assert time.monotonic() - since < 5
                    time.sleep(0.02)
                took.append(time.monotonic() - since)
        for person in books[:2]:
            since = time.monotonic()
            revision = person.review.edit("b-1", content=f"In words of revision {person.revision}.", author="ana")
            took += [watcher.saw(revision, since) for watcher in watchers]
            for other in agents:
                while other.lesson("b-1").content != person.get("b-1").content:
                    assert time.monotonic() - since < 5
                took.append(time.monotonic() - since)
        assert len(took) == 4 * 6 + 2 * 6
        assert max(took) < WITHIN


def test_a_book_out_of_reach_is_followed_again(monkeypatch, caplog):
    from ace.core import PlaybookError

    failures = iter([True, False])

    async def follow(book):
        live, seen = Live(book), []
        async with live.follow():
            async for revision in live.revisions():
                seen.append(revision)
                if len(seen) > 1:
                    break
                await asyncio.sleep(0.6)
                book.add(section="Observations", content="News.")
        return seen

    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        refresh = book.refresh

        def fails():
            if next(failures, False):
                raise PlaybookError("out of reach")
            refresh()

        monkeypatch.setattr(book, "refresh", fails)
        assert asyncio.run(asyncio.wait_for(follow(book), 10)) == [0, 1]
        assert "cannot be followed: out of reach" in caplog.text
