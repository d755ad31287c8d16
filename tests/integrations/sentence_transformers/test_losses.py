"""Losses of sentence-transformers: those of one row give the same gradient, others are refused by name."""

import logging

import pytest
import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletDistanceMetric,
    TripletLoss,
)
from sentence_transformers.sentence_transformer.modules import Normalize
from sentence_transformers.util import dot_score, euclidean_sim

from reldp.encoders.adaptation import Adaptation
from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers import losses as module
from reldp.integrations.sentence_transformers.losses import REFUSED, UnitLengthLoss, as_tuple_loss
from reldp.integrations.sentence_transformers.models import SharedEncoder
from reldp.losses import InfoNCELoss, LossBatch, TripletMarginLoss
from reldp.training.loss_check import check_loss
from reldp.training.objective import Objective
from tests.integrations.sentence_transformers.small import TEXTS, tiny
from tests.training.small import small_parts

torch.set_num_threads(1)
COSINE, MANHATTAN = TripletDistanceMetric.COSINE, TripletDistanceMetric.MANHATTAN


def ranking(model, **settings):
    return MultipleNegativesRankingLoss(model, **settings)


def triplet(model, **settings):
    return TripletLoss(model, **settings)


def matryoshka(make, **settings):
    def made(model):
        sizes = {"matryoshka_dims": [32, 8], "matryoshka_weights": [1.0, 0.5], **settings}
        return MatryoshkaLoss(model, make(model), **sizes)

    return made


# A loss of one row, and the largest number of negatives that it takes.
ACCEPTED = {
    "ranking": (ranking, 3),
    "ranking with a scale": (lambda m: ranking(m, scale=7.0), 2),
    "ranking by dot products": (lambda m: ranking(m, scale=0.5, similarity_fct=dot_score), 2),
    "triplet": (triplet, 1),
    "triplet with a margin": (lambda m: triplet(m, triplet_margin=3.5), 1),
    "triplet by cosine": (lambda m: triplet(m, distance_metric=COSINE, triplet_margin=0.4), 1),
    "matryoshka of ranking": (matryoshka(ranking), 2),
    "matryoshka of dot products": (matryoshka(lambda m: ranking(m, similarity_fct=dot_score)), 2),
    "matryoshka of triplet": (matryoshka(lambda m: triplet(m, triplet_margin=1.5)), 1),
    "matryoshka of cosine": (matryoshka(lambda m: triplet(m, distance_metric=COSINE)), 1),
}


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("anchor", [0, 1])
@pytest.mark.parametrize("normalize", [False, True], ids=["plain", "normalized"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_value_and_gradient_are_those_of_sentence_transformers_on_one_row(
    tmp_path, name, normalize, anchor
):
    """The stock loss runs on a batch of one row, through the model; ours on the tuple's embeddings."""
    make, k = ACCEPTED[name]
    model = tiny(tmp_path, *([Normalize()] if normalize else []))
    row = TEXTS[: 2 + k]
    stock = make(model)
    model.eval()
    columns = [*reversed(row[:2]), *row[2:]] if anchor else row
    value = stock([model.preprocess([text]) for text in columns], torch.zeros(1))
    value.backward()
    theirs = {n: grad.clone() for n, grad in gradients(model).items()}
    model.zero_grad()

    loss = as_tuple_loss(stock, model)
    shared = SharedEncoder(model, Adaptation(train="full"))
    encoder = shared.encoder
    table = encoder.tokenize(row)
    embeddings = encoder.embed(encoder.rows(table, list(range(len(row)))))
    batch = LossBatch.of([[anchor] * k], [[False] * k])
    ours = loss(embeddings[None], batch).sum()
    ours.backward()
    assert torch.allclose(ours, value, rtol=1e-4, atol=1e-5)
    assert float(value.detach()) > 1e-3
    found = gradients(model)
    assert set(found) >= {n for n, grad in theirs.items() if grad.abs().max() > 0}
    largest = max(float(grad.abs().max()) for grad in theirs.values())
    assert largest > 1e-4
    for parameter, grad in theirs.items():
        if parameter in found:
            assert torch.allclose(found[parameter], grad, rtol=1e-3, atol=1e-4 * largest), parameter


def test_several_negatives_are_the_sum_of_their_triplets(tmp_path):
    model = tiny(tmp_path)
    stock = triplet(model, triplet_margin=2.0)
    rows = torch.randn((4, 32), generator=torch.Generator().manual_seed(0))
    wanted = sum(
        stock.compute_loss_from_embeddings([rows[:1], rows[1:2], rows[i : i + 1]], None)
        for i in (2, 3)
    )
    values = as_tuple_loss(stock, model)(rows[None], LossBatch.of([[0, 0]], [[False, False]]))
    assert torch.allclose(values.sum(), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_accepted_loss_passes_the_check_of_losses(tmp_path, name):
    encoder, _, plan = small_parts(num_negatives=2)
    model = tiny(tmp_path)
    make = ACCEPTED[name][0]
    loss = as_tuple_loss(make(model), model)
    if hasattr(loss, "dims"):
        loss.dims = (4, 2)
    check_loss(Objective(encoder, loss, plan))


def test_losses_of_reldp_and_functions_pass_as_they_are(tmp_path):
    def function(embeddings, batch):
        return embeddings.sum((1, 2))

    for loss in (None, "triplet", InfoNCELoss(), function):
        assert as_tuple_loss(loss, tiny(tmp_path)) is loss


def test_a_class_is_made_with_the_model(tmp_path):
    assert as_tuple_loss(TripletLoss, tiny(tmp_path)) == TripletMarginLoss(margin=5.0)


def test_the_losses_of_the_library_are_all_known():
    names = {n for n, kind in vars(losses).items() if isinstance(kind, type) and "Loss" in n}
    helpers = {"BatchHardTripletLossDistanceFunction"}
    assert names - helpers == set(REFUSED) | set(module._MAPPED)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_loss_of_more_than_a_row_is_refused_by_name(tmp_path, name):
    why, instead = REFUSED[name]
    with pytest.raises(ConfigError) as refused:
        as_tuple_loss(getattr(losses, name), tiny(tmp_path))
    assert str(refused.value) == (
        f"`loss` must be a function of one row, got {name}: {why}. Use {instead}."
    )


class OwnRanking(MultipleNegativesRankingLoss):
    pass


REFUSED_SETTINGS = {
    "with directions=": lambda m: ranking(m, directions=("query_to_doc", "doc_to_query")),
    "with partition_mode='joint'": lambda m: ranking(m, partition_mode="per_direction"),
    "with hardness_mode=None": lambda m: ranking(
        m, hardness_mode="hard_negatives", hardness_strength=1.0
    ),
    "with gather_across_devices=False": lambda m: ranking(m, gather_across_devices=True),
    "similarity_fct euclidean_sim": lambda m: ranking(m, similarity_fct=euclidean_sim),
    "got MANHATTAN": lambda m: triplet(m, distance_metric=MANHATTAN),
    "got a function": lambda m: triplet(m, distance_metric=lambda a, b: (a - b).sum(-1)),
    "with n_dims_per_step=-1": matryoshka(ranking, n_dims_per_step=1),
    "got CoSENTLoss": matryoshka(CoSENTLoss),
    "got a dictionary": lambda m: {"one": ranking(m)},
    "got the class": lambda m: MatryoshkaLoss,
    "got OwnRanking: it is not known here": OwnRanking,
}


@pytest.mark.parametrize("words", REFUSED_SETTINGS)
def test_settings_that_look_at_more_than_a_row_are_refused(tmp_path, words):
    model = tiny(tmp_path)
    with pytest.raises(ConfigError, match=words):
        as_tuple_loss(REFUSED_SETTINGS[words](model), model)


def test_a_loss_of_another_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="made with the model that is trained"):
        as_tuple_loss(triplet(tiny(tmp_path)), tiny(tmp_path))


def test_the_other_meaning_of_negatives_is_said_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(module, "_said", set())
    model = tiny(tmp_path)
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        for _ in range(2):
            as_tuple_loss(ranking(model), model)
    assert [record.message for record in caplog.records] == [module._NEGATIVES_OF_THE_ROW]


def test_a_loss_on_unit_vectors_describes_what_it_holds():
    inner = UnitLengthLoss(TripletMarginLoss(margin=2.0)).describe()["loss"]
    assert inner == {"name": "TripletMarginLoss", "margin": 2.0, "pairing": "one"}
