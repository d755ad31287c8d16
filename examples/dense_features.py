"""An encoder of dense features learns from private relations: no text, no pretrained model.

Made-up researchers have 32 measured features each, of which only eight depend on their field. The private
relations say who worked with whom. A linear layer learns which features matter.

    python examples/dense_features.py
"""

import numpy as np

import reldp


def make_graph(num_entities: int, seed: int) -> reldp.EntityGraph:
    """Return researchers in 150 fields, who work with others of their field."""
    generator = np.random.default_rng(seed)
    fields = generator.integers(0, 150, num_entities)
    places = 1.5 * np.random.default_rng(0).normal(size=(150, 32))  # where each field lies
    places[:, 8:] = 0.0  # ... which only the first eight features show
    features = places[fields] + generator.normal(size=(num_entities, 32))
    relations = set()
    for person in range(num_entities):
        colleagues = np.flatnonzero(fields == fields[person])
        for other in generator.choice(colleagues, 2):
            if other != person:
                relations.add((min(person, int(other)), max(person, int(other))))
    return reldp.EntityGraph.from_lists(
        list(range(num_entities)), sorted(relations), features=features.astype(np.float32)
    )


def main(
    folder: str = "runs/dense-features",
    num_entities: int = 20_000,
    num_steps: int = 400,
    batch_size: float = 256,
) -> tuple[reldp.Certificate, float, float]:
    graph = make_graph(num_entities, seed=1)
    test_graph = make_graph(2_000, seed=2)  # other people, the same fields
    capped = graph.cap_degrees(max_degree=5, seed=0)

    plan = reldp.PrivacyPlan.for_graph(
        capped,
        target_epsilon=2.0,
        num_negatives=4,
        expected_batch_size=batch_size,
        num_steps=num_steps,
        clip_norm=0.3,
    )

    # Features are used as they are: scaling them by private averages would leak the averages.
    encoder = reldp.FeatureEncoder.for_graph(capped, dim=32)
    before = reldp.evaluate(encoder, test_graph)
    result = reldp.Trainer(encoder, capped, plan, learning_rate=5e-3, temperature=0.2).fit(folder)
    after = reldp.evaluate(result.encoder, test_graph)

    print(f"before: {before}")
    print(f"after:  {after}")
    print(result.certificate.summary)
    return result.certificate, before["mrr"], after["mrr"]


if __name__ == "__main__":
    main()
