"""Style and script load nothing, and the policy of a page allows this script and no other."""

import base64
import hashlib
import re

from reldp.reporting.style import POLICY, SCRIPT, STYLE


def test_nothing_is_loaded():
    assert not re.search(
        r"url\(|@import|https?:|src=|fetch|XMLHttp|eval\(|import\(", STYLE + SCRIPT
    )


def test_the_policy_names_the_script_by_its_hash():
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in POLICY
    assert "default-src 'none'" in POLICY
    assert "unsafe-inline'; script" in POLICY
    assert "unsafe-eval" not in POLICY


def test_every_color_of_the_page_has_a_dark_and_a_printed_form():
    light, dark, *_, printed = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    names = [set(re.findall(r"(--[\w-]+):", block)) for block in (light, dark, printed)]
    assert names[0] == names[1] == names[2]
    assert set(re.findall(r"var\((--[\w-]+)\)", STYLE)) <= names[0]
