"""Folders of sentence-transformers: what their modules.json lists, and the files that it names."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from reldp.encoders import sentence_modules
from reldp.encoders.loading import load_pretrained
from reldp.encoders.sentence_modules import MAX_MODULES
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError


@pytest.fixture
def copy(folders, tmp_path):
    """A copy of the BERT-type folder, to damage."""
    return shutil.copytree(folders["bert"], tmp_path / "copy")


def sentence_folder(folder, pooling, *modules):
    """Makes a model folder a sentence-transformers folder, as written by hand."""
    entries = [("", "Transformer"), ("1_Pooling", "Pooling"), *modules]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(entries)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
)
def test_a_sentence_transformers_folder_brings_its_own(copy, config, expected):
    loaded = load_pretrained(sentence_folder(copy, config, ("2_Normalize", "Normalize")))
    assert (loaded.pooling, loaded.max_length, loaded.normalize) == (expected, 20, True)


@pytest.mark.parametrize(
    "config",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode": "weightedmean"},
        {},
    ],
)
def test_a_pooling_that_we_do_not_have_is_refused_and_not_replaced(copy, config):
    with pytest.raises(EncoderError, match="`pooling`"):
        load_pretrained(sentence_folder(copy, config))


def test_other_modules_are_refused(copy):
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, ("2_LSTM", "LSTM"))
    with pytest.raises(EncoderError, match="LSTM"):
        load_pretrained(folder)


@pytest.mark.parametrize(
    ("kinds", "got"),
    [
        (["Normalize", "Transformer", "Pooling"], "Normalize then Transformer then Pooling"),
        (["Transformer", "Pooling", "Normalize", "Dense"], "Pooling then Normalize then Dense"),
        (["Transformer", "Dense", "Pooling"], "Transformer then Dense then Pooling"),
        (["Transformer", "Pooling", "Pooling"], "Pooling then Pooling"),
        (["Transformer", "Normalize"], "Transformer then Normalize"),
        (["Pooling"], "Pooling"),
        (["Transformer"], "Transformer"),
        ([], "none"),
    ],
)
def test_modules_in_another_order_are_refused(copy, kinds, got):
    listed = [{"path": f"{i}_{kind}", "type": f"my.{kind}"} for i, kind in enumerate(kinds)]
    (copy / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(EncoderError, match=rf"modules\.json, in this order, got .*{got[-30:]}\."):
        load_pretrained(copy)


@pytest.mark.parametrize(
    "config", [{"pooling_mode": "A" * 10**6}, {"pooling_mode_" + "A" * 10**6: True}]
)
def test_a_long_word_of_a_file_is_cut_in_the_line(copy, config):
    with pytest.raises(EncoderError, match="`pooling`") as refused:
        load_pretrained(sentence_folder(copy, config))
    assert len(str(refused.value)) < 200


def test_a_dense_layer_needs_a_known_activation(copy):
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"))
    (folder / "2_Dense").mkdir()
    config = {"in_features": 32, "out_features": 5, "activation_function": "my.code.Evil"}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
    save_file({"linear.weight": torch.ones(5, 32)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(EncoderError, match="Evil"):
        load_pretrained(folder)
    config["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
    assert load_pretrained(folder).dense[0].linear.out_features == 5


@pytest.mark.parametrize(
    ("config", "weight", "message"),
    [
        (
            {"in_features": 31, "out_features": 5},
            (5, 31),
            "got 31 in_f.* after vectors of length 32",
        ),
        ({"in_features": 32, "out_features": 5}, (5, 30), "size mismatch"),
        ({"in_features": 32, "out_features": 0}, (0, 32), "got 32 in_features and 0 out_features"),
        ({"in_features": "x", "out_features": 5}, (5, 32), "got x in_features"),
        ({"in_features": 32.0, "out_features": 5}, (5, 32), "got 32.0 in_features"),
        ({"in_features": 32, "out_features": "9" * 99}, (5, 32), r"and 9{20} out_features in"),
        ({"out_features": 5}, (5, 32), "in_features"),
    ],
)
def test_a_dense_layer_that_does_not_fit_is_one_line(copy, config, weight, message):
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
    save_file({"linear.weight": torch.ones(weight)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(EncoderError, match=message):
        TextEncoder.load(folder)


def test_a_dense_layer_with_nan_is_refused(copy):
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"))
    (folder / "2_Dense").mkdir()
    config = {"in_features": 32, "out_features": 5}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(config))
    weight = torch.full((5, 32), float("nan"))
    save_file({"linear.weight": weight}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(EncoderError, match=r"NaN or infinity in 'weight'"):
        TextEncoder.load(folder)


def write_dense(folder, in_features, out_features):
    folder.mkdir()
    config = {"in_features": in_features, "out_features": out_features, "bias": False}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {"linear.weight": torch.ones(out_features, in_features)}, folder / "model.safetensors"
    )


@pytest.fixture
def reads(monkeypatch):
    """The folders of dense layers that are read."""
    names, read = [], sentence_modules._read_dense

    def counted(folder, width):
        names.append(folder.name)
        return read(folder, width)

    monkeypatch.setattr(sentence_modules, "_read_dense", counted)
    return names


@pytest.mark.parametrize("alias", ["2_Dense", "./2_Dense", "1_Pooling/../2_Dense", "link"])
def test_a_dense_layer_is_read_once_however_often_it_is_listed(copy, reads, alias):
    """A list of a few bytes would take the memory of the layer for each of its entries."""
    folder = sentence_folder(
        copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"), (alias, "my.Dense")
    )
    write_dense(folder / "2_Dense", 32, 32)
    (folder / "link").symlink_to("2_Dense")
    with pytest.raises(EncoderError, match=r"each folder once in modules\.json, got '.*' twice"):
        load_pretrained(folder)
    assert reads == []


def test_many_modules_are_refused_before_one_is_read(copy, reads):
    many = [("2_Dense", "Dense")] * (MAX_MODULES - 1)
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, *many)
    write_dense(folder / "2_Dense", 32, 32)
    with pytest.raises(EncoderError, match=r"at most 32 modules in modules\.json, got 33"):
        load_pretrained(folder)
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, *many * 40)
    with pytest.raises(EncoderError, match=r"modules\.json of at most 65,536 bytes, got "):
        load_pretrained(folder)
    assert reads == []
    normalized = [("2_Normalize", "Normalize")] * (MAX_MODULES - 2)  # read from no folder
    assert load_pretrained(sentence_folder(copy, {"pooling_mode": "mean"}, *normalized)).normalize


def test_a_layer_that_does_not_fit_is_refused_before_its_weights_are_read(copy, monkeypatch):
    folder = sentence_folder(
        copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"), ("3_Dense", "Dense")
    )
    write_dense(folder / "2_Dense", 32, 6)
    write_dense(folder / "3_Dense", 32, 5)
    checked = []
    monkeypatch.setattr(
        sentence_modules,
        "check_weights_file",
        lambda path, **kind: checked.append(path.parent.name) or {"weight": (6, 32)},
    )
    with pytest.raises(EncoderError, match=r"got 32 in_features .* after vectors of length 6"):
        load_pretrained(folder)
    assert checked == ["2_Dense"]


def test_layers_that_fit_one_another_are_read_in_order(copy):
    folder = sentence_folder(
        copy, {"pooling_mode": "mean"}, ("2_Dense", "Dense"), ("3_Dense", "Dense")
    )
    write_dense(folder / "2_Dense", 32, 6)
    write_dense(folder / "3_Dense", 6, 5)
    assert [d.linear.out_features for d in load_pretrained(folder).dense] == [6, 5]


@pytest.mark.parametrize("path", ["..", "../x", "1_Pooling/../../x", "/tmp"])
def test_modules_elsewhere_are_refused(copy, path):
    folder = sentence_folder(copy, {"pooling_mode": "mean"}, (path, "Dense"))
    with pytest.raises(EncoderError, match="modules in folders of its own, got"):
        load_pretrained(folder)


def test_a_head_has_no_more_layers_than_a_saved_model_may_have(copy):
    hidden = [4] * (MAX_MODULES - 4)
    with pytest.raises(EncoderError, match="`head_hidden` must have at most 28 widths"):
        TextEncoder.load(copy, train="head", head_hidden=[*hidden, 4])
    encoder = TextEncoder.load(copy, train="head", head_hidden=hidden, normalize=True)
    encoder.save(copy.parent / "saved")
    assert len(load_pretrained(copy.parent / "saved").dense) == MAX_MODULES - 3
