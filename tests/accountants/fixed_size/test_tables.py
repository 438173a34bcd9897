"""The six tables of the source to the printed two decimals: all certified rows, every ninth of the others, all of those in a slow run."""

import pytest

from accountants.fixed_size import account
from tests.accountants.fixed_size import direct

COLUMNS = {"renyi": "eps_ours", "pld": "eps_lossless", "wang": "eps_wang", "birrell": "eps_birrell"}
OTHERS = ("pld", "wang", "birrell")
ROWS = direct.rows("fixed_size_tables.csv")


def reproduces(row: dict[str, str], accountant: str) -> bool:
    """Whether ε rounds to the printed figure; `>=100` stands for any value from 100 on."""
    epsilon = account(mechanism=direct.mechanism_of(row), delta=float(row["delta"]), accountant=accountant).epsilon
    printed = row[COLUMNS[accountant]]
    return epsilon >= 100 if printed == ">=100" else f"{epsilon:.2f}" == printed


def test_all_rows_are_there():
    assert len(ROWS) == 264


@pytest.mark.parametrize("accountant", OTHERS)
def test_every_ninth_row(accountant):
    assert [row for row in ROWS[4::9] if not reproduces(row, accountant)] == []


@pytest.mark.slow
@pytest.mark.parametrize("accountant", OTHERS)
def test_every_row(accountant):
    assert [row for row in ROWS if not reproduces(row, accountant)] == []


def test_certified_renyi_reproduces_every_row():
    """The whole column is fast enough for the quick run."""
    assert [row for row in ROWS if not reproduces(row, "renyi")] == []


@pytest.mark.parametrize("iterations, pairwise, ball", [("16000", 2.226, 2.086), ("64000", 4.765, 4.316)])
def test_gain_of_realisable_triples(iterations, pairwise, ball):
    row = next(r for r in ROWS if (r["delta"], r["p"], r["sigma"], r["T"]) == ("1e-6", "0.0025", "2", iterations))
    mechanism = direct.mechanism_of(row)
    assert account(mechanism=mechanism, delta=1e-6).epsilon == pytest.approx(pairwise, abs=5e-4)
    evidence = account(mechanism=mechanism, delta=1e-6, geometry="ball")
    assert evidence.epsilon == pytest.approx(ball, abs=5e-4) and evidence.kind == "bound"
