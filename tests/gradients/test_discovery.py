"""Every trainable parameter has a site, or is refused by name before the first step."""

from typing import Any

import pytest
import torch
from torch import nn

from reldp.errors import UnsupportedParameter
from reldp.gradients.discovery import Limits, find_sites
from reldp.gradients.fallback import FallbackSite
from reldp.gradients.sites import EmbeddingSite, FrozenLinearSite, LinearSite

_ORIGINALS = ("parametrizations.weight.original0", "parametrizations.weight.original1")


def _names(module: nn.Module, limits: Limits | None = None) -> set[str]:
    found = find_sites(module, Limits() if limits is None else limits)
    return {name for site in found.sites for name in site.names.values()}


def test_every_trainable_parameter_is_covered() -> None:
    model = nn.Sequential(
        nn.Embedding(9, 4), nn.Linear(4, 6), nn.LayerNorm(6), nn.RMSNorm(6), nn.Conv1d(6, 2, 1)
    )
    assert _names(model) == dict(model.named_parameters()).keys()


def test_frozen_parameters_cost_nothing_but_a_cast() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Bilinear(4, 4, 4), nn.Linear(4, 2))
    model[:2].requires_grad_(False)
    kinds = [type(site) for site in find_sites(model, Limits()).sites]
    assert kinds == [LinearSite, FrozenLinearSite]
    kinds = [type(site) for site in find_sites(model, Limits(cast_frozen=False)).sites]
    assert kinds == [LinearSite]


@pytest.mark.parametrize(
    ("module", "ghost_names"),
    [
        (nn.Linear(100, 100), {"weight"}),
        (nn.Linear(100, 64), set()),
        (nn.Linear(1 << 15, 32), {"weight"}),
        (nn.Embedding(100, 100), set()),
        (nn.Embedding(1000, 100), {"weight"}),
        (nn.Embedding(10_000, 4), {"weight"}),
        (nn.LayerNorm(100_000), set()),
    ],
)
def test_large_weights_are_kept_and_small_ones_taken_directly(
    module: nn.Module, ghost_names: set[str]
) -> None:
    assert find_sites(module, Limits()).ghost_names == ghost_names


def test_one_weight_in_two_linear_layers_is_kept_once() -> None:
    model = nn.Sequential(nn.Linear(100, 100), nn.Linear(100, 100))
    model[1].weight = model[0].weight
    found = find_sites(model, Limits())
    assert found.ghost_names == {"0.weight"}
    assert [site.names.get("weight") for site in found.sites] == ["0.weight", "0.weight"]


def test_large_tied_weights_of_different_layers_are_refused_and_small_ones_are_not() -> None:
    model = nn.Sequential(nn.Embedding(500, 80), nn.Linear(80, 500, bias=False))
    model[1].weight = model[0].weight
    with pytest.raises(UnsupportedParameter, match=r"`0\.weight`.*embedding and linear"):
        find_sites(model, Limits())
    small = nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5, bias=False))
    small[1].weight = small[0].weight
    assert [type(s) for s in find_sites(small, Limits()).sites] == [EmbeddingSite, LinearSite]


def _replaced() -> nn.Module:
    layer = nn.Linear(3, 3)
    layer.forward = lambda x: x  # type: ignore[method-assign] # on purpose
    return layer


class _Holder(nn.Module):
    """Parameters in a list in a dictionary, beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.ParameterDict({"list": nn.ParameterList([torch.randn(3)])})
        self.layer = nn.Linear(3, 3)


@pytest.mark.parametrize(
    ("part", "inside"),
    [
        (_Holder(), ["part.items.list.0", "part.layer.weight", "part.layer.bias"]),
        (
            torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
            [f"part.{name}" for name in ("bias", *_ORIGINALS)],
        ),
        (
            nn.MultiheadAttention(4, 2, batch_first=True, bias=False),
            ["part.in_proj_weight", "part.out_proj.weight"],
        ),
    ],
)
def test_parameters_that_another_module_reads_are_run_with_that_module(
    part: nn.Module, inside: list[str]
) -> None:
    model = nn.ModuleDict({"part": part, "other": nn.Linear(2, 2)})
    first, second = find_sites(model, Limits()).sites
    assert isinstance(first, FallbackSite)
    assert first.module is part
    assert sorted(first.names.values()) == sorted(inside)
    assert type(second) is LinearSite


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: nn.MultiheadAttention(4, 2), "in_proj_weight"),
        (lambda: nn.BatchNorm1d(4), "mixes units"),
        (lambda: nn.Embedding(4, 2, max_norm=1.0), "max_norm"),
        (lambda: nn.Embedding(4, 2, sparse=True), "sparse"),
        (lambda: nn.Embedding(4, 2, scale_grad_by_freq=True), "scale_grad_by_freq"),
        (_replaced, "replaced on the instance"),
        (lambda: nn.ParameterList([torch.randn(3)]), "no forward of its own"),
    ],
)
def test_what_cannot_be_handled_is_refused_by_name(make: Any, match: str) -> None:
    with pytest.raises(UnsupportedParameter, match=match):
        find_sites(make(), Limits())


def test_a_module_run_under_vmap_has_no_sites_inside() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bare = nn.Parameter(torch.zeros(2))
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.Bilinear(2, 2, 2))

    model = nn.Sequential(nn.Linear(2, 2), Outer())
    found = find_sites(model, Limits())
    assert [type(s) for s in found.sites] == [FallbackSite, LinearSite]
    assert _names(model) == dict(model.named_parameters()).keys()
