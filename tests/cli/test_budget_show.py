"""What is shown of a budget holds under the condition that is shown beside it."""

import json
from dataclasses import replace

from reldp.cli.main import main
from reldp.plan import PrivacyPlan
from reldp.runs.budget import Budget


def test_epsilon_of_a_budget_that_is_not_adaptive_never_covers_choices_by_results(tmp_path, capsys):
    plan = PrivacyPlan(
        num_entities=9_000, num_relations=20_000, max_degree=2, num_negatives=3, delta=1e-6,
        expected_batch_size=10, num_steps=5, noise_multiplier=1,
    )  # fmt: skip
    one = replace(plan, delta=1e-5).epsilon()
    at = ["--delta", "1e-5"]
    assert main(["budget", "init", str(tmp_path), "--limit", str(1.01 * one), *at]) == 0

    def shown(*more):
        capsys.readouterr()
        assert main(["budget", "show", str(tmp_path), *more]) == 0
        words = " ".join(capsys.readouterr().out.split())
        assert main(["budget", "show", str(tmp_path), *more, "--json"]) == 0
        return words, json.loads(capsys.readouterr().out)

    with Budget.open(tmp_path) as budget:
        budget.enter_run("0" * 32, plan)
    assert main(["budget", "limit", str(tmp_path), "--limit", str(1.02 * one), *at]) == 0
    words, values = shown()
    assert "no limit that is set later covers a choice that was made before" in words
    assert (
        values["holds_if"]
        == "settings and number of all runs were fixed without looking at results"
    )
    assert not values["exceeded"]
    with Budget.open(tmp_path) as budget:
        for digit in "1245":
            budget.enter_run(digit * 32, plan, purpose="copy of a run", is_spent=True)
    for more in ((), ("--delta", "1e-4")):
        words, values = shown(*more)
        assert values["exceeded"]
        assert "What was entered costs more than this limit" in words
        assert values["holds_if"].startswith("settings and number of all runs were fixed")
        assert "Epsilon is infinite" not in words
    claimed = replace(plan, clipping="frequency")
    with Budget.open(tmp_path) as budget:
        budget.enter_run("3" * 32, claimed, purpose="entered later", is_spent=True)
    words, values = shown()
    assert values["epsilon"] == "Infinity"
    assert "Epsilon is infinite because of the entry of 20" in words
