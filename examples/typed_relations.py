"""Train on relations that have a type, a small knowledge graph, and rank by type."""

import numpy as np

import reldp


def supply_chain(num_companies: int, seed: int) -> reldp.EntityGraph:
    """Return companies that compete within their stage of a chain and supply those of the next one."""
    generator = np.random.default_rng(seed)
    companies = np.arange(num_companies)
    angles = 2 * np.pi / 30 * (companies * 30 // num_companies)[:, None] * np.arange(1, 9)
    features = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    features += generator.normal(scale=0.4, size=features.shape)
    customers = (companies + num_companies // 30) % num_companies
    relations = np.concatenate([np.c_[companies[:-1], companies[1:]], np.c_[companies, customers]])
    types = ["competes"] * (num_companies - 1) + ["supplies"] * num_companies
    return reldp.EntityGraph.from_lists(companies, relations, types=types, features=features)


def main(folder: str = "runs/typed-relations", num_companies: int = 6_000, num_steps: int = 200):
    graph, test = supply_chain(num_companies, seed=0), supply_chain(900, seed=1)
    graph = graph.with_types(["competes", "supplies"])  # a public list, declared without the data
    capped = graph.cap_degrees(max_degree=4, seed=0)
    plan = reldp.PrivacyPlan.for_graph(
        capped, target_epsilon=4.0, num_negatives=4, expected_batch_size=200, num_steps=num_steps
    )
    encoder = reldp.FeatureEncoder.for_graph(capped, dim=16)
    before = reldp.evaluate(encoder, test)  # by cosine, which knows no direction
    result = reldp.Trainer(encoder, capped, plan, loss="complex", learning_rate=0.02).fit(folder)
    after = reldp.evaluate(result.encoder, test, loss=result.loss)  # by the trained scores
    for name in test.type_names:
        print(
            f"{name}: MRR {before.by_type[name]['mrr']} before, {after.by_type[name]['mrr']} after"
        )
    return result.certificate, before, after


if __name__ == "__main__":
    print(main()[0].summary)
