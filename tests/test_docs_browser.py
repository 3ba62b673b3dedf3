"""The built site in a real browser, at desktop and phone size."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser_helpers import needs_browser, open_browser, set_screen
from docs_helpers import SITE, built_pages, needs_site

pytestmark = [needs_browser, needs_site]

SIZES = {"desktop": (1280, 900), "phone": (360, 740)}
OVERFLOW = """
const wide = [...document.querySelectorAll("html, body, .bd-article-container, .bd-main")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1);
if (!wide.length) return "";
const inner = wide[wide.length - 1], right = inner.getBoundingClientRect().right;
const guilty = [...inner.querySelectorAll("*")]
  .filter((e) => e.getBoundingClientRect().right > right + 1);
const scrolls = (e) => e && e !== inner &&
  (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
return (guilty.filter((e) => !scrolls(e.parentElement))[0] || inner).outerHTML.slice(0, 160);
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with open_browser() as driver:
        yield driver


def requested(browser):
    """Return the addresses that the browser has requested since the last question."""
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }


def errors_of(browser):
    """Return the warnings and errors in the console since the last question."""
    log = browser.get_log("browser")
    return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]


@pytest.mark.parametrize("size", SIZES)
def test_every_page_fits_and_has_no_errors(browser, address, size):
    set_screen(browser, *SIZES[size])
    browser.get_log("browser")
    problems = []
    for path in built_pages():
        name = path.relative_to(SITE).as_posix()
        browser.get(f"{address}/{name}")
        problems += [f"{name}: {message}" for message in errors_of(browser)]
        problems += [f"{name}: {text}" for text in browser.execute_script("return window.problems")]
        if guilty := browser.execute_script(OVERFLOW):
            problems.append(f"{name} is too wide: {guilty}")
    assert not problems, "\n".join(problems[:20])
    assert {url.split("/")[2] for url in requested(browser) if url.startswith("http")} == {
        address.removeprefix("http://")
    }


def test_the_overflow_would_be_noticed(browser, address):
    set_screen(browser, *SIZES["phone"])
    browser.get(f"{address}/index.html")
    assert browser.execute_script(OVERFLOW) == ""
    browser.execute_script(
        "const box = document.createElement('div'); box.textContent = 'wide';"
        "box.style.width = '500px'; document.querySelector('article').append(box)"
    )
    assert "wide" in browser.execute_script(OVERFLOW)


@pytest.mark.parametrize("size", SIZES)
def test_the_search_finds_the_estimator(browser, address, size):
    set_screen(browser, *SIZES[size])
    browser.get(f"{address}/search.html?q=TATML")
    wait = """
    const done = arguments[0], start = Date.now();
    (function look() {
      const links = [...document.querySelectorAll("ul.search li a")];
      const over = document.querySelector(".search-summary")?.innerText.match(/found/i);
      if (!(links.length && over) && Date.now() - start < 15000) setTimeout(look, 100);
      else done(links.map((link) => link.getAttribute("href")));
    })();
    """
    browser.set_script_timeout(20)
    found = browser.execute_async_script(wait)
    assert any(link.startswith("api/tatml.TATML.html") for link in found), found
    assert len(found) > 10
    assert browser.execute_script(OVERFLOW) == ""


def test_pictures_and_the_font_are_loaded(browser, address):
    set_screen(browser, *SIZES["desktop"])
    for name in ("index.html", "tutorials/tables.html", "gallery/index.html"):
        browser.get(f"{address}/{name}")
        widths = browser.execute_script(
            "return [...document.querySelectorAll('article img')].map((i) => i.naturalWidth)"
        )
        assert widths
        assert all(width > 0 for width in widths)
    browser.get(f"{address}/theory.html")
    script = "document.fonts.ready.then(() => arguments[0](document.fonts.check('16px Formulas')))"
    assert browser.execute_async_script(script)
    fonts = "return [...document.fonts].map((font) => [font.family, font.status].join(' '))"
    assert any("Formulas" in font and "loaded" in font for font in browser.execute_script(fonts))


@pytest.mark.parametrize("size", SIZES)
def test_formulas_begin_inside_their_boxes(browser, address, size):
    set_screen(browser, *SIZES[size])
    browser.get(f"{address}/theory.html")
    cut = browser.execute_script("""
        const left = (e) => e.getBoundingClientRect().left;
        return [...document.querySelectorAll("div.formula")]
          .filter((box) => box.scrollLeft || left(box.querySelector("math")) < left(box) - 1)
          .map((box) => box.innerText);
    """)
    assert cut == []
    assert len(browser.find_elements("css selector", "div.formula")) > 30
