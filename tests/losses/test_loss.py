"""The protocol that a loss follows."""

from reldp.losses import Loss, RelationLoss


def test_the_losses_of_the_package_follow_the_protocol():
    assert isinstance(RelationLoss(), Loss)


def test_a_function_alone_does_not_say_whether_it_is_a_sum_over_negatives():
    assert not isinstance(lambda embeddings, endpoints, mask: embeddings.sum((1, 2)), Loss)
