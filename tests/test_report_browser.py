"""The report in a real browser, where Chromium, its driver and selenium are installed."""

import base64
import json
from dataclasses import asdict

import pytest
from browser_helpers import needs_browser, open_browser, set_screen
from report_helpers import ATTACK, all_records, make_record, write_records

from tatml_paper.extras import pyplot
from tatml_paper.report.figures import Picture, save_png
from tatml_paper.report.page import write_report
from tatml_paper.report.pictures import MANIFEST

try:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError:  # then needs_browser skips all of it
    pass

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = write_records(tmp_path_factory.mktemp("report"), all_records())
    pictures = (folder / MANIFEST).parent
    pictures.mkdir()
    save_png(pictures / "wide.png", pyplot().figure(figsize=(12, 1)))
    picture = Picture("wide.png", "A wide picture", "Wide", False, "digits", "Pictures")
    listed = json.dumps([asdict(picture)])
    (folder / MANIFEST).write_text(listed, encoding="utf-8")
    return write_report(folder)


@pytest.fixture
def page(browser, report):
    set_screen(browser, 1200, 900)
    browser.get_log("browser")
    browser.get(report.as_uri())
    return browser


def rows_of(page, table):
    return page.execute_script(
        "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
        ".filter((row) => !row.hidden).map((row) => [...row.cells].map((c) => c.innerText.trim()))",
        table,
    )


def open_all(page):
    page.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")


def header(page, table, title):
    found = page.find_elements(By.CSS_SELECTOR, f"#{table} thead th")
    return next(th for th in found if th.text.strip().startswith(title))


def numbers(page, table, place):
    return [float(row[place].split()[0].replace("−", "-")) for row in rows_of(page, table)]


def test_it_opens_without_errors_and_without_a_request(page):
    assert page.get_log("browser") == []
    assert page.execute_script("return window.problems") == []
    entries = page.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in entries if not name.startswith("data:")] == []
    assert page.title.startswith("TATML")


def test_the_watch_would_notice(page):
    page.execute_script("alert(3); setTimeout(() => { throw new Error('seen'); }, 0)")
    page.execute_async_script("setTimeout(arguments[0], 50)")
    assert page.execute_script("return window.problems")[0] == "alert 3"
    assert any("seen" in entry["message"] for entry in page.get_log("browser"))


def test_all_images_are_loaded(page):
    widths = page.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert len(widths) == 13
    assert all(width > 0 for width in widths)


def test_a_press_on_a_title_sorts_by_number_up_then_down(page):
    open_all(page)
    before = numbers(page, "comparison", 4)
    assert before != sorted(before)
    title = header(page, "comparison", "Accuracy")
    title.find_element(By.TAG_NAME, "button").click()
    assert numbers(page, "comparison", 4) == sorted(before)
    assert title.get_attribute("aria-sort") == "ascending"
    title.find_element(By.TAG_NAME, "button").click()
    assert numbers(page, "comparison", 4) == sorted(before, reverse=True)
    assert title.get_attribute("aria-sort") == "descending"


def test_negative_numbers_sort_below_positive_ones_and_missing_ones_go_last(page):
    open_all(page)
    button = header(page, "comparison", "Fixed").find_element(By.TAG_NAME, "button")
    for press in range(2):
        button.click()
        shown = [row[9] for row in rows_of(page, "comparison")]
        count = sum(text == "–" for text in shown)
        assert 0 < count < len(shown)
        assert set(shown[-count:]) == {"–"}
        values = [float(text.rstrip(" °").replace("−", "-")) for text in shown[:-count]]
        assert values == sorted(values, reverse=press == 1)


def test_the_keyboard_sorts_too_and_one_column_at_a_time(page):
    open_all(page)
    header(page, "runs", "Data").find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    title = header(page, "runs", "Accuracy")
    title.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    accuracies = numbers(page, "runs", 5)
    assert accuracies == sorted(accuracies)
    assert title.get_attribute("aria-sort") == "ascending"
    assert header(page, "runs", "Data").get_attribute("aria-sort") == "none"


def test_focus_is_visible(page):
    button = header(page, "overview", "Method").find_element(By.TAG_NAME, "button")
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    page.execute_script("arguments[0].focus({focusVisible: true})", button)
    outline = page.execute_script("return getComputedStyle(arguments[0]).outlineWidth", button)
    assert float(outline.removesuffix("px")) >= 2


def tools(page, table):
    return page.find_element(By.CSS_SELECTOR, f'.tools[data-for="{table}"]')


def labelled(page, table, label):
    found = tools(page, table).find_elements(By.TAG_NAME, "label")
    control = next(one for one in found if one.text.lower().startswith(label))
    return control.find_element(By.CSS_SELECTOR, "select, input")


def test_choosing_hides_the_other_rows(page):
    open_all(page)
    everything = rows_of(page, "comparison")
    Select(labelled(page, "comparison", "data")).select_by_visible_text("Virus")
    Select(labelled(page, "comparison", "features")).select_by_visible_text("one scale (100 %)")
    chosen = [row for row in everything if row[1:3] == ["Virus", "one scale (100 %)"]]
    assert rows_of(page, "comparison") == chosen
    assert len(chosen) == 5
    Select(labelled(page, "comparison", "method")).select_by_visible_text("TATML*")
    assert [row[0].split("\n")[0] for row in rows_of(page, "comparison")] == ["TATML*"]
    count = tools(page, "comparison").find_element(By.TAG_NAME, "output").text
    assert count == f"1 of {len(everything)} rows"


def test_words_choose_rows_that_have_them_all(page):
    labelled(page, "overview", "search").send_keys("TATML fixed")
    assert [row[0].split("\n")[0] for row in rows_of(page, "overview")] == ["TATML*"]
    labelled(page, "overview", "search").send_keys(" nothing-has-this")
    assert rows_of(page, "overview") == []


def test_sorting_keeps_what_was_chosen(page):
    open_all(page)
    labelled(page, "comparison", "search").send_keys("brodatz")
    before = rows_of(page, "comparison")
    header(page, "comparison", "Accuracy").find_element(By.TAG_NAME, "button").click()
    assert sorted(map(tuple, rows_of(page, "comparison"))) == sorted(map(tuple, before))


def test_what_records_hold_stays_inert(page):
    open_all(page)
    options = Select(labelled(page, "comparison", "method")).options
    assert ATTACK in [option.text for option in options]
    Select(labelled(page, "comparison", "method")).select_by_visible_text(ATTACK)
    assert len(rows_of(page, "comparison")) == 1
    page.execute_async_script("setTimeout(arguments[0], 50)")
    assert page.execute_script("return window.problems") == []
    assert page.execute_script("return document.scripts.length") == 1
    injected = "return document.querySelectorAll('[onerror], img[src=x]').length"
    assert page.execute_script(injected) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_the_page_without_scrolling_sideways(page, scheme):
    set_screen(page, 360, 740, scheme)
    open_all(page)
    assert page.execute_script("return document.documentElement.scrollWidth") == 360
    assert page.execute_script("return document.body.scrollWidth") <= 360
    boxes = page.execute_script(
        "return [...document.querySelectorAll('.scroll')]"
        ".map((box) => [box.clientWidth, box.scrollWidth])"
    )
    assert all(inside <= 360 for inside, _ in boxes)
    assert any(wide > inside for inside, wide in boxes)  # tables do scroll, in their boxes


def test_no_column_is_cut_on_a_desktop(page):
    """All tables that are open fit; the list of all runs scrolls in its box once it is opened."""
    set_screen(page, 1280, 900)
    boxes = page.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter((box) => !box.closest('details'))"
        ".map((box) => [box.querySelector('table').id, box.clientWidth, box.scrollWidth])"
    )
    assert len(boxes) >= 7
    assert [name for name, inside, wide in boxes if wide > inside] == []


CONTRAST = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = (e) => { for (; e; e = e.parentElement) {
  const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
  return [255, 255, 255]; };
const worst = [21, ""];
for (const e of document.querySelectorAll("body *:not(script)")) {
  if (!e.textContent.trim() || !e.offsetParent) continue;
  const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst[0]) { worst[0] = ratio; worst[1] = e.outerHTML.slice(0, 80); }
}
return worst;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page, scheme):
    set_screen(page, 1200, 900, scheme)
    ratio, where = page.execute_script(CONTRAST)
    assert 4.5 <= ratio < 21, where


def test_light_and_dark_differ(page):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(ground)
    set_screen(page, 1200, 900, "dark")
    assert page.execute_script(ground) != light


def test_it_prints_its_tables_whole(page):
    set_screen(page, 700, 1000, "light", media="print")  # a sheet without its margins
    assert page.execute_script("return document.documentElement.scrollWidth") <= 700
    boxes = (
        "return [...document.querySelectorAll('.scroll')].map(b => getComputedStyle(b).maxHeight)"
    )
    assert set(page.execute_script(boxes)) == {"none"}
    assert not tools(page, "overview").is_displayed()
    printed = page.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(printed).startswith(b"%PDF")


def test_without_scripts_all_is_there(browser, report):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(report.as_uri())
        assert len(browser.find_elements(By.CSS_SELECTOR, "#overview tbody tr")) == 6
        assert not tools(browser, "overview").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_many_runs_stay_quick_to_handle(browser, tmp_path):
    records = [make_record("euc", repeat, 50 + repeat % 37) for repeat in range(2000)]
    page = write_report(write_records(tmp_path, records))
    assert page.stat().st_size < 5e6
    browser.get(page.as_uri())
    open_all(browser)
    header(browser, "runs", "Accuracy").find_element(By.TAG_NAME, "button").click()
    accuracies = numbers(browser, "runs", 5)
    assert len(accuracies) == 2000
    assert accuracies == sorted(accuracies)
