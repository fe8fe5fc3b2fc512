"""The inspector as a person uses it, in Chromium: by keyboard, narrow and wide, light and dark; pictures are kept."""

import shutil
from contextlib import contextmanager

import pytest
from conftest import ROOT, letters
from serve_kit import TOKENS, conversation, served

from ace.playbook import CallableEmbedder, Playbook
from ace.serve import SharedMemory

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PICTURES = ROOT / "test-artefacts"
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"
)
ANA = next(iter(TOKENS))


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def book():
    with Playbook(embedder=CallableEmbedder("letters", letters)) as book:
        memory = SharedMemory(book, author="agent")
        memory.remember(conversation(), True, domain="shop")
        memory.remember(conversation("o-18", "cancel", "Cancel the order {} at once"), True, domain="shop")
        for run in range(6):
            memory.feedback("b-1", run % 3 > 0, memory.recall("Refund the order o-1").run)
        for n in range(3):
            book.add(section="Strategies", trigger=f"Paint boat {n}", content="Use oil.", trust="tainted", author="mcp")
        book.review.edit("b-2", content="Find the order, then cancel it.", author="bo", note="clearer")
        yield book


@contextmanager
def opened(chromium, url, token=ANA, **options):
    """A page of somebody who has shown a token; it asks nobody else for anything, and says nothing on its console."""
    context = chromium.new_context(**options)
    page, asked, said = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/login?token={token}")
    try:
        yield page
        assert said == []
        assert [address for address in asked if not address.startswith(f"{url}/")] == []
    finally:
        context.close()


def waits(page, count):
    """Wait for the review of so many lessons, and for its keys."""
    page.get_by_role("heading", name=f"{count} wait for review").wait_for()
    page.locator("html[data-keys=ready]").wait_for()


def looked_at(page, name):
    """Take a picture, and look for what would keep somebody from reading."""
    from axe_playwright_python.sync_playwright import Axe

    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], name
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == [], name


@needs_chromium
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_person_finds_a_lesson_reviews_by_keyboard_and_undoes(chromium, book, width, scheme):
    with (
        served(book) as url,
        opened(chromium, url, viewport={"width": width, "height": 900}, color_scheme=scheme) as page,
    ):
        name = f"inspector-{width}-{scheme}"
        page.locator("html[data-keys=ready]").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("Refund the order o-9")
        hit = page.locator('[data-hit="b-1"]')
        hit.get_by_text("place by meaning").wait_for()
        looked_at(page, f"{name}-search")
        hit.get_by_role("link", name="b-1").click()
        page.get_by_role("heading", name="Evidence").wait_for()
        looked_at(page, f"{name}-lesson")
        page.get_by_role("link", name="Review").click()
        waits(page, 3)
        looked_at(page, f"{name}-review")
        page.keyboard.press("j")
        page.keyboard.press("a")
        waits(page, 2)
        assert [book.get(f"b-{n}").stage for n in (3, 4, 5)] == ["quarantined", "active", "quarantined"]
        assert book.history.entries("b-4")[-1]["author"] == "ana"
        page.keyboard.press("u")
        waits(page, 3)
        assert book.get("b-4").stage == "quarantined"
        page.keyboard.press("e")
        page.keyboard.press("Control+a")
        page.keyboard.type("Paint any boat")
        page.get_by_role("button", name="Save").first.click()
        page.get_by_text("Paint any boat").first.wait_for()
        for path in ("/lessons/b-2", "/journal", "/outdated", "/files", "/runs", "/reports", "/lessons/b-77", "/"):
            if path != "/lessons/b-77":  # a page that says "not found" is a message on the console of a browser
                page.goto(f"{url}{path}")
                looked_at(page, f"{name}{path.replace('/', '-').rstrip('-')}")


@needs_chromium
def test_the_theme_that_was_chosen_stays(chromium, book):
    with served(book) as url, opened(chromium, url, color_scheme="light") as page:
        background = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(background) == "rgb(255, 255, 255)"
        page.get_by_role("button", name="Dark or light").click()
        page.goto(f"{url}/journal")
        assert page.evaluate(background) == "rgb(18, 22, 28)"


@needs_chromium
def test_a_page_follows_others_and_never_takes_what_is_being_written(chromium, book):
    with served(book) as url, opened(chromium, url) as page:
        page.goto(f"{url}/review")
        waits(page, 3)
        book.add(section="Strategies", trigger="Paint it red", content="Ask first.", trust="tainted", author="bo")
        page.get_by_role("heading", name="4 wait for review").wait_for(timeout=5_000)
        page.keyboard.press("e")
        page.keyboard.type("half a sentence")
        book.review.approve("b-5", author="bo")
        page.get_by_text("Somebody else has changed the playbook").wait_for()
        assert page.locator("textarea").first.input_value().startswith("half a sentence")
        assert page.get_by_role("heading", name="4 wait for review").is_visible()
        page.get_by_role("link", name="Load again").click()
        waits(page, 3)


@needs_chromium
def test_it_works_without_scripts(chromium, book):
    with served(book) as url, opened(chromium, url, java_script_enabled=False) as page:
        page.get_by_role("searchbox").fill("Refund the order o-9")
        page.keyboard.press("Enter")
        page.locator('[data-hit="b-1"]').wait_for()
        page.goto(f"{url}/review")
        page.get_by_role("button", name="Approve").first.click()
        page.get_by_role("heading", name="2 wait for review").wait_for()


def test_every_page_lies_in_the_package():
    folder = ROOT / "ace" / "serve" / "inspector" / "static"
    assert {file.name for file in folder.iterdir()} >= {"htmx.min.js", "htmx.LICENSE", "style.css", "inspector.js"}
