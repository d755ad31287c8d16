"""Which parameters of a pretrained model training may change.

| train | what changes |
|---|---|
| ``lora`` | low-rank adapters (PEFT) on attention and feed-forward, or on the targets named |
| ``last:N`` | the last N layers and the norm after them |
| ``full`` | everything that reaches the embedding |
| ``none`` | nothing |

Trainable parameters are float32, whatever the type of the frozen ones: clip factors and optimizer
steps need it (theory.md 6). Adapters start as "no change", from a public seed.

Private to the package: `Adaptation`, `adapt`, `transformer_layers`.

>>> Adaptation(train="last:2").num_last
2
>>> Adaptation(train="some")
Traceback (most recent call last):
reldp.errors.EncoderError: `train` must be lora, full, last:N, head, pooling or none, got 'some'.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from reldp._validate import check_integer, check_number
from reldp.errors import EncoderError, MissingDependency

__all__ = ["Adaptation", "adapt", "transformer_layers"]

# Query and value, as in the LoRA paper, in the spellings of the architectures; a fused projection
# where query and value are one module.
_ATTENTION = (
    ("query", "value"),
    ("q_proj", "v_proj"),
    ("query_proj", "value_proj"),
    ("q_lin", "v_lin"),
    ("q", "v"),
    ("query_key_value",),
    ("qkv_proj",),
    ("Wqkv",),
    ("c_attn",),
    ("in_proj",),
)


# Linear layers of attention and of a dense feed-forward, in the same spellings. Where a transformer
# layer has others (experts, state spaces, projections of positions), query and value are the choice.
_DENSE = frozenset(
    {
        *(name for spelling in _ATTENTION for name in spelling if name != "in_proj"),
        *("key", "k_proj", "key_proj", "k_lin", "k"),
        *("dense", "o_proj", "out_lin", "o", "Wo", "c_proj"),
        *("gate_proj", "up_proj", "down_proj", "gate_up_proj", "lin1", "lin2", "Wi", "c_fc"),
        *("dense_h_to_4h", "dense_4h_to_h"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """The trained part of a model and its settings.

    Attributes:
        train: ``"lora"``, ``"full"``, ``"last:N"`` or ``"none"``.
        lora_rank: Rank of the adapters.
        lora_alpha: Their scale is alpha / rank; twice the rank unless given.
        lora_targets: Names of the linear layers with adapters; ``"all-linear"``: all of them in the
            transformer's layers; ``"query-value"``: attention's query and value (with the key where
            they are one layer). Unless given, all where a layer is attention and a dense
            feed-forward, else query and value.
        lora_layers: Adapters only in the last so many layers; in all unless given.
        seed: Of the adapters' starting weights, which are public.
    """

    train: str = "lora"
    lora_rank: int = 8
    lora_alpha: float | None = None
    lora_targets: str | Sequence[str] | None = None
    lora_layers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.train, str) or not re.fullmatch(
            r"lora|full|none|last:[1-9]\d*", self.train
        ):
            raise EncoderError(
                f"`train` must be lora, full, last:N, head, pooling or none, got {self.train!r}."
            )
        for name in ("lora_rank", "lora_layers"):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value, low=1, error=EncoderError)
        check_integer("seed", self.seed, low=-(2**63), high=2**64 - 1, error=EncoderError)
        if self.lora_targets is not None and not len(self.lora_targets):
            raise EncoderError("`lora_targets` must name a linear layer, got none.")
        if self.lora_alpha is not None:
            check_number("lora_alpha", self.lora_alpha, above=0, error=EncoderError)

    @property
    def num_last(self) -> int | None:
        """N of ``last:N``."""
        return int(self.train.partition(":")[2]) if self.train.startswith("last:") else None

    def to_json(self) -> dict[str, Any]:
        """Return the settings that matter for this way of training, as plain JSON values."""
        values = asdict(self)
        if self.train != "lora":
            return {"train": self.train}
        values["lora_alpha"] = self.alpha
        if self.lora_targets is not None and not isinstance(self.lora_targets, str):
            values["lora_targets"] = list(self.lora_targets)
        return values

    @property
    def alpha(self) -> float:
        """Numerator of the adapters' scale."""
        return 2.0 * self.lora_rank if self.lora_alpha is None else float(self.lora_alpha)


def adapt(model: nn.Module, how: Adaptation, name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Freezes the model but for what is to be trained.

    Args:
        model: A transformers model, changed in place.
        how: What is trained.
        name: Of the base model, written into the adapter's configuration.

    Returns:
        The model to run (a PEFT model for ``lora``), and the settings as resolved for this model.
    """
    model.requires_grad_(False)
    described = how.to_json()
    if how.train == "lora":
        targets = _lora_targets(model, how.lora_targets)
        model = _with_adapters(model, how, targets, name)
        described["lora_targets"] = targets
    elif how.train == "full":
        for path, parameter in model.named_parameters():
            # The pooler is a task head: no gradient reaches it from the token embeddings.
            parameter.requires_grad_("pooler" not in path.split("."))
    elif how.num_last is not None:
        _unfreeze_last(model, how.num_last)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model, described


def transformer_layers(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """Return the stack of transformer layers and its path in the model."""
    count = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return path, module
    raise EncoderError(
        f"`source` must have one stack of layers, got {type(model).__name__} without one. "
        "Use train full."
    )


def _lora_targets(model: nn.Module, wanted: str | Sequence[str] | None) -> list[str]:
    """Names of the linear layers that get adapters."""
    path, _ = transformer_layers(model)
    linears = sorted({n.rsplit(".", 1)[-1] for n in _linear_paths(model) if n.startswith(path)})
    if wanted is None:
        wanted = "all-linear" if _DENSE.issuperset(linears) else "query-value"
    if wanted == "all-linear":
        return linears
    if wanted == "query-value":
        for spelling in _ATTENTION:
            if set(spelling) <= set(linears):
                return list(spelling)
        raise EncoderError(
            f"`lora_targets` must be named for {type(model).__name__}, got none that is known. "
            f"It has: {', '.join(linears)}."
        )
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in linears:
            raise EncoderError(
                f"`lora_targets` must name linear layers, got {name!r}. "
                f"This model has: {', '.join(linears)}."
            )
    return names


def _linear_paths(model: nn.Module) -> list[str]:
    """Return the paths of all linear layers, including GPT-2's Conv1D."""
    return [
        path
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) or _is_transposed(module)
    ]


def _is_transposed(module: nn.Module) -> bool:
    """Return whether a linear layer stores its weight as (inputs, outputs)."""
    return type(module).__name__ == "Conv1D"


def _with_adapters(model: nn.Module, how: Adaptation, targets: list[str], name: str) -> nn.Module:
    """Return the model with adapters on its targets, in the last layers or in all."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingDependency(
            "`peft` must be installed for train lora. Install reldp[text]."
        ) from error

    path, layers = transformer_layers(model)
    first = 0 if how.lora_layers is None else len(layers) - how.lora_layers
    if first < 0:
        raise EncoderError(f"`lora_layers` must be at most {len(layers)}, got {how.lora_layers}.")
    inside = tuple(f"{path}.{index}." for index in range(first, len(layers)))
    named = [p for p in _linear_paths(model) if p.rsplit(".", 1)[-1] in targets]
    chosen = [p for p in named if p.startswith(inside)]
    sides = [s for path in chosen for s in model.get_parameter(f"{path}.weight").shape]
    widest = max(sides, default=how.lora_rank)
    if how.lora_rank > widest:  # the memory of a mistyped number
        raise EncoderError(
            f"`lora_rank` must be at most {widest}, the width of the widest adapted layer, got {how.lora_rank}."
        )
    config = LoraConfig(
        r=how.lora_rank,
        lora_alpha=how.alpha,
        lora_dropout=0.0,
        bias="none",
        # Short names where they mean the same; a pooler may share a layer's name.
        target_modules=targets if chosen == named else chosen,
        task_type="FEATURE_EXTRACTION",
        fan_in_fan_out=all(_is_transposed(model.get_submodule(path)) for path in chosen),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(how.seed)
        try:
            with warnings.catch_warnings():
                # PEFT asks for it by the name that transformers has deprecated in 5.23.
                warnings.filterwarnings("ignore", message="`is_gradient_checkpointing`")
                adapted = get_peft_model(model, config)
        except ValueError as error:
            raise EncoderError(
                f"`lora_targets` must be layers that take adapters, got {', '.join(targets)}: {error} "
                "Use query-value."
            ) from error
    adapted.peft_config["default"].base_model_name_or_path = name
    ready: nn.Module = adapted.eval()
    return ready


def _unfreeze_last(model: nn.Module, count: int) -> None:
    """Make the last layers and the norm after them trainable."""
    path, layers = transformer_layers(model)
    if count > len(layers):
        raise EncoderError(f"`train` must be at most last:{len(layers)}, got last:{count}.")
    for layer in layers[len(layers) - count :]:
        layer.requires_grad_(True)
    parent = model.get_submodule(path.rpartition(".")[0])
    for name, sibling in parent.named_children():
        if "norm" in type(sibling).__name__.lower() and "embed" not in name:
            sibling.requires_grad_(True)
