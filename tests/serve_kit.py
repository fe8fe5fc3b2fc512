"""What tests of the served memory share."""

import re
import threading
import time
from contextlib import contextmanager

import httpx
from conftest import letters

from ace import Policy, ReActGenerator, tool
from ace.playbook import CallableEmbedder, Playbook
from ace.serve import People, Person, WebServer, web_app
from ace.testing import ScriptedLM, decision


def conversation(order="o-17", tool="refund", task="Refund the order {}", answer="done"):
    call = {"id": "c1", "function": {"name": tool, "arguments": f'{{"order": "{order}"}}'}}
    return [
        {"role": "user", "content": task.format(order)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": answer},
        {"role": "assistant", "content": "Refunded."},
    ]


TOKENS = {
    "token-of-ana-0123456789": Person("ana"),
    "token-of-ben-0123456789": Person("ben", tenant="shop"),
    "token-of-cleo-0123456789": Person("cleo", tenant="bank"),
    "token-of-dan-0123456789": Person("dan", read_only=True),
}


@contextmanager
def served(book, tokens=None, *, people=None, **options):
    """A real server on loopback, in a thread; gives its address."""
    server = WebServer(web_app(book, people or People(tokens or TOKENS), **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield server.url
    finally:
        server.server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def browser_of(name, url):
    """A client with the cookie of somebody who has shown a token."""
    token = next(token for token, person in TOKENS.items() if person.name == name)
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        assert client.post("/login", data={"token": token}).status_code == 200
        yield client


def send(client, path, **fields):
    """A form as the page itself sends it, with the page's secret."""
    secret = re.search(r'name="csrf" value="([^"]+)"', client.get("/").text)[1]
    return client.post(path, data={"csrf": secret, **fields}, headers={"origin": str(client.base_url).rstrip("/")})


THINGS = [
    "boat",
    "garden",
    "kitchen",
    "window",
    "bridge",
    "river",
    "mountain",
    "school",
    "hospital",
    "airport",
    "bakery",
    "library",
    "castle",
    "museum",
    "stadium",
]
ACTS = [
    "paint",
    "clean",
    "repair",
    "measure",
    "photograph",
    "describe",
    "visit",
    "decorate",
    "sell",
    "rent",
    "insure",
    "inspect",
    "heat",
    "cool",
]
WHEN = ["spring", "summer", "autumn", "winter"]
PEOPLE = ["nurses", "pilots", "farmers", "students"]


def lesson(worker, number):
    """A conversation that teaches a lesson of its own, in words that no other one has in this order."""
    place = ["ana", "ben", "cleo", "dan"].index(worker) if worker in ("ana", "ben", "cleo", "dan") else 0
    thing, act = THINGS[number % 15], ACTS[number // 15 % 14]
    task = f"Please {act} the {thing} of the {PEOPLE[place]} before {WHEN[number // 210 % 4]} begins"
    return conversation(f"o-{number}", f"handle_{worker}{number:04d}", task)


def refunding(book, runs):
    """An agent that refunds o-9, and keeps its runs."""

    @tool
    def refund(order: str) -> str:
        """Refund an order."""
        return f"{order} <b>refunded</b>"

    script = [decision("refund", order="o-9"), decision("finish", answer="done")]
    return ReActGenerator(tools=[refund], playbook=book, lm=ScriptedLM(script), policy=Policy.lenient(), run_store=runs)


def run_of(number, family):
    """A run of a family, numbered."""
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        out = refunding(book, None).run(f"Refund order o-{number} of {family}")
    return out.model_copy(update={"run_id": f"r-{number}"})
