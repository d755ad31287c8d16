"""Messages name options that exist, and no others."""

import pytest

from reldp.cli.main import main
from reldp.cli.messages import as_shell_message
from tests.cli.train_flags import lines


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("account", "`noise_multiplier` must be small.", "--noise-multiplier must be small."),
        ("account", "`analyshs` must be a setting.", "analyshs must be a setting."),
        ("verify", "`folder` must be new.", "folder must be new."),
        ("train", "`microbatch_units` must be 1.", "performance.microbatch_units must be 1."),
        ("train", "`threads` must be 1.", "--threads must be 1."),
        ("train", "`data.public_pool` must be.", "data.public_pool must be."),
        (
            "inspect",
            "Mend it, or drop them with drop={'self_relations'}.",
            "Mend it, or drop them with --drop self_relations.",
        ),
        ("train", "Use `eval_shares_ids=True`.", "Use --set data.eval_shares_ids=true."),
        ("budget", "Use `eval_shares_ids=True`.", "Use --set data.eval_shares_ids=true."),
        ("verify", "Use `eval_shares_ids=True`.", "Use eval_shares_ids=True."),
        ("demo", "Mend it, or drop them with drop={'self_relations'}.", "Mend it."),
        ("verify", "got 1; set `show_ids` to see the ids here.", "got 1."),
        (
            "inspect",
            "got 1; set `show_ids` to see the ids here.",
            "got 1; set --show-ids to see the ids here.",
        ),
        (
            "train",
            "`graph` must have text, got features only. Use FeatureEncoder for them.",
            "GRAPH must have text, got features only. Leave out --model: a linear layer is trained on features.",
        ),
        (
            "encode",
            "`graph` must have features, got text only. Use TextEncoder for entities with text.",
            "--graph must have features, got text only.",
        ),
        (
            "train",
            "One has more. Use cap_degrees to drop relations.",
            "One has more. Leave out --promise-degrees to drop relations at random instead.",
        ),
        (None, "`x` is\n\x1b[31mred.", "x is \\x1b[31mred."),
    ],
)
def test_names_become_what_the_user_can_type(command, message, shown):
    assert as_shell_message(message, command) == shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["account", "--num-steps", "1e-400"], "--num-steps must be a whole number"),
        (["account", "--delta", "1e-400"], "--delta must be 0 or at least 1e-300 in size"),
        (["account", "--num-steps", "9" * 5000], "--num-steps must be a whole number"),
        (["calibrate", "--analysis", "analyshs"], "--analysis must be one of"),
        (
            ["train", "--set", "privacy.analyshs=1"],
            "reldp: analyshs must be a setting of [privacy]",
        ),
        (["train", "--set", "performance.threads=99999999999"], "--threads must be"),
        (
            ["train", "--set", "performance.microbatch_units=9999999999"],
            "performance.microbatch_units must",
        ),
        (["train", "wordnet-verbs", "--drop", "x"], "drop"),
        (["train", "wordnet-verbs", "--num-steps", "1e23"], "at most 9007199254740992 in this"),
        (["train", "wordnet-verbs", "--epsilon", "4"], "Did you mean --target-epsilon?"),
        (["train", "wordnet-verbs", "--deltaa", "4"], "Did you mean --delta?"),
        (["train", "wordnet-verbs", "--sizes", "declared"], "--min-entities must be given for"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["--noise-multiplier", "1", "-o", "run"] if arguments[0] == "train" else []
    assert main([*arguments, *given]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(lines(said)) == 1
    assert list(tmp_path.iterdir()) == []


def test_drop_reaches_the_graph_in_every_command_that_has_it(tmp_path, capsys):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "entities.tsv").write_text("id\ttext\na\tx\nb\ty\n")
    (folder / "relations.tsv").write_text("source\ttarget\na\tb\na\ta\n")
    commands = (
        ["inspect", str(folder), "--no-plan"],
        ["train", str(folder), "--noise-multiplier", "1", "-o", str(tmp_path / "run")],
        ["evaluate", "no-model", "--graph", str(folder)],
        ["encode", "no-model", "--graph", str(folder), "-o", str(tmp_path / "file.parquet")],
    )
    for command in commands:
        assert main(command) == 2
        assert "--drop self_relations" in capsys.readouterr().err
        main([*command, "--drop", "self_relations"])
        assert "self-relations" not in capsys.readouterr().err
