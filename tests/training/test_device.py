"""Training on a GPU: the same algorithm, and a new branch whenever a run is resumed."""

import pytest
import torch

import reldp.training.trainer as trainer_module
from reldp.encoders import TextEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.reporting import verify
from reldp.training import Trainer
from tests.encoders.tiny import write_model
from tests.gradients.test_cuda_graphs import text_parts
from tests.training.small import make_step, small_parts, small_plan
from tests.training.test_demo import write_graph

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def gradient(parts, device):
    encoder, capped, plan = parts
    step = make_step(encoder.to(device), capped, plan, device=device)
    step.open(Streams(bytes(range(32))))
    step.run(step.draw(0, 0), 0, 0)
    step.close()
    return torch.cat([p.grad.reshape(-1).cpu() for p in step.parameters.values()])


@pytest.mark.usefixtures("noise_by_address")
def test_a_step_is_the_one_of_the_cpu():
    assert torch.allclose(
        gradient(small_parts(), "cuda"), gradient(small_parts(), "cpu"), atol=1e-5
    )


@pytest.mark.parametrize("noise", ["secure", "fast"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_a_text_model_trains_end_to_end(tmp_path, noise, precision):
    capped = EntityGraph.read(write_graph(tmp_path / "graph", 0)).promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=6.0, num_steps=4)
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"), lora_rank=2)
    settings = {"device": "cuda", "noise_generator": noise, "precision": precision, "average": 0.9}
    result = Trainer(encoder, capped, plan, **settings).fit(tmp_path / "run")
    assert result.certificate.values["steps"]["counted"] == 4
    assert verify(tmp_path / "run")


def test_resuming_opens_a_branch_and_keeps_to_the_planned_steps(tmp_path, monkeypatch):
    take = trainer_module.TrainingLoop._take

    def dying(self, step):
        branch = self._session.ledger.branch
        if (branch, step) == (0, 6):
            raise MemoryError
        return take(self, step)

    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", dying)
    settings = {"device": "cuda", "checkpoint_every": 4}
    with pytest.raises(MemoryError):
        Trainer(*small_parts(), **settings).fit(tmp_path / "run")
    result = Trainer(*small_parts(), **settings).fit(tmp_path / "run")
    steps = result.certificate.values["steps"]
    assert (steps["branches"], steps["counted"]) == (2, 12)
    assert steps["abandoned"] > 0
    assert verify(tmp_path / "run")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("clip", [True, False])
def test_a_replayed_step_is_the_step(tmp_path, kind, precision, clip):
    """Eight steps of different batches: recordings are used again and read new weights."""
    eager = trained(tmp_path / "eager", kind, precision=precision, clip=clip)
    replayed = trained(
        tmp_path / "replayed", kind, precision=precision, clip=clip, cuda_graphs=True
    )
    difference = (eager - replayed).norm(dim=1) / eager.norm(dim=1)
    assert float(difference.max()) < (0.2 if precision == "bfloat16" else 1e-3)
    # The control: other batches and weights give other gradients.
    assert float((eager[1:] - eager[:-1]).norm(dim=1).min() / eager.norm(dim=1).max()) > 0.3


@pytest.mark.filterwarnings("ignore::reldp.gradients.cuda_graphs.CudaGraphWarning")
def test_an_encoder_is_replayed_or_run_one_by_one(tmp_path):
    """Some releases of transformers build MPNet's position bias on the CPU."""
    eager = trained(tmp_path / "eager", "mpnet")
    replayed = trained(tmp_path / "replayed", "mpnet", cuda_graphs=True)
    assert float(((eager - replayed).norm(dim=1) / eager.norm(dim=1)).max()) < 1e-3


def trained(folder, kind, **settings):
    """Gradients of eight small steps, as rows."""
    encoder, capped, plan = text_parts(folder, kind, noise_multiplier=0.0)
    step = make_step(encoder.to("cuda"), capped, plan, device="cuda", **settings)
    step.open(Streams(bytes(range(32))))
    found = []
    for number in range(8):
        step.run(step.draw(number, 0), number, 0)
        found.append(torch.cat([p.grad.reshape(-1) for p in step.parameters.values()]))
        with torch.no_grad():
            for parameter in step.parameters.values():
                parameter.sub_(parameter.grad, alpha=0.01)  # larger ones amplify rounding
    return torch.stack(found)


@pytest.mark.parametrize("kind", ["default device", "autocast"])
@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_settings_of_a_notebook_on_a_gpu_change_nothing(tmp_path, kind):
    _, capped, plan = text_parts(tmp_path, noise_multiplier=3.0)
    model = tmp_path / "model"
    other, *parts = small_parts()
    expected = TextEncoder.load(model, max_length=16).to("cuda").encode(["one", "two words"])
    is_default = kind == "default device"
    with torch.device("cuda") if is_default else torch.autocast("cuda", dtype=torch.bfloat16):
        encoder = TextEncoder.load(model, max_length=16)
        assert encoder.device.type == "cpu"
        assert (encoder.to("cuda").encode(["one", "two words"]) == expected).all()
        result = Trainer(encoder, capped, plan, device="cuda").fit(tmp_path / "run")
        inside = result.encoder.encode_graph(capped)
        step = make_step(other.to("cuda"), *parts, device="cuda")
        with step.record(tmp_path / "loop") as run:
            for _ in run:
                run.backward()
    assert (result.encoder.encode_graph(capped) == inside).all()
    verify(tmp_path / "run")
    verify(tmp_path / "loop")
