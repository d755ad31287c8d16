"""Without the extra text, everything that needs torch says how to install it, in one line."""

import subprocess
import sys

from reldp._optional import missing_text_package

CODE = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "peft", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
import reldp
from reldp.cli.main import main
for name in ("Trainer", "TextEncoder", "FeatureEncoder", "PrivateStep"):
    try:
        getattr(reldp, name)
    except ImportError as error:
        print(error)
for statement in ("from reldp.encoders import Column", "from reldp.gradients import PerUnitGradients",
                  "from reldp.losses import LossBatch", "from reldp.training import Trainer",
                  "from reldp.encoders.embedding_file import write_embeddings"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
assert reldp.EntityGraph and reldp.PrivacyPlan and reldp.verify and reldp.Certificate
for words in (["train", "wordnet-verbs", "--target-epsilon", "4", "-o", "run"],
              ["evaluate", "model", "--graph", "wordnet-verbs"],
              ["encode", "model", "--graph", "wordnet-verbs", "-o", "x.parquet"], ["demo"],
              ["train", "wordnet-verbs", "--target-epsilon", "4", "--dry-run"],
              ["audit", "--num-entities", "12", "--num-relations", "4", "--max-degree", "1",
               "--num-negatives", "2", "--sample-rate", "0.4", "--noise-multiplier", "1",
               "--num-steps", "1", "--delta", "0.01"],
              ["budget", "search", "wordnet-verbs", "--mean", "3", "-o", "search"]):
    assert main(words) == 2
assert main(["abandon", "run"]) == 2
assert main(["budget", "init", "nowhere"]) == 2
assert main(["verify", "run"]) == 2
assert main(["inspect", "wordnet-verbs", "--no-plan", "--json"]) == 0
"""


def test_names_and_commands_say_how_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line = str(missing_text_package(ModuleNotFoundError("x", name="torch")))
    assert line.endswith('Use pip install "reldp[text]", in a clone pip install ".[text]".')
    assert done.stdout.splitlines()[:9] == [line] * 9
    said = done.stderr.splitlines()
    demo = line.replace("[text]", "[demo]")
    assert said[:7] == [f"reldp: {text}" for text in (line, line, line, demo, line, line, line)]
    assert len(said) == 10  # the others do without torch, and have other things to say
    assert not any("torch" in text for text in said[7:])
    assert list(tmp_path.iterdir()) == []


def test_other_missing_modules_are_no_matter_of_this_extra():
    assert missing_text_package(ModuleNotFoundError("x", name="reldp.nothing")) is None
    assert missing_text_package(ImportError("x")) is None
    assert missing_text_package(ValueError()) is None
