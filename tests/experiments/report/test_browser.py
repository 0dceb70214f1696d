"""The page in a browser: all of it draws, nothing complains; phones, paper and browsers without scripts are served."""

from __future__ import annotations

import pytest

from banditmips.experiments.report import write_report
from banditmips.experiments.report.charts import FIGURE_TITLES
from banditmips.experiments.rows import ROWS_FILE

# Charts are drawn when they come into view; each is waited for, and brought into view again should a chart that was
# drawn above it have pushed it out before the browser looked.
DRAW_ALL = """(async () => {
    document.documentElement.style.scrollBehavior = "auto";
    for (const panel of document.querySelectorAll(".panel")) {
        while (!panel.classList.contains("drawn")) {
            panel.scrollIntoView();
            await new Promise(done => setTimeout(done, 20));
        }
    }
    scrollTo(0, 0);
})()"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page(browser, made_up_run, tmp_path_factory):
    """The report of the made-up run, without the files beside the page, which no browser needs.

    It asks for the browser first, so that nothing is written if there is none.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("banditmips.experiments.report.write_pictures", lambda chart, directory: None)
        return write_report(made_up_run / ROWS_FILE, tmp_path_factory.mktemp("report"))


def drawn_figures(browser):
    return browser.run(
        """[...document.querySelectorAll(".figure")].filter(figure => {
            const panels = [...figure.querySelectorAll(".panel")];
            return panels.length && panels.every(panel => panel.querySelector(".live svg .scatterlayer .trace path"));
        }).map(figure => figure.id)"""
    )


def check_that_every_figure_draws_without_complaint(page, browser, directory):
    browser.open(page, width=1400)
    assert drawn_figures(browser) == []  # nothing is in view yet: the table comes first
    browser.run(DRAW_ALL)
    assert drawn_figures(browser) == list(FIGURE_TITLES)
    assert browser.run("document.querySelectorAll('.panel').length") >= 40
    hidden = "[...document.querySelectorAll('.still')].every(still => getComputedStyle(still).visibility == 'hidden')"
    assert browser.run(hidden)
    assert browser.run(OVERFLOW) == 0
    assert browser.screenshot("#figure2", directory / "desktop.png").stat().st_size > 50_000
    assert browser.problems == []


def check_that_check_boxes_show_and_hide_curves(page, browser, directory):
    browser.open(page)
    browser.run("document.querySelector('#figure2 .panel').scrollIntoView()")
    browser.run(DRAW_ALL.replace(".panel", "#figure2 .panel"))
    shown = """[...document.querySelectorAll("#figure2 .live")].map(
        chart => chart.querySelectorAll(".scatterlayer .trace").length)"""
    names = """[...new Set([...document.querySelectorAll("#figure2 .live")].flatMap(
        chart => chart.data.filter(trace => trace.visible).map(trace => trace.meta.name)))]"""
    sources = names.replace("meta.name", "meta.source")
    before = browser.run(shown)
    assert min(before) > 10

    def click(selector):
        browser.run(f"document.querySelector('#figure2 .legend {selector}').click()")

    click("input[value=BanditMIPS]")
    assert all(now < then for now, then in zip(browser.run(shown), before, strict=True))
    assert "BanditMIPS" not in browser.run(names)
    assert "BanditMIPS-alpha" in browser.run(names)
    click("button[value=none]")
    assert browser.run(names) == []
    click("button[value=all]")
    assert browser.run(shown) == before
    click("input[value=published]")
    assert set(browser.run(sources)) == {"paper", "ours", "fitted", "reference"}
    assert browser.problems == []


def check_that_hovering_tells_the_values(page, browser, directory):
    browser.open(page)
    browser.run(DRAW_ALL.replace(".panel", "#figure9 .panel").replace("scrollTo(0, 0);", ""))
    point = """(() => { const at = [...document.querySelectorAll("#figure9 .live .points path")].at(-1);
        const box = at.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"""
    x, y = browser.run(point)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x - 30, y=y - 30)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    text = browser.run(
        """(async () => {
            for (let i = 0; i < 100; i++) {
                const label = document.querySelector("#figure9 .hoverlayer .hovertext");
                if (label) { return label.textContent; }
                await new Promise(done => setTimeout(done, 20));
            }
        })()"""
    )
    assert "BanditMIPS" in text
    assert "multiplies" in text
    assert "3 trials" in text


def check_that_a_phone_shows_it_all_without_scrolling_sideways(page, browser, directory):
    browser.open(page, width=400, height=740, phone=True)
    browser.run(DRAW_ALL.replace(".panel", "#figure1 .panel, #figure3 .panel, #beyond_warm_start .panel"))
    assert browser.run("document.querySelectorAll('#figure1 .live svg').length") > 0
    assert browser.run(OVERFLOW) == 0
    cut_off = """[...document.querySelectorAll(".drawn .xtitle, .drawn .ytitle")].filter(title => {
        const [own, whole] = [title, title.closest(".panel")].map(each => each.getBoundingClientRect());
        return title.classList.contains("xtitle") ? own.left < whole.left || own.right > whole.right
            : own.top < whole.top || own.bottom > whole.bottom;
    }).map(title => title.textContent)"""
    assert browser.run(cut_off) == []
    # What is wider than the page scrolls within its own box.
    assert browser.run("[...document.querySelectorAll('table')].every(table => table.closest('.box'))")
    wide = "[...document.querySelectorAll('.panel, .legend, p')].filter(each => each.scrollWidth > innerWidth).length"
    assert browser.run(wide) == 0
    browser.screenshot("#figure1", directory / "phone.png")
    assert browser.problems == []
    browser.open(page, width=320, height=640, phone=True)
    assert browser.run(OVERFLOW) == 0


def check_that_without_scripts_there_are_pictures(page, browser, directory):
    browser.open(page, scripts=False)
    pictures = browser.run(
        """[...document.querySelectorAll(".still")].map(
            still => [still.complete, still.naturalWidth, getComputedStyle(still).visibility])"""
    )
    assert len(pictures) >= 40
    assert all(complete and width > 0 and visibility == "visible" for complete, width, visibility in pictures)
    boxes = browser.run("[...document.querySelectorAll('.legend input')].map(box => getComputedStyle(box).display)")
    assert set(boxes) == {"none"}
    assert browser.run("document.querySelectorAll('.live svg').length") == 0
    assert set(browser.run("[...document.querySelectorAll('.save')].map(link => getComputedStyle(link).display)")) == {
        "none"
    }
    browser.screenshot("#figure3", directory / "no-scripts.png")


def check_that_every_picture_can_be_saved(page, browser, directory):
    browser.open(page)
    browser.run(DRAW_ALL.replace(".panel", "#figure9 .panel"))
    link = browser.run("(link => [link.href, link.download])(document.querySelector('#figure9 .save'))")
    assert link[0].startswith("data:image/svg+xml,<svg")
    assert link[1] == "figure9-0.svg"


def check_that_paper_gets_the_pictures(page, browser, directory):
    browser.open(page)
    browser.run(DRAW_ALL.replace(".panel", "#figure1 .panel"))
    browser.call("Emulation.setEmulatedMedia", media="print")
    still, live = browser.run(
        """["#figure1 .still", "#figure1 .live"].map(each => {
            const style = getComputedStyle(document.querySelector(each));
            return [style.visibility, style.display];
        })"""
    )
    browser.call("Emulation.setEmulatedMedia", media="")
    assert still == ["visible", "block"]
    assert live[1] == "none"
    assert browser.print(directory / "page.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_in_a_browser(page, browser, tmp_path):
    """All checks in one test: workers that share them out would each write the page and start a browser."""
    for check in (
        check_that_every_figure_draws_without_complaint,
        check_that_check_boxes_show_and_hide_curves,
        check_that_hovering_tells_the_values,
        check_that_a_phone_shows_it_all_without_scrolling_sideways,
        check_that_without_scripts_there_are_pictures,
        check_that_every_picture_can_be_saved,
        check_that_paper_gets_the_pictures,
    ):
        check(page, browser, tmp_path)
