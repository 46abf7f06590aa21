"""A real browser for tests: Debian's Chromium, without a window."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextlib.contextmanager
def chromium() -> Iterator[object]:
    """Yields a browser, or skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here: `apt-get install chromium` lets the tests of the inspector's page run")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: it is in the extra `test`"
    )
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=found, args=list(FLAGS))
