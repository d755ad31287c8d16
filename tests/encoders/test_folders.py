import pytest
import torch

from reldp.encoders.folders import new_folder, read_json, state_hash, write_json
from reldp.errors import EncoderError


def test_a_folder_appears_only_when_everything_is_written(tmp_path):
    target = tmp_path / "deep" / "model"
    with new_folder(target) as new:
        (new / "file").write_text("whole")
        assert not target.exists()
    assert (target / "file").read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    target = tmp_path / "model"
    with new_folder(target) as new:
        (new / "file").write_text("old")

    def write_half():
        with new_folder(target, overwrite=True) as new:
            (new / "file").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_half()
    assert (target / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_overwriting_replaces_the_whole_folder_and_only_on_request(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    with new_folder(target) as new:
        (new / "old").write_text("1")
    with pytest.raises(EncoderError, match="new or empty"), new_folder(target):
        pass
    with new_folder(target, overwrite=True) as new:
        (new / "new").write_text("2")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_in_the_way_is_never_replaced(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(EncoderError, match="the file"), new_folder(tmp_path / "model"):
        pass
    assert (tmp_path / "model").read_text() == "mine"


def test_json_that_is_missing_or_damaged_is_named(tmp_path):
    write_json(tmp_path / "a" / "x.json", {"k": [1]})
    assert read_json(tmp_path / "a" / "x.json") == {"k": [1]}
    with pytest.raises(EncoderError, match=r"y\.json"):
        read_json(tmp_path / "y.json")
    (tmp_path / "z.json").write_text("{")
    with pytest.raises(EncoderError, match=r"damaged z\.json"):
        read_json(tmp_path / "z.json")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_the_hash_sees_names_types_shapes_and_every_value(dtype):
    state = {"a": torch.arange(6).to(dtype), "b": torch.zeros((), dtype=dtype)}
    same = {"b": torch.zeros((), dtype=dtype), "a": torch.arange(6).to(dtype)}
    changed = torch.arange(6).to(dtype)
    changed[5] = 7
    others = [
        {**state, "a": changed},
        {**state, "a": state["a"].view(2, 3)},
        {**state, "a": state["a"].to(torch.float64)},
        {"c": state["a"], "b": state["b"]},
    ]
    hashes = {state_hash(other) for other in [state, *others]}
    assert state_hash(state) == state_hash(same)
    assert len(hashes) == 5


def test_a_name_that_comes_twice_is_damage(tmp_path):
    path = tmp_path / "encoder.json"
    path.write_text('{"dim": 9, "dim": 8}')
    with pytest.raises(EncoderError, match=r"a damaged encoder\.json"):
        read_json(path)
    assert read_json(path, is_strict=False) == {"dim": 8}
