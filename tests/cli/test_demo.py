import json

from reldp.cli.main import main


def test_the_demo_prices_the_papers_default(capsys):
    assert main(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    prices = {
        (p["clipping"], p["analysis"], p["accountant"]): p["epsilon"] for p in found["prices"]
    }
    assert 6.3 <= prices["frequency", "claimed", "rdp"] <= 6.5
    assert 0.455 <= prices["tuple", "anchored", "pld"] <= 0.465
    assert prices["pair", "replacement", "pld"] < prices["tuple", "anchored", "pld"]
