"""Train a CNN of your own: photographs of the same place are related, and each photograph is protected."""

import numpy as np
from torch import nn

import reldp
from reldp.encoders import Column


def make_graph(num_images: int, seed: int) -> reldp.EntityGraph:
    """Return noisy images of 60 places, 8 x 8 pixels; each is related to at most two of its place."""
    generator = np.random.default_rng(seed)
    places = np.sort(generator.integers(0, 60, num_images))
    scenes = np.random.default_rng(0).normal(size=(60, 64))
    images = scenes[places] + 1.5 * generator.normal(size=(num_images, 64))
    relations = [(i, i + 1) for i in range(num_images - 1) if places[i] == places[i + 1]]
    return reldp.EntityGraph.from_lists(range(num_images), relations, features=images)


def main(folder: str = "runs/custom-module", num_images: int = 12_000, num_steps: int = 150):
    graph, test_graph = make_graph(num_images, seed=1), make_graph(1_500, seed=2)
    capped = graph.cap_degrees(max_degree=2, seed=0)
    plan = reldp.PrivacyPlan.for_graph(
        capped, target_epsilon=4.0, num_negatives=4, expected_batch_size=200, num_steps=num_steps
    )
    # Any module whose rows are independent; GroupNorm or LayerNorm in place of batch normalization.
    cnn = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 4 * 4, 32)),
    )
    encoder = reldp.ModuleEncoder(cnn, Column("features", shape=(1, 8, 8)))
    before = reldp.evaluate(encoder, test_graph)
    result = reldp.Trainer(encoder, capped, plan, learning_rate=5e-3).fit(folder)
    after = reldp.evaluate(result.encoder, test_graph)
    print(f"before: {before}\nafter:  {after}\n{result.certificate.summary}")
    return result.certificate, before["mrr"], after["mrr"]


if __name__ == "__main__":
    main()
