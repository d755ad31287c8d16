"""Customers are protected, products are not: who bought what stays private.

The graph has two kinds of entities. Only customers are marked as protected, so the guarantee covers
only customers, and only their purchases are capped: a product may be bought by everybody. Negatives are
drawn from products alone. So a customer is never a negative of other tuples, and the same epsilon needs less
noise than if it could be.

    python examples/customers_and_products.py
"""

import numpy as np

import reldp


def make_graph(num_customers: int, num_products: int, seed: int) -> reldp.EntityGraph:
    """Return a graph in which customers buy products that lie near their taste, popular ones more often."""
    generator = np.random.default_rng(seed)
    products = generator.normal(size=(num_products, 16))
    tastes = generator.normal(size=(num_customers, 16))
    popularity = generator.exponential(size=num_products)
    purchases = set()
    for customer in range(num_customers):
        appeal = tastes[customer] @ products.T + popularity
        for product in np.argsort(-appeal)[: generator.integers(1, 9)]:
            purchases.add((f"customer-{customer}", f"product-{product}"))
    # Features of customers and of products differ by an unknown rotation.
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0]
    measured = np.concatenate([tastes, products @ rotation])
    measured += 0.3 * generator.normal(size=measured.shape)
    kinds = np.concatenate([np.ones(num_customers), -np.ones(num_products)])[:, None]
    ids = [f"customer-{i}" for i in range(num_customers)]
    ids += [f"product-{i}" for i in range(num_products)]
    return reldp.EntityGraph.from_lists(
        ids,
        sorted(purchases),
        features=np.concatenate([measured, kinds], axis=1).astype(np.float32),
        protected=[i < num_customers for i in range(len(ids))],
    )


def main(
    folder: str = "runs/customers-and-products",
    num_customers: int = 20_000,
    num_products: int = 3_000,
    num_steps: int = 400,
    batch_size: float = 200,
) -> tuple[reldp.Certificate, float, float]:
    graph = make_graph(num_customers, num_products, seed=1)
    test_graph = make_graph(1_000, 1_000, seed=2)  # other customers, other products

    # At most five purchases of each customer are used; products keep all of theirs.
    capped = graph.cap_degrees(max_degree=5, seed=0)
    print(capped.report)  # exact counts, which are sensitive: for your eyes only

    plan = reldp.PrivacyPlan.for_graph(
        capped,
        target_epsilon=2.0,
        negatives="unprotected",  # products only
        num_negatives=4,
        expected_batch_size=batch_size,
        num_steps=num_steps,
        clip_norm=0.3,
    )
    encoder = reldp.FeatureEncoder.for_graph(capped, hidden=(64,), dim=16)
    before = reldp.evaluate(encoder, test_graph)
    result = reldp.Trainer(encoder, capped, plan, learning_rate=5e-3, temperature=0.2).fit(folder)
    after = reldp.evaluate(result.encoder, test_graph)

    print(f"before: {before}")
    print(f"after:  {after}")
    print(result.certificate.summary)
    return result.certificate, before["mrr"], after["mrr"]


if __name__ == "__main__":
    main()
