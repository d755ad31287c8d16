"""Train with a loss of your own: a function or torch module whose value for a tuple depends on that tuple alone."""

import numpy as np
import torch
from torch import nn

import reldp


class ScaledMargin(nn.Module):
    """A hinge on squared distances with a learned scale, whose gradient is clipped and gets noise like all others."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, embeddings, batch):
        """Return (tuples, k) values from (tuples, 2 + k, dim): two endpoints, then k negatives."""
        anchor, partner, negatives = embeddings[:, :1], embeddings[:, 1:2], embeddings[:, 2:]
        gap = (anchor - partner).square().sum(-1) - (anchor - negatives).square().sum(-1)
        return torch.relu(1 + self.log_scale.exp() * gap).masked_fill(batch.mask, 0.0)


def main(folder: str = "runs/custom-loss", num_entities: int = 6_000, num_steps: int = 100):
    generator = np.random.default_rng(0)
    places = np.sort(generator.integers(0, 60, num_entities))  # people know others of their place
    features = generator.normal(size=(60, 16))[places] + generator.normal(size=(num_entities, 16))
    relations = [(person, person + 1) for person in range(num_entities - 1)]
    graph = reldp.EntityGraph.from_lists(range(num_entities), relations, features=features)
    capped = graph.cap_degrees(max_degree=3, seed=0)
    plan = reldp.PrivacyPlan.for_graph(
        capped, target_epsilon=4.0, num_negatives=4, expected_batch_size=100, num_steps=num_steps
    )
    encoder = reldp.FeatureEncoder.for_graph(capped, dim=16)
    result = reldp.Trainer(encoder, capped, plan, loss=ScaledMargin()).fit(folder)
    return result.certificate


if __name__ == "__main__":
    print(main().summary)
