"""What is printed, and where."""

import json
import math

from accountants.evidence import Evidence
from launch import output

ESTIMATE = Evidence(
    accountant="monte_carlo", direction="remove", kind="estimate", epsilon=4.0, delta=1.2e-5, standard_error=3e-7, details={"of": "delta"}
)
UNBOUNDED = Evidence(
    accountant="pld", direction="add", kind="bound", epsilon=math.inf, delta=1e-30, details={"reason": "delta is below the lost mass"}
)


def test_json_is_one_strict_document(capsys):
    output.print_json({"evidence": [UNBOUNDED.to_dict()], "numbers": (1.5, -math.inf)})
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    document = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert document["evidence"][0]["epsilon"] == "inf" and document["numbers"] == [1.5, "-inf"]


def test_an_estimate_never_looks_like_a_guarantee(capsys):
    output.print_evidence([ESTIMATE, UNBOUNDED])
    lines = capsys.readouterr().out.splitlines()
    (estimate,) = [line for line in lines if "monte_carlo" in line]
    assert "estimate (no guarantee)" in estimate and "1.2e-05 ± 3e-07" in estimate
    assert any("infinite because delta is below the lost mass" in line for line in lines)


def test_tables_are_not_cut_off_in_a_pipe(capsys):
    output.print_table(("name", "value"), [("x" * 100, "[bold]1[/bold]")])
    text = capsys.readouterr().out
    assert "x" * 100 in text and "[bold]1[/bold]" in text and "\x1b" not in text
