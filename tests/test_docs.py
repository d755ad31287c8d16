"""docs/: code runs, links lead somewhere, and every page can be reached from the README."""

import functools
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted(DOCS.glob("*.md"))]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def anchors(page):
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def links(page):
    """(target file, anchor) of every link of a page that does not leave the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_code_of_the_page_about_extensions_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(DOCS / "extending.md")
    assert len(blocks) >= 5
    exec(compile("\n".join(blocks), "extending.md", "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert printed.startswith("page.MarginLoss\nMRR of knows 0.")
    assert "\nepsilon " in printed
    assert "Proven, under the assumptions of the certificate: (" in printed
    assert " claimed" in printed
    for run in ("run", "run-with-loss", "run-with-types", "run-with-loop", "run-with-encoder"):
        assert (tmp_path / run / "certificate.json").exists()


def test_the_code_about_held_out_entities_runs(tmp_path, monkeypatch, capsys):
    import numpy as np

    import reldp

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    short = functools.partial(reldp.PrivacyPlan.for_graph, num_steps=3)
    monkeypatch.setattr(reldp.PrivacyPlan, "for_graph", short)
    (code,) = (b for b in python_blocks(DOCS / "training.md") if "Holdout" in b)
    count = 3000
    features = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    ring = [(i, (i + 1) % count) for i in range(count)]
    graph = reldp.EntityGraph.from_lists(list(range(count)), ring, features=features)
    names = {"__name__": "page", "reldp": reldp, "graph": graph}
    exec(compile(code, "training.md", "exec"), names | {"encoder": reldp.FeatureEncoder(4)})
    before, after = map(float, capsys.readouterr().out.split())
    assert 0 < before < 1
    assert 0 < after < 1


def test_the_code_of_the_page_about_gradients_runs():
    (code,) = python_blocks(DOCS / "gradients.md")
    names = {"__name__": "page"}
    exec(compile(code, "gradients.md", "exec"), names)
    assert names["result"].sums["weight"].norm() <= 2  # two units, each clipped to norm 1
    assert names["result"].sums["weight"].norm() > 0


def test_the_code_of_the_page_about_graphs_runs(tmp_path, monkeypatch):
    """As it stands: "my graph" is a small damaged graph, and the settings of plans are the page's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "my graph"
    folder.mkdir()
    (folder / "entities.csv").write_text("id,text\na,x\nb,y\nc,z\n")
    (folder / "relations.csv").write_text("source,target\na,b\nb,a\na,q\n")
    blocks = python_blocks(DOCS / "graphs.md")
    names = {"__name__": "page"}
    for block in blocks:
        if "my graph" in block:  # the other blocks go on with the first one's graph
            exec(compile(block, "graphs.md", "exec"), {**names})
        else:
            exec(compile(block, "graphs.md", "exec"), names)
    assert len(blocks) >= 5
    assert names["plan"].status == "proven"
    assert set(names["parts"]) >= {"train", "test"}


def test_the_code_of_the_page_about_large_graphs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "entities.csv").write_text("id,text\na,x\nb,y\nc,z\n")
    (tmp_path / "shop" / "relations.csv").write_text("source,target\na,b\nb,c\n")
    first, second = python_blocks(DOCS / "large-graphs.md")
    asked = []

    class Encoder:
        def table(self, graph, *, tokenize):
            asked.append((graph.num_relations, tokenize))

    names = {"__name__": "page", "encoder": Encoder()}
    exec(compile(first + second, "large-graphs.md", "exec"), names)
    assert asked == [(2, "ahead")]
    assert names["graph"].folder.name == "shop-store"


def test_the_code_about_tables_of_other_libraries_runs():
    text = (DOCS / "graphs.md").read_text()
    section = text.partition("## Tables and graphs of other libraries\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    names = {"__name__": "page"}
    exec(compile("\n".join(blocks), "graphs.md", "exec"), names)
    assert len(blocks) == 2
    assert names["shop"].num_entities == names["by_text"].num_entities == 3
    assert names["table"].num_rows == 2
    for method in re.findall(r"`(?:EntityGraph|graph)\.(\w+)\(", section):
        assert callable(getattr(type(names["shop"]), method)), method


@pytest.mark.filterwarnings(
    "ignore::reldp.training.advice.PoorPlanWarning", "ignore:'pin_memory' argument"
)
def test_the_same_script_of_sentence_transformers_runs_before_and_after(tmp_path, monkeypatch):
    """As it stands, with a tiny model in place of MiniLM."""
    import sentence_transformers

    import reldp
    from tests.integrations.sentence_transformers.small import pairs, tiny

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", lambda name: tiny(tmp_path))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    pairs(1000).to_csv("pairs.csv")
    before, after = python_blocks(DOCS / "coming-from-sentence-transformers.md")
    exec(compile(before, "before", "exec"), {"__name__": "page"})
    assert (tmp_path / "model" / "final" / "modules.json").exists()
    names = {"__name__": "page"}
    exec(compile(after, "after", "exec"), names)
    certificate = reldp.verify(tmp_path / "run").certificate
    assert certificate == names["trainer"].certificate
    assert certificate.epsilon <= 4
    assert (tmp_path / "model-with-certificate" / "certificate.json").exists()


def test_names_of_the_page_about_sentence_transformers_are_those_of_the_code():
    from dataclasses import fields

    from reldp.integrations.sentence_transformers import PrivateTrainingArguments
    from reldp.integrations.sentence_transformers.losses import REFUSED
    from reldp.integrations.sentence_transformers.refusals import ARGUMENTS

    text = (DOCS / "coming-from-sentence-transformers.md").read_text()
    refused = text.partition("## What is refused")[2].partition("\n## ")[0]
    honored = text.partition("## Arguments")[2].partition("## What is refused")[0]
    known = {field.name for field in fields(PrivateTrainingArguments)}
    rows = [row.split(" | ")[0] for row in refused.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named - set(ARGUMENTS) <= {"EarlyStoppingCallback"}
    rows = [row.split(" | ")[0] for row in honored.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named - known == {"dataloader_num_workers"}
    losses = text.partition("## Losses")[2].partition("\n## ")[0]
    rows = [row for row in losses.splitlines() if "| refused" in row]
    named = {name for row in rows for name in re.findall(r"`(\w+Loss)`", row)}
    assert named <= set(REFUSED)


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_loop_that_takes_the_place_of_opacus_runs(tmp_path, monkeypatch, capsys):
    """Opacus is not installed: the script before is compiled and not run."""
    monkeypatch.chdir(tmp_path)
    before, after = python_blocks(DOCS / "coming-from-opacus.md")
    assert "opacus" in before
    assert "opacus" not in after
    exec(compile(after, "coming-from-opacus.md", "exec"), {"__name__": "page"})
    assert "differential privacy for any one entity" in capsys.readouterr().out


GUIDES = ("choosing-epsilon", "customers-and-products", "own-data", "public-negatives")


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
@pytest.mark.parametrize("name", GUIDES)
def test_the_code_of_guides_prints_what_they_show(name, tmp_path, monkeypatch, capsys):
    """Blocks of a page share their names; what stands below one is what it prints."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{name}.md").read_text()
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert any(language == "text" for language, _ in blocks)
    names = {"__name__": "page"}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, f"{name}.md", "exec"), names)
        else:
            assert capsys.readouterr().out == block


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_code_of_the_page_about_training_runs(tmp_path, monkeypatch, capsys):
    """As it stands, but for the size of the batch and the number of steps."""
    from tests.encoders.tiny import write_model
    from tests.training.test_demo import write_graph

    monkeypatch.chdir(tmp_path)
    write_model("bert", tmp_path / "my-model")
    write_graph(tmp_path / "my-graph", 0, 2000)
    code = python_blocks(DOCS / "training.md")[0]
    settings = "expected_batch_size=256, num_steps=1000"
    assert settings in code
    small = code.replace(settings, "expected_batch_size=4, num_steps=2")
    exec(compile(small, "training.md", "exec"), {"__name__": "page"})
    assert "differential privacy" in capsys.readouterr().out


def test_the_code_of_the_page_about_data_runs():
    first, download = python_blocks(DOCS / "data.md")
    names = {"__name__": "page"}
    exec(compile(first, "data.md", "exec"), names)
    assert names["capped"].max_degree == 5
    assert "download_package" in download  # fetches from Debian's archive: compiled and not run


COVERED = {
    *(f"{name}.md" for name in GUIDES),
    *("training.md", "data.md", "extending.md", "gradients.md", "graphs.md", "large-graphs.md"),
    *("coming-from-sentence-transformers.md", "coming-from-opacus.md"),  # above
    *("README.md", "index.md", "first-run.md", "accounting.md"),  # tests/test_readme.py
    "audit.md",  # tests/auditing/test_page.py
}


def test_every_page_with_code_is_run_by_a_test():
    assert {page.name for page in PAGES if python_blocks(page)} == COVERED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_their_anchors_lead_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), target
        if anchor:
            assert anchor in anchors(target), f"{target.name}#{anchor}"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [target for target, _ in links(page) if target.is_file()]
    assert {page.name for page in DOCS.glob("*.md")} <= {page.name for page in reached}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_code_on_pages_can_be_compiled(page):
    for block in python_blocks(page):
        compile(block, page.name, "exec")


def test_modules_that_pages_name_exist():
    missing = []
    for page in PAGES:
        for name in re.findall(r"`(?:src/)?(reldp/[a-z_/]+\.py)`", page.read_text()):
            if not (REPOSITORY / "src" / name).is_file():
                missing.append((page.name, name))
        for name in re.findall(
            r"`((?:tests|benchmarks|examples)/[a-z_0-9/]+\.py)", page.read_text()
        ):
            if not (REPOSITORY / name).is_file():
                missing.append((page.name, name))
    assert missing == []


def test_packages_of_the_architecture_page_are_those_of_the_code():
    source = REPOSITORY / "src" / "reldp"
    text = (DOCS / "architecture.md").read_text().partition("## Packages")[2].partition("## ")[0]
    named = set(re.findall(r"^\| `reldp\.(\w+)` \|", text, flags=re.MULTILINE))
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    assert named == packages | {"plan"}
