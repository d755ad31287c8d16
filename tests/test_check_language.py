"""scripts/check_language.py: what it reports, what it lets pass, and that it reads the list of words."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "scripts" / "check_language.py"


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_language", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def words_of(checker, tmp_path):
    """A function that writes a file and returns the words reported in it."""

    def words(text, name="sample.py"):
        path = tmp_path / name
        path.write_text(text)
        return [hit.word for hit in checker.hits_in_file(path, checker.read_word_list())]

    return words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""Coins of a step."""', ["coins"]),
        ("x = 1  # as the user told us", ["told"]),
        ('x = {"not_private": 1}', ["not_private"]),
        ('"""These values are not\n    private."""', ["not\n    private"]),
        ("# losses are not\n# private\n", ["not\n# private"]),
        ("coin_values = []", ["coin"]),
        ("class PriceRow: pass", ["price"]),
        ('f"{x} fillers"', ["fillers"]),
        ('"""Its behaviour is normalised."""', ["behaviour", "normalised"]),
        ("found = 1", ["found"]),
        ("for own in rows: pass", ["own"]),
        ("def most_units(): pass", ["most_units"]),
        ("self.most_rows = 1", ["most_rows"]),
        ("_MOST_STEPS = 5", ["_MOST_STEPS"]),
        ("class Frame: pass", ["Frame"]),
        ("class Row:\n    kept: int", ["kept"]),
        ("def f(*, ends): pass", ["ends"]),
        ("import numpy as others", ["others"]),
        ("try:\n    pass\nexcept OSError as found:\n    pass", ["found"]),
        ("if (piece := 1): pass", ["piece"]),
        ("[0 for every in rows]", ["every"]),
    ],
)
def test_words_that_readers_do_not_know_are_reported(words_of, text, expected):
    assert words_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""A frame of reference that is found in every piece; most others have their own ends."""',
        "table = pd.DataFrame(rows)",
        "class DataFrameReader: pass",
        "spot = match.found",  # somebody else's name is only used
        "torch.roll(x, shift=1)",
        'option = "--price-list"',
        "epsilon = plan.price().epsilon",
        "almost_equal = True",
        "foundation = profound = 1",
        '"""The history of a storyboard; pricey, untold, coined, companies."""',
        '"""Privacy losses are sensitive, not privately known. Analyses of noise; the parser raises."""',
        "otherwise = ends_with = 1",
    ],
)
def test_ordinary_words_pass(words_of, text):
    assert words_of(text) == []


def test_module_names_count(words_of):
    assert words_of("", name="frames.py") == ["frames"]
    assert words_of("", name="price.py") == ["price"]


def test_markdown_is_checked_and_its_python_too(words_of):
    page = "Ordinary others.\n\n```python\nkept = 1\n```\n\n```\nkept = 1\n```\n\nA coin.\n"
    assert words_of(page, name="page.md") == ["kept", "coin"]


def test_each_report_names_the_line_and_the_word_to_use(checker, tmp_path, capsys):
    path = tmp_path / "sample.py"
    path.write_text("a = 1\ncoins = 2\n")
    assert checker.main([str(path)]) == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert line.endswith("sample.py:2: 'coins'; say random draw, sampling stream, PRNG key")


def test_the_exit_code_tells_scripts(tmp_path):
    path = tmp_path / "sample.md"
    for text, code in (("A coin.", 1), ("A random draw.", 0)):
        path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, check=False)
        assert done.returncode == code


def test_a_path_that_does_not_exist_is_an_error(checker, tmp_path):
    with pytest.raises(SystemExit, match="no such file"):
        checker.main([str(tmp_path / "missing")])


def test_a_list_that_cannot_be_read_is_an_error(checker, tmp_path):
    page = tmp_path / "language.md"
    for text in (
        "# Language\n",
        f"{checker.HEADING}\n\n| a | b | c |\n|---|---|---|\n| x | y | z |\n",
    ):
        page.write_text(text)
        with pytest.raises(SystemExit, match="cannot be read"):
            checker.read_word_list(page)


def test_exceptions_have_reasons_and_exist(checker):
    assert all(reason for reason in (*checker.EXCLUDED.values(), *checker.ALLOWED.values()))
    assert all((REPOSITORY / path).exists() for path in (*checker.EXCLUDED, *checker.COVERED))
    assert len(checker.EXCLUDED) + len(checker.ALLOWED) <= 10
