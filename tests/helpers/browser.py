"""Opens HTML pages in headless Chromium, for tests of what their scripts do.

    def test_the_page_sorts(browser, tmp_path):
        view = browser.open(path, script='document.querySelector("th").click()')
        assert view.texts("td") == ["1", "2"]

A page must write nothing to the console: errors of scripts and blocked requests fail `open`. Tests
are skipped where there is no Chromium, except with CI=true, where they fail.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)
CONSOLE = re.compile(r'^\[[^\]]*:CONSOLE[:(]\d+\)?\] (".*)$', re.MULTILINE)
VOID = {"meta", "link", "br", "img", "input", "hr", "base", "col", "wbr", "source"}
SECONDS = 60


@dataclass(frozen=True)
class Element:
    """An element of a page after its scripts have run; `text` is that of everything in it."""

    tag: str
    attributes: dict
    text: str


class _Reader(HTMLParser):
    """Collect the elements of a page."""

    def __init__(self):
        super().__init__()
        self.elements = []
        self.open = []

    def handle_starttag(self, tag, attrs):
        entry = (tag, dict(attrs), [])
        self.elements.append(entry)
        if tag not in VOID:
            self.open.append(entry)

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, _, texts in self.open:
            texts.append(data)


@dataclass(frozen=True)
class View:
    """A page as Chromium shows it: its document after the scripts, and a PNG image."""

    dom: str
    screenshot: bytes

    def elements(self, tag, **attributes):
        """Return the elements with a tag and attributes, in the order of the page.

        `class_` stands for `class`, and holds if the element has this class among others.
        """
        reader = _Reader()
        reader.feed(self.dom)
        elements = [Element(name, held, "".join(t)) for name, held, t in reader.elements]
        return [
            element
            for element in elements
            if element.tag == tag
            and all(_holds(element, name, value) for name, value in attributes.items())
        ]

    def texts(self, tag, **attributes):
        return [element.text for element in self.elements(tag, **attributes)]


def _holds(element, name, value):
    actual = element.attributes.get(name.rstrip("_").replace("_", "-"))
    if name == "class_":
        return value in (actual or "").split()
    return actual == value


class Browser:
    """Runs Chromium once for each page, with an empty profile."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.num_pages = 0

    def open(self, page, *, script="", width=1000, height=800, is_dark=False):
        """Return a page, a path or HTML text, after its scripts and this script have run."""
        self.num_pages += 1
        folder = self.folder / str(self.num_pages)
        folder.mkdir()
        text = page.read_text() if isinstance(page, Path) else page
        if script:
            text = text.replace("</body>", f"<script>{{{script}}}</script></body>")
        (folder / "page.html").write_text(text)
        arguments = [
            *OPTIONS,
            *(["--blink-settings=preferredColorScheme=0"] if is_dark else []),
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},{height}",
            f"--screenshot={folder / 'page.png'}",
            "--dump-dom",
            (folder / "page.html").as_uri(),
        ]
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, timeout=SECONDS
        )
        messages = CONSOLE.findall(done.stderr)
        assert not messages, f"the page wrote to the console: {messages}"
        assert done.returncode == 0, done.stderr
        return View(done.stdout, (folder / "page.png").read_bytes())


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return what opens pages in headless Chromium."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is not None:
        return Browser(program, tmp_path_factory.mktemp("browser"))
    reason = "there is no Chromium: install it to test pages (Debian: apt-get install chromium)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
