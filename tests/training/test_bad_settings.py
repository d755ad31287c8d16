"""Settings that torch, or any machine, refuses are one clear line before anything is spent."""

import pytest
import torch

from reldp.encoders import FeatureEncoder
from reldp.errors import ConfigError, EncoderError, GraphError, InputError, RunError
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.reporting import verify
from reldp.training import Trainer
from reldp.training.selection import Selection
from tests.training.small import small_graph, small_parts, small_plan

torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer_options": {"betas": 3}}, "`optimizer_options` must fit adam"),
        ({"optimizer_options": {"betas": ["a", "b"]}}, "`optimizer_options` must fit adam"),
        ({"optimizer_options": {"nothing": 1}}, "`optimizer_options` must fit adam"),
        ({"optimizer": "adm"}, "^`optimizer` must be one of .*, got 'adm'. Did you mean adam[?]$"),
        ({"optimizer": "sgd", "optimizer_options": {"nesterov": True}}, "must fit sgd"),
        ({"threads": 10**11}, "`threads` must be an integer from 1 to 1024"),
        ({"microbatch_units": 10**14}, "`microbatch_units` must be an integer from 1 to"),
        ({"checkpoint_minutes": -1}, "`checkpoint_minutes` must be"),
    ],
)
def test_a_trainer_refuses_them_when_it_is_made(settings, words):
    with pytest.raises(ConfigError, match=words) as error:
        Trainer(*small_parts(), **settings)
    assert "\n" not in str(error.value)


def test_arguments_of_another_type_are_one_line():
    encoder, capped, plan = small_parts()
    for error, words, call in (
        (
            ConfigError,
            "`plan` must be a PrivacyPlan, got str",
            lambda: Trainer(encoder, capped, ""),
        ),
        (ConfigError, "`encoder` must be an encoder, got int", lambda: Trainer(3, capped, plan)),
        (RunError, "`folder` must be a path, got None", lambda: Trainer(*small_parts()).fit(None)),
        (RunError, "`folder` must be a path, got 3", lambda: verify(3)),
        (GraphError, "`path` must be a path, got 5", lambda: EntityGraph.read(5)),
        (InputError, "`graph` must be an EntityGraph or a", lambda: evaluate(encoder, "folder")),
        (InputError, "`encoder` must be an encoder or an", lambda: evaluate("model", capped)),
    ):
        with pytest.raises(error, match=f"^{words}.*[.]$"):
            call()


def test_huge_layers_and_audits_are_refused():
    for settings in ({"dim": 10**11}, {"hidden": (10**11,)}):
        with pytest.raises(EncoderError, match="must be an integer from 1 to"):
            FeatureEncoder(6, **settings)
    from reldp.auditing.audit import check_audit

    with pytest.raises(InputError, match="`trials` must be an integer from 100 to 100000000"):
        check_audit(small_parts()[2], 10**23, 0.95)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"holdout": 0.2}, r"`holdout` must be a Holdout, got 0\.2\. Use Holdout\.split"),
        ({"selection": small_graph()}, "`selection` must be a Selection, got EntityGraph"),
    ],
)
def test_parts_of_another_kind_are_named(given, words):
    with pytest.raises(ConfigError, match=words):
        Trainer(*small_parts(), **given)


@pytest.mark.parametrize("wrong", [small_graph().promise_degrees(9), "wordnet-verbs", None])
def test_a_graph_to_choose_by_is_a_graph(wrong):
    with pytest.raises(ConfigError, match="`eval_graph` must be an EntityGraph, got"):
        Selection(wrong, 2, small_parts()[1])
    with pytest.raises(ConfigError, match="`capped` must be a CappedGraph, got EntityGraph"):
        Selection(small_graph(), 2, small_graph())


@pytest.mark.parametrize("pool", [[[0.5] * 6] * 250, torch.ones(250, 6), "wordnet-verbs"])
def test_a_pool_of_another_kind_is_named(tmp_path, pool):
    encoder, capped, _ = small_parts()
    plan = small_plan(capped, negatives="public", pool_size=250)
    with pytest.raises(EncoderError, match="`graph` must be an EntityGraph or a CappedGraph, got"):
        Trainer(encoder, capped, plan, pool=pool).fit(tmp_path / "run")
    assert not (tmp_path / "run").exists()
