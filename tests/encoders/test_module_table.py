import numpy as np
import pytest
from torch import nn

from reldp.encoders.inputs import Array, Column
from reldp.encoders.module_table import ModuleTable, named_inputs
from reldp.errors import EncoderError
from reldp.graph import EntityGraph
from reldp.training.identity import table_sha256


class Net(nn.Module):
    def forward(self, image, numbers, scale=1.0):
        return image


def test_one_input_is_for_the_first_argument():
    assert list(named_inputs(nn.Sequential(nn.Linear(2, 2)), Column("a", "b"))) == ["input"]
    assert list(named_inputs(Net(), {"image": "a", "numbers": ["b", "c"]})) == ["image", "numbers"]
    assert list(named_inputs(Net(), {"image": "a", "numbers": "b", "scale": "c"}))[2] == "scale"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"image": "a"}, "argument 'numbers' of Net gets, got nothing"),
        ("a", "argument 'numbers' of Net"),
        ({"image": "a", "numbers": "b", "imgae": "c"}, "got 'imgae'. Did you mean image"),
        ({}, "got nothing"),
        ({"image": 3, "numbers": "b"}, "where 'image' comes from, got int"),
    ],
)
def test_arguments_without_an_input_and_inputs_without_an_argument_are_refused(inputs, said):
    with pytest.raises(EncoderError, match=said):
        named_inputs(Net(), inputs)


def test_a_module_without_named_arguments_is_refused():
    class Unnamed(nn.Module):
        def forward(self, *rows):
            return rows[0]

    with pytest.raises(EncoderError, match="argument by name, got Unnamed"):
        named_inputs(Unnamed(), "a")


def graph(ages):
    table = {"id": [1, 2, 3], "text": ["a", "b", "c"], "age": ages}
    return EntityGraph.from_arrow(table, {"source": [1], "target": [2]})


def test_a_pool_follows_the_graph_and_the_content_is_hashed():
    inputs = {"image": Array(np.arange(12.0).reshape(6, 2), ids=range(6)), "age": Column("age")}
    first = ModuleTable.of(inputs, graph([10, 20, 30]), np.arange(3))
    joined = first.join(ModuleTable.of(inputs, graph([40, 50, 60]), np.array([2, 0])))
    assert len(joined) == 5
    rows = joined.rows()
    assert rows["age"].take(np.arange(5)).tolist() == [10, 20, 30, 60, 40]
    assert rows["image"].take([3]).tolist() == [[6.0, 7.0]]
    capped = graph([1, 2, 3]).promise_degrees(1)
    other = ModuleTable.of(inputs, graph([10, 20, 31]), np.arange(3))
    assert table_sha256(first, capped) != table_sha256(other, capped)
    assert table_sha256(first, capped) == table_sha256(
        ModuleTable.of(inputs, graph([10, 20, 30]), np.arange(3)), capped
    )
