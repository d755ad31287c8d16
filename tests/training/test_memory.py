"""Memory settings change an encoder for the time of training; hashes are of the encoder as it was loaded."""

from contextlib import contextmanager

import pytest
import torch

from reldp.encoders import TextEncoder
from reldp.errors import ConfigError
from reldp.noise import Streams
from reldp.processes import Processes
from reldp.training.config import PerformanceSettings
from reldp.training.memory import fit_memory, refuse_selection
from tests.encoders.tiny import write_model
from tests.training.groups import text_graph
from tests.training.small import make_step, small_plan


class Facts:
    """Counts how often hashes are asked for."""

    taken, objective, make_table = 0, None, None

    def take_hashes(self):
        self.taken += 1


def test_without_settings_nothing_is_changed(tmp_path):
    facts = Facts()
    encoder = TextEncoder.load(write_model("bert", tmp_path / "bert"), lora_rank=2)
    assert not fit_memory(encoder, PerformanceSettings(), Processes(), facts).is_changed
    assert facts.taken == 0


def test_hashes_are_taken_before_layers_are_wrapped(tmp_path):
    facts = Facts()
    encoder = TextEncoder.load(write_model("bert", tmp_path / "bert"), lora_rank=2)
    layer = encoder._text.backbone.get_base_model().encoder.layer[0]
    settings = PerformanceSettings(checkpoint_activations=True)
    whole = fit_memory(encoder, settings, Processes(), facts)
    assert facts.taken == 1
    assert "forward" in vars(layer)
    whole.restore()
    assert "forward" not in vars(layer)


class Marked:
    """Stands for the attention kernels that a GPU may use: counts forward passes inside and outside."""

    def __init__(self):
        self.is_inside, self.seen = False, {True: 0, False: 0}

    @contextmanager
    def __call__(self, device):
        self.is_inside = True
        try:
            yield
        finally:
            self.is_inside = False

    def see(self, layer, inputs):
        self.seen[self.is_inside] += 1


@pytest.mark.parametrize("marks_memory", [True, False])
def test_layers_that_are_computed_again_use_the_kernels_of_the_first_time(
    tmp_path, monkeypatch, marks_memory
):
    """The control: without the context in `fit_memory`, the second forward passes are outside."""
    marked = Marked()
    monkeypatch.setattr("reldp.training.step.repeatable_attention", marked)
    if marks_memory:
        monkeypatch.setattr("reldp.training.memory.repeatable_attention", marked)
    encoder = TextEncoder.load(write_model("bert", tmp_path / "bert"), lora_rank=2, max_length=8)
    layer = encoder._text.backbone.get_base_model().encoder.layer[0]
    layer.attention.self.query.register_forward_pre_hook(marked.see)
    capped = text_graph().promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=6.0, num_steps=1)
    whole = fit_memory(
        encoder, PerformanceSettings(checkpoint_activations=True), Processes(), Facts()
    )
    step = make_step(encoder, capped, plan, threads=1, microbatch_units=4)
    step.open(Streams(bytes(32)))
    marked.seen = {True: 0, False: 0}
    step.run(step.draw(0), 0)
    step.close()
    whole.restore()
    assert marked.seen[True] > 0
    assert (marked.seen[False] == 0) == marks_memory


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_on_a_gpu_recomputed_layers_have_the_same_bits_and_no_attention_of_cudnn(tmp_path, dtype):
    model = write_model("llama", tmp_path / "llama")
    capped = text_graph().promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=12.0, num_steps=4)
    totals, allowed = [], []
    for checkpoint in (False, True):
        encoder = TextEncoder.load(model, lora_rank=2, max_length=32, dtype=dtype)
        layer = encoder._text.backbone.get_base_model().layers[0]
        layer.self_attn.register_forward_pre_hook(
            lambda *args: allowed.append(torch.backends.cuda.cudnn_sdp_enabled())
        )
        encoder.to("cuda")
        settings = PerformanceSettings(device="cuda", checkpoint_activations=checkpoint)
        fit_memory(encoder, settings, Processes(), Facts())
        step = make_step(encoder, capped, plan, device="cuda", microbatch_units=4)
        step.open(Streams(bytes(32)))
        allowed.clear()
        for number in range(4):
            totals.append(step.clipped_sum(step.clip_units(step.draw(number))).total.cpu())
        step.close()
        assert allowed
        assert not any(allowed)
    assert totals[0].any()
    for plain, recomputed in zip(totals[:4], totals[4:], strict=True):
        assert torch.equal(plain, recomputed)


def test_sharded_weights_are_not_chosen_by_evaluations():
    refuse_selection(PerformanceSettings(), object())
    refuse_selection(PerformanceSettings(shard_weights=True), None)
    with pytest.raises(ConfigError, match="`shard_weights` must be used without eval_graph"):
        refuse_selection(PerformanceSettings(shard_weights=True), object())
