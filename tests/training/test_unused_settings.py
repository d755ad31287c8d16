"""A setting that a run would not use is refused, and one with its default is not."""

import pytest

from reldp.cli.main import main
from reldp.errors import ConfigError
from reldp.graph import EntityGraph
from reldp.training.recipe import Recipe
from reldp.training.recipe_settings import SECTIONS
from reldp.training.unused_settings import refuse_unused_encoder, refuse_unused_learning
from tests.training.small import small_graph

USED = {
    "lora": {"lora_rank": 3, "lora_alpha": 2.0, "lora_targets": "query-value", "lora_layers": 1},
    "head": {"hidden": [5], "dim": 7},
    "pooling": {"pooling": "mean"},
    "full": {"max_length": 5, "dtype": "bfloat16"},
    "last:2": {"attention": "short", "revision": "main"},
}
OF_FEATURES = {"hidden": [5], "dim": 7, "activation": "tanh", "normalize": True, "seed": 3}
ALL = {name: value for settings in USED.values() for name, value in settings.items()} | OF_FEATURES


def encoder(**changes):
    return {name: setting.default for name, setting in SECTIONS["encoder"].items()} | changes


@pytest.mark.parametrize("train", USED)
def test_a_text_model_takes_what_it_uses_alone(train):
    refuse_unused_encoder(encoder(train=train, **USED[train]), of_features=False)
    for other in {"lora", "head"} - {train}:
        for name, value in USED[other].items():
            with pytest.raises(
                ConfigError, match=f"`{name}` must be left out with train = {train}"
            ):
                refuse_unused_encoder(encoder(train=train, **{name: value}), of_features=False)
    with pytest.raises(ConfigError, match="`activation` must be left out"):
        refuse_unused_encoder(encoder(train=train, activation="tanh"), of_features=False)


@pytest.mark.parametrize("name", [*ALL, "train"])
def test_features_take_what_their_encoder_has(name):
    changes = {name: ALL.get(name, "garbage")}
    if name in OF_FEATURES:
        refuse_unused_encoder(encoder(**changes), of_features=True)
        return
    with pytest.raises(ConfigError, match=f"`{name}` must be left out for a graph with features"):
        refuse_unused_encoder(encoder(**changes), of_features=True)


@pytest.mark.parametrize(("train", "name"), [("full", "lora_rank"), ("lora", "activation")])
def test_a_default_is_refused_where_it_was_given_and_not_where_a_file_has_it(train, name):
    refuse_unused_encoder(encoder(train=train), of_features=False)
    refuse_unused_encoder(encoder(train=train), {"train"}, of_features=False)
    with pytest.raises(ConfigError, match=f"`{name}` must be left out with train = {train}"):
        refuse_unused_encoder(encoder(train=train), {"train", name}, of_features=False)
    assert Recipe.from_values(
        {"encoder": {name: "relu"}} if name == "activation" else {}
    ).given == ({name} if name == "activation" else frozenset())
    assert Recipe.from_toml(Recipe.template()).given == frozenset()


def test_training_nothing_is_refused():
    with pytest.raises(ConfigError, match="must name weights to train, got 'none'"):
        refuse_unused_encoder(encoder(train="none"), of_features=False)


@pytest.mark.parametrize("loss", ["infonce", "logistic", "distmult", "hinge", "triplet", "cosine"])
def test_a_margin_belongs_to_losses_that_have_one(loss):
    settings = {"loss": loss, "margin": 2.0, "objective": None}
    if loss in ("hinge", "triplet", "cosine"):
        refuse_unused_learning(settings)
        return
    with pytest.raises(ConfigError, match=f"`margin` must be left out for the loss {loss}"):
        refuse_unused_learning(settings)
    refuse_unused_learning(settings | {"objective": "hinge"})
    refuse_unused_learning(settings | {"margin": None})


def test_a_run_with_an_unused_setting_spends_nothing(tmp_path, capsys):
    graph, run = tmp_path / "graph", tmp_path / "run"
    small_graph().write(graph)
    flags = ["--target-epsilon", "4", "--delta", "1e-4", "-o", str(run)]
    assert main(["train", str(graph), *flags, "--train", "garbage"]) == 2
    assert "--train must be left out for a graph with features" in capsys.readouterr().err
    assert main(["train", str(graph), *flags, "--set", "learning.margin=3"]) == 2
    assert "learning.margin must be left out for the loss infonce" in capsys.readouterr().err
    assert not run.exists()
    assert not (graph / "sizes.private.json").exists()


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbf[privacy]\ntarget_epsilon = 4\n")
    assert Recipe.read(path, {}).values["privacy"]["target_epsilon"] == 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--loss", "distmult"], "--loss must be untyped for relations without a type"),
        (["--clipping", "pair"], "--loss must be a sum over negatives"),
        (["--eval-graph", "TEXTS"], "--eval-graph must be one that encoder and loss can evaluate"),
        (["--no-privacy"], "--target-epsilon must be left out with --no-privacy"),
        (["--delta", "2"], "--delta must be"),
        (["--target-epsilon", "nan"], "--target-epsilon must be a finite number"),
    ],
)
def test_what_can_never_work_is_refused_before_sizes_are_released(tmp_path, capsys, flags, words):
    graph, run, texts = tmp_path / "graph", tmp_path / "run", tmp_path / "texts"
    small_graph().write(graph)
    pairs = [(f"t{i}", f"t{i + 1}") for i in range(5)]
    EntityGraph.from_lists([f"t{i}" for i in range(6)], pairs, text=list("abcdef")).write(texts)
    given = [str(texts) if flag == "TEXTS" else flag for flag in flags]
    command = ["train", str(graph), "-o", str(run), "--delta", "1e-4", "--target-epsilon", "4"]
    assert main([*command, *given]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Private sizes were released" not in said
    assert not (graph / "sizes.private.json").exists()
