"""The browser that scripts/test-browser installs."""

import os
import sys
from pathlib import Path

import pytest

HOME = Path(sys.prefix) / "browser"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--in-process-gpu"),
    *("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
]


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    environment = {"LD_LIBRARY_PATH": str(HOME / "lib"), "FONTCONFIG_PATH": str(HOME)}
    program = os.environ.get("RELDP_CHROMIUM", str(HOME / "chromium"))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=ARGUMENTS, env={**os.environ, **environment}
        )
        yield opened
        opened.close()
