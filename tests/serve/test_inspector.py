"""The inspector as a person uses it, in Chromium: by keyboard, narrow and wide, light and dark; pictures are kept."""

import shutil
from contextlib import contextmanager, nullcontext

import pytest
from conftest import ROOT, letters
from serve_kit import TOKENS, conversation, refunding, served

from ace.evaluation import Study, StudyConfig
from ace.evaluation.report.models import BulletEffect
from ace.learner import Learner
from ace.playbook import CallableEmbedder, Playbook
from ace.playbook.render import render_bullet
from ace.serve import SharedMemory
from ace.tasks import Feedback

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PICTURES = ROOT / "test-artefacts"
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"
)
ANA = next(iter(TOKENS))
BROKEN = """() => {
  const found = [], range = document.createRange(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("textarea, script, svg")) continue;
    for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(word);
    }
  }
  return found;
}"""
"""Words of a page that stand on two lines."""


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
    assert page.evaluate(BROKEN) == [], name
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == [], name


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280, 1440])
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
        for path in (
            "/lessons/b-2",
            "/journal",
            "/outdated",
            "/files",
            "/runs",
            "/reports",
            "/lessons/b-77",
            "/",
            "/lessons/new",
        ):
            if path != "/lessons/b-77":  # a page that says "not found" is a message on the console of a browser
                page.goto(f"{url}{path}")
                looked_at(page, f"{name}{path.replace('/', '-').rstrip('-')}")


def pressed(page, name, leads_on=True):
    """Walk with the tab key to a button or a link of that name, and press Enter there."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            with page.expect_navigation() if leads_on else nullcontext():
                page.keyboard.press("Enter")
            return
    raise AssertionError(f"the keyboard does not reach {name!r}")


@needs_chromium
def test_lessons_are_added_imported_approved_edited_and_a_run_taken_back_by_keyboard_alone(chromium, book, tmp_path):
    file = tmp_path / "lessons.jsonl"
    file.write_text('{"id": "b-1", "section": "Strategies", "trigger": "Wax boats", "content": "Use wax."}\n')
    out = refunding(book, tmp_path / "runs").run("Refund the order o-9")
    Learner(book, author="agent").learn(out, Feedback(success=True, text=""))
    with served(book, runs=tmp_path / "runs") as url, opened(chromium, url) as page:
        pressed(page, "Lessons")
        pressed(page, "Write one")
        page.get_by_role("heading", name="A new lesson").wait_for()
        page.locator("textarea[name=trigger]").focus()
        page.keyboard.type("Caulk boats")
        page.keyboard.press("Tab")
        page.keyboard.type("Use oakum.")
        pressed(page, "Add it")
        page.get_by_text("added", exact=True).wait_for()
        added = book.bullets[-1]
        assert (added.trigger, added.content, added.stage) == ("Caulk boats", "Use oakum.", "active")
        pressed(page, "Edit the words", leads_on=False)
        page.keyboard.press("Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type("Caulk any boat")
        pressed(page, "Save")
        page.get_by_role("status").get_by_text("edited").wait_for()
        assert book.get(added.id).trigger == "Caulk any boat"
        page.locator("html[data-keys=ready]").wait_for()
        page.keyboard.press("u")
        page.get_by_text("as at revision").wait_for()
        assert book.get(added.id).trigger == "Caulk boats"
        pressed(page, "Import, export")
        page.locator("input[type=file]").set_input_files(file)
        pressed(page, "Import")
        page.get_by_role("heading", name="1 lesson came in").wait_for()
        looked_at(page, "inspector-import")
        pressed(page, "Approve all 1")
        page.get_by_text("1 approved").wait_for()
        assert (book.bullets[-1].content, book.bullets[-1].stage) == ("Use wax.", "active")
        pressed(page, "Runs")
        looked_at(page, "inspector-runs-there")
        pressed(page, "Refund the order o-9")
        looked_at(page, "inspector-run")
        pressed(page, "The verdict was wrong: take back what it has taught")
        page.get_by_text("taken back, with what it has taught").wait_for()
        assert book.history.verdicts()[out.run_id].success is None


@needs_chromium
def test_a_report_and_the_lessons_that_it_names_lead_to_each_other(chromium, book, tmp_path):
    study = StudyConfig(suite="office", lm="simulated", arms="none,gold", limit=4, out=tmp_path / "office-1")
    shown = {"after": "gold", "seed": None, "n": 7, "difference": 0.2, "interval": (0.1, 0.3)}
    effects = [
        BulletEffect(bullet="b-1", text=render_bullet(book.get("b-1")), **shown),
        BulletEffect(bullet="b-2", text="b-2 of another book", **shown),
    ]
    report = Study(study).run().model_copy(update={"bullets": effects})
    (tmp_path / "office-1" / "report.json").write_text(report.model_dump_json())
    with served(book, reports=tmp_path) as url, opened(chromium, url) as page:
        page.goto(f"{url}/reports/office-1")
        page.get_by_text("what they say").click()
        assert page.get_by_role("link", name="b-2").count() == 0, "the same id, and not the same lesson"
        page.get_by_role("link", name="b-1").click()
        page.get_by_text("7 runs of the arm gold were shown it: +20 points of success (95 %: +10 to +30)").wait_for()
        page.get_by_role("link", name="office-1").click()
        page.get_by_text("what they say").wait_for()


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
