"""What a team reads about its own few tasks: the first sentence, the page in a browser, the terminal and Markdown."""

import re

import pytest
from command import ace
from evaluation.report.test_html import needs_chromium, opened_in_chromium
from loopback import openai_server
from suite_shop import write

from ace.testing.engine import render_reply

BEGINNINGS = {
    (3, 8): "On these tasks best helped (simulated): 24 won and 0 lost of 24 against small (exact sign test over tasks "
    "within these 3 families: p < 0.001). Of other families nothing is known yet: an interval needs 4 families, and showing a difference",
    (
        1,
        1,
    ): "These tasks are too few to tell whether best helps more than small (simulated): 1 won and 0 lost of 1 against "
    "small (exact sign test over tasks within this family: p = 1.000). Of other families nothing is known yet",
    (
        6,
        2,
    ): "best helped (simulated): it solved 100 % of runs where small solved 0 %, a difference of +100.0 points (95 %: ",
}


def suite(folder, families, each):
    """Orders to refund, in families."""
    folder.mkdir()
    return write(
        folder,
        (
            {
                "id": f"refund-{family}-{number}",
                "task": f"Refund order o{number % 6}, please, for reason {family}",
                "gold": [{"name": "refund", "args": {"order": f"o{number % 6}"}}],
                "family": f"reason {family}",
            }
            for family in range(families)
            for number in range(each)
        ),
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """By families and tasks of each: what the terminal showed, and the folder with the page."""
    folder, found = tmp_path_factory.mktemp("team"), {}
    with openai_server(lambda prompt: render_reply(reasoning="", answer="done")) as (url, _):
        for shape in BEGINNINGS:
            name = "-".join(map(str, shape))
            own = suite(folder / name, *shape)
            arms = "small=lm:openai/x,best=simulated:oracle"
            words = ["evaluate", own / "tasks.jsonl", "--arms", arms, "--api-base", url, "--workers", 4]
            files = ["--html", own / "report.html", "--markdown", own / "report.md"]
            found[shape] = ace(*words, *files, cwd=folder, COLUMNS="80", NO_COLOR="1"), own
    return found


@pytest.mark.parametrize("shape", BEGINNINGS)
def test_the_first_sentence_says_what_is_known_and_no_cell_is_a_question_mark(reports, shape):
    text, folder = reports[shape]
    flat = " ".join(text.split())
    assert BEGINNINGS[shape] in flat
    assert "?" not in flat
    assert max(map(len, text.replace(str(folder), "").splitlines())) <= 80
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert BEGINNINGS[shape] in page
    assert "?" not in page
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", page)
    assert re.match(r"# \S+: small, best with openai/x, simulated:oracle", page)


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("shape", BEGINNINGS)
def test_the_page_begins_with_the_finding_and_a_picture(reports, shape, width):
    with opened_in_chromium(reports[shape][1] / "report.html", width) as page:
        assert page.locator(".verdict").inner_text().startswith(BEGINNINGS[shape])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("figure").first.bounding_box()["y"] < 800, "the picture is on the first screen"
        cells = [cell.inner_text() for cell in page.locator("td, .value").all()]
        assert "?" not in " ".join(cells)
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", page.locator("p .soft").first.inner_text())
