"""A real browser for tests: Debian's Chromium with its driver, through selenium.

Without them the tests are skipped, unless TATML_BROWSER is "required": then they fail. With
TATML_BROWSER=no they are skipped.
"""

import importlib.util
import os
import shutil
import tempfile
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
WANTED = os.environ.get("TATML_BROWSER")
INSTALLED = bool(CHROMIUM and DRIVER and importlib.util.find_spec("selenium"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WATCH = """
window.problems = [];
window.alert = (text) => window.problems.push("alert " + text);
window.addEventListener("error", (event) => window.problems.push(String(event.message)), true);
"""
needs_browser = pytest.mark.skipif(
    WANTED == "no" or not (INSTALLED or WANTED == "required"),
    reason="needs selenium, and Debian's packages chromium and chromium-driver (TATML_BROWSER)",
)


@contextmanager
def open_browser():
    """Start a browser; `window.problems` and its log say what went wrong on a page."""
    assert INSTALLED, "TATML_BROWSER=required, but Chromium, its driver or selenium is missing"
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
            yield driver
        finally:
            driver.quit()


def set_screen(browser, width, height, scheme="light", media=""):
    """Give the page a screen; one narrower than 600 pixels is that of a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
