import pytest
from benchmarks.relation_negatives import SETTINGS, compare

from tests.training.small import small_encoder, small_graph


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_every_setting_runs_and_is_recorded_with_its_noise():
    graph = small_graph()
    rows = compare(graph, graph, small_encoder, 1, (8.0,), batch=4.0, steps=2, max_relations=300)
    assert [row["negatives"] for row in rows] == list(SETTINGS)
    assert all(0 < row["mrr"][0] <= 1 and row["noise_multiplier"] > 0 for row in rows)
    assert len({row["noise_multiplier"] for row in rows}) == 3
