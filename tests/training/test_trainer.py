"""The trainer executes the plan, and nothing else."""

import re
import stat

import numpy as np
import pytest
import torch

from reldp.encoders import FeatureEncoder
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, PlanError
from reldp.losses import InfoNCELoss, LossBatch
from reldp.noise import Streams, add_noise
from reldp.noise.gaussian import GaussianNoise
from reldp.reporting import verify
from reldp.runs.ledger import read_ledger
from reldp.sampling import TupleSampler
from reldp.training import Trainer, TrainingConfig
from tests.training.small import DIM, small_encoder, small_graph, small_parts, small_plan

torch.set_num_threads(1)


def weights_of(encoder):
    return {name: value.detach().clone() for name, value in encoder.trainable().items()}


def test_a_run_leaves_everything_that_it_promises(tmp_path):
    encoder, capped, plan = small_parts()
    before = state_hash(encoder.trainable())
    result = Trainer(encoder, capped, plan, learning_rate=0.01).fit(tmp_path / "run")
    names = {place.name for place in (tmp_path / "run").iterdir()}
    assert names == {
        "plan.json",
        "ledger.jsonl",
        "sensitive.json",
        "checkpoints",
        "model",
        "metrics.jsonl",
        "certificate.json",
        "certificate.md",
    }
    assert state_hash(encoder.trainable()) != before
    assert result.certificate.epsilon == pytest.approx(plan.epsilon())
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").num_counted == plan.num_steps
    assert len(result.metrics) == plan.num_steps
    loaded = FeatureEncoder.load(tmp_path / "run" / "model")
    assert state_hash(loaded.trainable()) == state_hash(encoder.trainable())
    verify(tmp_path / "run")


def test_private_files_are_for_their_owner_only(tmp_path):
    Trainer(*small_parts()).fit(tmp_path / "run")
    for name in ("sensitive.json", "metrics.jsonl"):
        assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o600


def oracle(encoder, capped, plan, key, *, rate, clip=True):
    """Plain SGD in float64 loops: one autograd call per tuple, clipped, summed, noised, divided."""
    streams = Streams(key)
    sampler = TupleSampler(
        capped, sample_rate=plan.sample_rate, num_negatives=plan.num_negatives, streams=streams
    )
    features = torch.from_numpy(np.array(capped.graph.features))
    loss = InfoNCELoss(pairing="all")
    parameters = encoder.trainable()
    size = sum(p.numel() for p in parameters.values())
    with GaussianNoise(streams) as noise:
        for step in range(plan.num_steps):
            batch = sampler.sample(step)
            total = torch.zeros(size, dtype=torch.float64)
            for row in range(batch.num_tuples):
                rows = encoder.module(features[batch.entities[row]])[None]
                one = LossBatch.of(batch.endpoints[row : row + 1], batch.mask[row : row + 1])
                value = loss(rows, one)
                grads = torch.autograd.grad(value.sum(), list(parameters.values()))
                flat = torch.cat([g.reshape(-1) for g in grads]).double()
                bound = plan.clip_norm
                total += flat * (min(1.0, bound / float(flat.norm())) if clip else 1.0)
            if plan.noise_multiplier:
                draw = torch.from_numpy(noise.draw(step, 0, size))
                scale = plan.noise_multiplier * plan.clip_norm
                total = add_noise(total, draw, standard_deviation=scale)
            with torch.no_grad():
                for p, part in zip(
                    parameters.values(),
                    torch.split(total, [p.numel() for p in parameters.values()]),
                    strict=True,
                ):
                    p -= rate * (part / plan.expected_batch_size).view(p.shape).float()


@pytest.mark.parametrize(
    ("noise", "clip", "clip_norm"), [(2.0, True, 0.7), (0.0, True, 0.7), (0.0, False, 1.0)]
)
def test_training_is_the_algorithm_of_the_theory(
    tmp_path, monkeypatch, noise_by_address, noise, clip, clip_norm
):
    """Oracle: theory.md section 1 as a slow loop with the same random draws and noise."""
    key = bytes(range(32))
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda own, identity: key)
    encoder, capped, plan = small_parts(
        noise_multiplier=noise, clip_norm=clip_norm, num_steps=6, expected_batch_size=15.0
    )
    twin = small_encoder()
    settings = {"optimizer": "sgd", "learning_rate": 0.05, "clip": clip}
    Trainer(encoder, capped, plan, **settings).fit(tmp_path / "run")
    oracle(twin, capped, plan, key, rate=0.05, clip=clip)
    start = weights_of(small_encoder())
    for name, value in encoder.trainable().items():
        expected = twin.trainable()[name].detach()
        moved = float((expected - start[name]).abs().max())
        assert moved > 1e-4
        assert torch.allclose(value.detach(), expected, atol=1e-4 * moved, rtol=0)


def test_sensitive_values_are_written_only_when_asked_for_and_marked(tmp_path, capsys):
    hidden = Trainer(*small_parts()).fit(tmp_path / "hidden")
    assert set(hidden.metrics[0]) == {"step", "branch", "learning_rate", "weights"}
    assert "log_sensitive" not in capsys.readouterr().err
    shown = Trainer(*small_parts(), log_sensitive=True).fit(tmp_path / "shown")
    known = {"loss", "num_tuples", "median_norm", "seconds"}
    assert known <= set(shown.metrics[0]["sensitive"])
    assert "log_sensitive is on" in capsys.readouterr().err.splitlines()[0]


def test_no_public_file_holds_a_time_of_day(tmp_path):
    """How long steps take depends on how many tuples are drawn."""
    Trainer(*small_parts()).fit(tmp_path / "run")
    for place in (tmp_path / "run").rglob("*"):
        if place.suffix in (".json", ".jsonl", ".md"):
            found = re.search(r"\d\d:\d\d|seconds|\b1[78]\d{8}\b", place.read_text())
            assert found is None, (place.name, found)


def test_the_old_name_of_the_setting_is_refused_with_the_new_one():
    with pytest.raises(ConfigError, match="`log_private` must be written log_sensitive"):
        Trainer(*small_parts(), log_private=True)


def test_rows_cannot_be_handed_in(tmp_path):
    """On 0.3.0 a table of other features was trained on, and the certificate named the graph."""
    encoder, capped, plan = small_parts()
    with pytest.raises(ConfigError, match="`table` must be a training setting"):
        Trainer(encoder, capped, plan, table=encoder.table(capped))


def test_an_encoder_that_draws_random_numbers_is_refused(tmp_path):
    """Its steps could not be repeated: the same noise would meet other sums."""

    class Noisy(torch.nn.Module):
        def forward(self, features):
            return torch.nn.functional.dropout(features, 0.5, training=True)

    encoder, capped, plan = small_parts()
    encoder.module.activation = Noisy()
    with pytest.raises(ConfigError, match="draws random numbers"):
        Trainer(encoder, capped, plan).fit(tmp_path / "run")


def test_the_graph_s_fingerprint_is_in_no_public_file(tmp_path):
    encoder, capped, plan = small_parts()
    Trainer(encoder, capped, plan).fit(tmp_path / "run")
    secret = capped.fingerprint.encode()
    for place in (tmp_path / "run").rglob("*"):
        if place.is_file():
            assert (secret in place.read_bytes()) == (place.name == "sensitive.json"), place.name


def test_a_new_run_does_not_start_from_what_another_has_learned(tmp_path):
    encoder, capped, plan = small_parts()
    trainer = Trainer(encoder, capped, plan)
    trainer.fit(tmp_path / "one")
    for again in (trainer, Trainer(encoder, capped, plan)):
        with pytest.raises(ConfigError, match="add both epsilons"):
            again.fit(tmp_path / "two")
    assert not (tmp_path / "two").exists()
    assert trainer.fit(tmp_path / "one").certificate.epsilon > 0


def test_two_runs_of_the_same_thing_differ_in_their_noise(tmp_path):
    one = Trainer(*small_parts()).fit(tmp_path / "one")
    two = Trainer(*small_parts()).fit(tmp_path / "two")
    assert state_hash(one.encoder.trainable()) != state_hash(two.encoder.trainable())


def test_no_privacy_has_an_infinite_epsilon_and_says_so(tmp_path):
    result = Trainer(*small_parts(noise_multiplier=0.0), clip=False).fit(tmp_path / "run")
    assert result.certificate.epsilon == float("inf")
    assert result.certificate.status == "none"
    assert "No privacy" in (tmp_path / "run" / "certificate.md").read_text()
    assert verify(tmp_path / "run")


@pytest.mark.parametrize(("pairing", "share"), [("one", 0.6), ("all", 0.75)])
def test_training_learns_something(tmp_path, pairing, share):
    """The ring's neighbors are similar in two of six features: the loss must fall."""
    encoder, capped, plan = small_parts(
        noise_multiplier=0.0, num_steps=150, expected_batch_size=40.0
    )
    settings = {"clip": False, "learning_rate": 0.01, "pairing": pairing, "log_sensitive": True}
    result = Trainer(encoder, capped, plan, **settings).fit(tmp_path / "run")
    losses = [line["sensitive"]["loss"] for line in result.metrics]
    assert np.mean(losses[-20:]) < share * np.mean(losses[:20])


def test_pools_without_protected_entities_and_the_pair_rule(tmp_path):
    protected = [i % 3 > 0 for i in range(300)]
    capped = small_graph(protected=protected).promise_degrees(4)
    plan = small_plan(capped, negatives="unprotected", num_negatives=1)
    result = Trainer(small_encoder(), capped, plan).fit(tmp_path / "unprotected")
    assert result.certificate.values["data"]["all_protected"] is False
    pool = np.random.default_rng(3).normal(size=(250, DIM)).astype(np.float32)
    plan = small_plan(capped, negatives="public", pool_size=250, clipping="pair")
    with pytest.raises(ConfigError, match="`pool` must be given"):
        Trainer(small_encoder(), capped, plan, loss="logistic")
    Trainer(small_encoder(), capped, plan, loss="logistic", pool=pool).fit(tmp_path / "public")
    assert verify(tmp_path / "public")


def test_fast_noise_is_named_in_the_certificate(tmp_path):
    result = Trainer(*small_parts(), noise_generator="fast").fit(tmp_path / "run")
    assert result.certificate.values["noise"]["source"] == "fast"
    assert any("Philox" in line for line in result.certificate.values["assumptions"])


@pytest.mark.parametrize(
    ("plan", "settings", "error", "words"),
    [
        ({"num_negatives": 0}, {}, ConfigError, "`num_negatives`"),
        ({}, {"clip": False}, ConfigError, "`clip` must be true"),
        ({}, {"learnin_rate": 1}, ConfigError, "Did you mean learning_rate"),
        ({}, {"optimizer": "adan"}, ConfigError, "`optimizer` must be one of"),
        ({}, {"device": "cuda:99"}, ConfigError, "`device` must exist here"),
        ({"clipping": "pair"}, {}, ConfigError, "`loss` must be a sum over negatives"),
        ({"noise_multiplier": 1e-6}, {}, ConfigError, "`noise_multiplier` must be at least"),
    ],
)
def test_impossible_combinations_are_refused_before_anything_is_written(
    tmp_path, plan, settings, error, words
):
    with pytest.raises(error, match=words):
        Trainer(*small_parts(**plan), **settings)


def test_a_plan_for_another_graph_is_refused():
    encoder, capped, plan = small_parts()
    other = small_graph().cap_degrees(3, seed=0)
    with pytest.raises(ConfigError, match="`max_degree` of the plan must be the graph's"):
        Trainer(encoder, other, plan)
    with pytest.raises(ConfigError, match="must be a CappedGraph"):
        Trainer(encoder, capped.graph, plan)
    with pytest.raises((ConfigError, PlanError)):
        Trainer(encoder, capped, small_plan(capped, negatives="unprotected"))


def test_global_settings_of_torch_are_left_as_they_were(tmp_path):
    assert not torch.are_deterministic_algorithms_enabled()
    Trainer(*small_parts(), threads=2).fit(tmp_path / "run")
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1


def test_no_training_setting_changes_epsilon(tmp_path):
    """Epsilon comes from the plan and the counted steps alone."""
    epsilons = set()
    for index, settings in enumerate(
        [
            {},
            {"microbatch_units": 3},
            {"threads": 2},
            {"average": 0.9},
            {"precision": "bfloat16"},
            {"noise_generator": "fast"},
        ]
    ):
        result = Trainer(*small_parts(), **settings).fit(tmp_path / str(index))
        epsilons.add(result.certificate.epsilon)
    assert len(epsilons) == 1
    assert TrainingConfig().learning.clip
