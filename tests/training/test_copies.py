"""Two copies of a run never use the same noise for different sums, also where nothing is refused.

What may differ without being noticed is endless: code of libraries, hooks, globals. The noise of a
step is therefore derived from the sum that it is added to (theory.md section 6).
"""

import pytest
import torch

from reldp.losses import infonce
from reldp.training.step import PrivateStep
from tests.runs.test_changes import copied, resumed, stopped
from tests.training.small import small_parts


def backward_hook(patch, encoder):
    """Gradients change, outputs do not."""
    hook = encoder.layers[1].register_full_backward_hook(lambda _, given, __: (3 * given[0],))
    assert hook


def another_loss(patch, encoder):
    """Gradients turn around, by a function that the loss calls by a global name."""
    pairs = infonce.dot_pairs

    def turned(embeddings, batch, **settings):
        return pairs(torch.cat([-embeddings[:, :1], embeddings[:, 1:]], 1), batch, **settings)

    patch.setattr(infonce, "dot_pairs", turned)


def another_optimizer(patch, encoder):
    """The first step's sum is the same, those after it have other weights."""
    take = torch.optim.Adam.step
    patch.setattr(torch.optim.Adam, "step", lambda self: (take(self), take(self)))


@pytest.mark.parametrize("change", [backward_hook, another_loss, another_optimizer])
@pytest.mark.parametrize("noise", ["secure", "fast"])
def test_what_no_list_holds_meets_other_noise_with_every_other_sum(
    tmp_path, monkeypatch, change, noise
):
    """Noise is bound to the sum: before, both copies drew the same for different sums."""
    drawn = {}
    draw = PrivateStep._draw_noise

    def watched(self, step, branch, total):
        found = draw(self, step, branch, total)
        drawn.setdefault(found.numpy().tobytes(), set()).add(total.numpy().tobytes())
        return found

    folder = stopped(monkeypatch, tmp_path / "run", *small_parts(), at=4, noise_generator=noise)
    monkeypatch.setattr(PrivateStep, "_draw_noise", watched)
    resumed(copied(folder), noise_generator=noise)
    alone = len(drawn)
    encoder, capped, plan = small_parts()
    change(monkeypatch, encoder)
    resumed(folder, encoder, capped, plan, noise_generator=noise)
    assert len(drawn) >= alone + 7  # of eight steps, at most the first has the same sum
    assert all(len(sums) == 1 for sums in drawn.values())
