"""A real Chromium, offline but for this machine's own servers; every request that would leave is recorded."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def chromium_path():
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


@pytest.fixture(scope="session")
def chromium():
    path = chromium_path()
    assert path, "the browser tests need Chromium on PATH (sh tools/chromium.sh installs Debian's)"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.outside, page.faults = [], []
    local = ("file:", "data:", "blob:", "about:", "http://127.0.0.1", "ws://127.0.0.1", "http://localhost")
    page.on("request", lambda r: None if r.url.startswith(local) else page.outside.append(r.url))
    page.on("pageerror", lambda e: page.faults.append(str(e)))
    page.set_default_timeout(30_000)
    yield page
    context.close()
