"""Train in a PyTorch loop of your own, with the ledger and the certificate of a run."""

import numpy as np
import torch

import reldp


def main(folder: str = "runs/custom-loop", num_entities: int = 6_000, num_steps: int = 100):
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
    step = reldp.PrivateStep(encoder, capped, plan, loss="logistic")

    optimizer = torch.optim.AdamW(step.parameters.values(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=num_steps)
    with step.record(folder) as run:  # counts every step in the ledger before it runs
        for number in run:
            run.backward()  # draws a batch, clips, adds noise, and sets .grad
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            if number % 50 == 0:
                print(f"step {number}: learning rate {scheduler.get_last_lr()[0]:.4f}")

    print(run.certificate.summary)
    return run.certificate


if __name__ == "__main__":
    main()
