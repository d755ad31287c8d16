"""A process that does something else than the others is refused, at the start and in every later step."""

import json
import os
import re
import subprocess
import sys
import tempfile

import pytest


@pytest.fixture(scope="module")
def found():
    """What all processes of all cases in `tests.training.hostile_groups` found."""
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.hostile_groups", home],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("frozen_data", "LayerNorm.weight differs"),
        ("merge", "query.base_layer.weight differs"),
        ("layout", "query.base_layer.weight differs"),
        ("dtype", "position_ids differs"),
        ("buffer", "position_ids differs"),
        ("scaling", "the settings of _text.backbone"),
        ("attention", "the settings of _text.backbone"),
        ("rows", "its rows differs"),
        ("shapes", "the split of the batch differs"),
        ("denormals", "the arithmetic differs"),
    ],
)
def test_a_process_that_changes_alone_after_the_start_is_named_with_the_change(
    found, change, words
):
    for process in found["changed"]:
        assert "compute a step with the same batch, weights and settings" in process[change]
        assert "on rank 1" in process[change]
        assert words in process[change]


def test_other_arithmetic_of_one_process_is_refused_and_that_of_all_is_checked_again(found):
    """On a CPU without products in bfloat16 the setting changes no number, and is compared all the same."""
    for process in found["changed"]:
        assert re.search(
            "the arithmetic( on public rows of length 8)? differs", process["precision"]
        )
        assert process["precision everywhere"] == ""
        assert "rank 1" in process["new_precision"]


def test_a_change_that_no_comparison_of_states_sees_is_seen_on_public_rows(found):
    for process in found["changed"]:
        assert "the arithmetic on public rows of length 8 differs" in process["unseen"]


def test_without_a_change_nothing_is_refused(found):
    for process in found["changed"]:
        for control in ("nothing", "nothing unseen", "in the end", "precision later"):
            assert process[control] == "", control
        assert process["denormals later"] == process["new_precision later"] == ""


@pytest.mark.parametrize("units", ["1", "4"])
def test_a_loss_that_talks_to_other_processes_is_refused_three_times_over(found, units):
    """At the start, on public rows that differ between processes, and in a batch."""
    for process in found["talking"][units]:
        assert "got a message to other processes (c10d.allreduce_" in process["at the start"]
        assert "the arithmetic on public rows of length 1 differs" in process["on public rows"]
        assert "must send no messages to other processes" in process["in a batch"]


@pytest.mark.parametrize("units", ["1", "4"])
def test_such_a_loss_would_make_a_unit_depend_on_units_of_another_process(found, units):
    """The control: without the checks, units of the first process change with those of the second."""
    one, other = found["talking"][units][0]["norms"]
    assert one != other


def test_an_evaluation_in_one_process_ends_the_run_at_once_and_is_named(found):
    assert found["seconds"] < 60
    for process in found["evaluating"]:
        assert process["error"].startswith("RunError: All processes must do the same")
        assert "rank 0: embeddings; rank 1: the end of a step" in process["error"]


def test_another_number_of_processes_opens_a_branch_where_sums_depend_on_it(found):
    """Steps that were counted before stay counted, also those of the old branch."""
    for process in found["resized"]["large"]:
        assert process["branches"] == 2
        assert process["steps"]["counted"] == process["steps"]["planned"] == 4
        assert process["steps"]["abandoned"] == 1
    for process in found["resized"]["features"]:
        assert process["branches"] == 1
        assert process["steps"]["abandoned"] == 0
