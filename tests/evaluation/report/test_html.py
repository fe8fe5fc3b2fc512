"""The page: nothing from elsewhere, nothing unescaped, and readable in a real browser, light, dark and on a phone."""

import re
import shutil
from contextlib import contextmanager
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from ace.evaluation import evaluate
from ace.evaluation.log import RunLog
from ace.evaluation.report.findings import calibrations, curve, families, pairs_of, tasks as tasks_of
from ace.evaluation.report.html import MOST_TRACES, html, traces_of
from ace.evaluation.report.models import BulletEffect, ComparisonReport, EvaluateReport, TaskEffect
from ace.evaluation.report.summary import by_domain, comparisons, summarise, ways_closed
from ace.suites.office import OfficeSuite
from ace.testing import SimulatedLM

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = '<script>alert("x")</script><img src=http://127.0.0.1/x>'


class Seen(HTMLParser):
    """Tags and attributes as a browser would find them."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    suite = OfficeSuite()
    tasks = [*suite.tasks[:3], *suite.tasks[40:43], *suite.tasks[80:83]]
    with RunLog(folder / "runs.jsonl") as log:
        arms = ("none", "gold", "online")
        list(evaluate(suite, lambda seed: SimulatedLM(suite, seed=seed), tasks=tasks, arms=arms, seeds=(0, 1), log=log))
        rows = list(log.rows())
        found = tasks_of(pairs_of(rows, "none", "online"))
        hurt = BulletEffect(
            after="online", bullet="b-1", seed=None, n=9, difference=-0.5, interval=(None, 0.1), text=EVIL
        )
        report = EvaluateReport(
            run=f"a {EVIL}",
            suite="office",
            label="simulated",
            policy="forgiving",
            domains={arm: by_domain([row for row in rows if row.arm == arm]) for arm in arms},
            arms=summarise(rows),
            runs=rows,
            comparisons=comparisons(rows),
            closed=ways_closed(rows),
            families=[effect for arm in arms[1:] for effect in families(pairs_of(rows, "none", arm))],
            bullets=[hurt],
            verdicts=["online helped"],
            tasks=found,
            curves=curve(rows, "online"),
            calibrations=calibrations([row.model_copy(update={"confidence": 0.8}) for row in rows]),
        )
        text = html(report, traces_of(report, log))
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_page_needs_nothing_and_runs_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert '<span class="label">simulated</span>' in text
    seen = Seen()
    seen.feed(text)
    assert not seen.tags & {"script", "img", "link", "iframe", "a", "object"}
    assert not seen.attributes & {"src", "href", "srcset", "action", "onclick", "onerror", "onload"}
    assert not re.findall(r"@import|url\(", text)
    assert "default-src 'none'" in text
    assert "&lt;script&gt;" in text
    trace = re.search(r"<h3>online, seed 0</h3><pre>(.*?)</pre>", text, re.S)[1]
    assert "completed" in trace or "max_iterations" in trace
    for title in (
        "Against none",
        "While it learns",
        "Where it helps",
        "Tasks: online against none",
        "online helped",
        "pass^k",
        "Share of the way",
        "Domains, %",
        "80 % sure",
    ):
        assert title in text


def empty_report(**parts):
    return EvaluateReport(run="", suite="", label="", policy="", domains={}, arms={}, runs=[], **parts)


def test_tasks_won_and_lost_have_their_traces_before_equal_ones_whatever_their_arm():
    def tasks(arm, outcomes):
        return [
            TaskEffect(after=arm, id=f"t{n}", group="", outcome=outcome, gained=0, lost=0, n=1, seed=0, bullets=[])
            for n, outcome in enumerate(outcomes)
        ]

    def held(*found):
        """Arm and number of each task whose run in that arm is on the page."""
        report = empty_report(tasks=[task for of in found for task in of])
        runs = [
            (
                SimpleNamespace(arm=task.after, seed=0, id=task.id),
                SimpleNamespace(task=SimpleNamespace(text=""), reasoning_trace="did it"),
                SimpleNamespace(text=""),
            )
            for task in report.tasks
        ]
        traces = traces_of(report, SimpleNamespace(runs=lambda: runs))
        return [(arm, int(name[1:])) for arm, _, name in traces]

    own = ["won"] * 5 + ["lost"] * 5 + ["equal"] * 1_190
    found = held(tasks("a", own), tasks("b", own))
    assert len(found) == MOST_TRACES
    assert {(arm, n) for arm in "ab" for n in range(10)} <= set(found)
    found = held(tasks("a", ["won"] * 1_200), tasks("b", ["won"] * 1_200))
    assert sum(arm == "b" for arm, _ in found) == MOST_TRACES / 2, "the arms take turns"


def test_a_page_tells_which_differences_could_have_shown():
    known, unknown = (
        ComparisonReport(
            metric="success", before="a", after="b", n=1, difference=0, interval=(None, None), p=None, p_corrected=None
        ).model_copy(update={"smallest_effect": effect})
        for effect in (0.2, None)
    )
    for rows, said in (([known], True), ([known, unknown], True), ([unknown], False)):
        text = html(empty_report(comparisons=rows))
        assert ("power of 80 %" in text) == ("<th>could show</th>" in text) == said
        assert "?" not in text.partition("<body>")[2]


@contextmanager
def opened_in_chromium(path, width=1100, scheme="light"):
    """A page in a real browser; it asks for nothing but itself."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            opened = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
            asked, said = [], []
            opened.on("console", lambda message: said.append(message.text))
            opened.on("pageerror", lambda error: said.append(str(error)))
            opened.on("request", lambda request: asked.append(request.url))
            opened.goto(path.as_uri())
            yield opened
            assert (asked, said) == ([path.as_uri()], [])
        finally:
            browser.close()


needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"
)


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_well_in_chromium(page, width, scheme):
    with opened_in_chromium(page, width, scheme) as opened:
        wide, ink, paper = opened.evaluate(
            "() => { const s = getComputedStyle(document.body);"
            " return [document.documentElement.scrollWidth, s.color, s.backgroundColor] }"
        )
        assert wide <= width, "the page itself does not scroll sideways"
        light, dark = (sum(map(int, re.findall(r"\d+", color)[:3])) for color in (ink, paper))
        assert (light < dark) == (scheme == "light")
        assert opened.locator(".dot").count() > 9
        box = opened.locator(".track").first.bounding_box()
        assert box["width"] > 100, "the plot has enough space"
        for outcome in opened.locator("details.outcome").all():
            outcome.evaluate("part => { part.open = true }")
        task = opened.locator("details.outcome details").first
        task.locator("summary").click()
        sides = [side.bounding_box() for side in task.locator(".sides > div").all()]
        assert (sides[0]["y"] == sides[1]["y"]) == (width > 800), "side by side where the page is wide enough"
