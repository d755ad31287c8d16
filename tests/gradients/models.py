"""Tiny random models and the slow oracle that the engine is compared with."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

VOCAB, LENGTH, HIDDEN = 50, 5, 24


@dataclass(eq=False)
class Case:
    """A model, and the losses of its units as a function of which rows are used."""

    model: nn.Module
    rows: Callable[[Tensor], Tensor]  # row numbers -> embeddings (rows, dim)

    def losses(self, numbers: Tensor) -> Tensor:
        """Pairwise logistic losses of units (units, rows): row 0 and 1 against each further row."""
        units, rows = numbers.shape
        out = self.rows(numbers.reshape(-1)).view(units, rows, -1)
        positive = (out[:, 0] * out[:, 1]).sum(-1, keepdim=True)
        negative = (out[:, :1] * out[:, 2:]).sum(-1)
        return nn.functional.softplus(negative - positive).sum(1)


def oracle(case: Case, numbers: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Norms (units,) and gradients (units, *shape) from one plain autograd call per unit."""
    params = {n: p for n, p in case.model.named_parameters() if p.requires_grad}
    grads: dict[str, list[Tensor]] = {name: [] for name in params}
    for unit in numbers:
        loss = case.losses(unit[None])[0]
        found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        for (name, p), g in zip(params.items(), found, strict=True):
            grads[name].append(torch.zeros_like(p) if g is None else g.detach())
    stacked = {name: torch.stack(rows) for name, rows in grads.items()}
    norms = torch.stack([g.double().flatten(1).norm(dim=1) for g in stacked.values()]).norm(dim=0)
    return norms, stacked


def clipped(norms: Tensor, grads: dict[str, Tensor], thresholds: Tensor) -> dict[str, Tensor]:
    """The oracle's clipped sum."""
    factors = torch.clamp_max(thresholds.double() / norms, 1.0)
    return {name: torch.einsum("u,u...->...", factors, g.double()) for name, g in grads.items()}


def relative(found: dict[str, Tensor], truth: dict[str, Tensor]) -> float:
    """Distance of two gradients relative to the length of the true one."""
    gap = sum(float((found[n].double() - truth[n].double()).square().sum()) for n in truth)
    size = sum(float(truth[n].double().square().sum()) for n in truth)
    return (gap / size) ** 0.5


def token_rows(seed: int, count: int = 64) -> tuple[Tensor, Tensor]:
    """Token ids (count, LENGTH) with padding 1 at the end, and their attention mask."""
    gen = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, VOCAB, (count, LENGTH), generator=gen)
    lengths = torch.randint(2, LENGTH + 1, (count, 1), generator=gen)
    mask = torch.arange(LENGTH)[None] < lengths
    return torch.where(mask, ids, 1), mask.long()


def transformer(
    kind: str,
    train: str,
    *,
    dtype: torch.dtype = torch.float32,
    layers: int = 2,
    device: str = "cpu",
) -> Case:
    """A tiny BERT, MPNet or Llama with LoRA or fully trainable, mean-pooled."""
    import transformers

    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 40,
        "max_position_embeddings": 16,
        "pad_token_id": 1,
    }
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if kind == "bert":
        model = transformers.BertModel(transformers.BertConfig(**sizes, **quiet))
    elif kind == "mpnet":
        model = transformers.MPNetModel(transformers.MPNetConfig(**sizes, **quiet))
    else:
        model = transformers.LlamaModel(transformers.LlamaConfig(**sizes))
    model = adapted(model, kind, train).to(device, dtype)
    ids, mask = (value.to(device) for value in token_rows(1))

    def rows(numbers: Tensor) -> Tensor:
        out = model(input_ids=ids[numbers], attention_mask=mask[numbers]).last_hidden_state
        weight = mask[numbers].unsqueeze(-1).to(out.dtype)
        return (out * weight).sum(1) / weight.sum(1)

    return Case(model, rows)


def adapted(model: nn.Module, kind: str, train: str) -> nn.Module:
    """The model with LoRA (of random, not zero, B) or with everything trainable."""
    if train == "full":
        for p in model.parameters():  # constant norms and biases would hide mistakes
            p.data += 0.1 * torch.randn(p.shape)
        return model.train()
    import peft

    targets = {
        "bert": ["query", "value", "dense"],
        "mpnet": ["q", "v"],
        "llama": ["q_proj", "v_proj", "down_proj"],
    }
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=targets[kind])
    model = peft.get_peft_model(model, config)
    for name, p in model.named_parameters():
        if "lora_B" in name:
            p.data = 0.1 * torch.randn(p.shape)
    return model.train()


def mlp(train: str = "full", *, dtype: torch.dtype = torch.float32) -> Case:
    """A perceptron on dense features with one layer used twice."""
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(12, 72)
            self.norm = nn.LayerNorm(72)
            self.twice = nn.Linear(72, 72)
            self.last = nn.Linear(72, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.tanh(self.norm(self.first(x)))
            return self.last(torch.tanh(self.twice(torch.tanh(self.twice(x)))))

    model = Net().to(dtype)
    features = torch.randn(64, 12, dtype=dtype)
    return Case(model, lambda numbers: model(features[numbers]))
