"""The source's six tables of fixed-size batches, row by row, ours and as printed. Run as `python -m benchmarks.fixed_size_tables`.

Columns: certified Rényi (pairwise geometry, the source's), the same for realisable triples (`ball`, not in the source), lossless,
Wang et al. and Birrell et al. A row counts where ε rounds to the printed two decimals (`>=100` where that is printed).
"""

import argparse
import csv
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path

from accountants.fixed_size import FixedSizeMechanism, account

TABLES = Path(__file__).parents[1] / "tests" / "reference" / "fixed_size_tables.csv"

COLUMNS = (
    ("renyi", "pairwise", "eps_ours"), ("renyi", "ball", None), ("pld", "pairwise", "eps_lossless"),
    ("wang", "pairwise", "eps_wang"), ("birrell", "pairwise", "eps_birrell"),
)


def read_rows() -> list[dict[str, str]]:
    """The 264 rows."""
    with open(TABLES, encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def epsilon_of(row: dict[str, str], accountant: str, geometry: str) -> float:
    """Our ε of a row."""
    rate = Fraction(row["p"])
    mechanism = FixedSizeMechanism(
        dataset_size=rate.denominator, batch_size=rate.numerator, iterations=int(row["T"]), sigma=float(row["sigma"])
    )
    return account(mechanism=mechanism, delta=float(row["delta"]), accountant=accountant, geometry=geometry).epsilon


def rounds_to(epsilon: float, printed: str) -> bool:
    """Whether ε is the printed figure."""
    return epsilon >= 100 if printed == ">=100" else f"{epsilon:.2f}" == printed


def _column(task: tuple[list[dict[str, str]], str, str]) -> list[float]:
    rows, accountant, geometry = task
    return [epsilon_of(row, accountant, geometry) for row in rows]


def columns(rows: list[dict[str, str]], workers: int) -> tuple[list[list[float]], list[float]]:
    """Per column: all ε, and the wall seconds it took on `workers` processes that start cold.

    Rows of one (p, σ) stay together, as they share one-step work.
    """
    values, seconds = [], []
    groups = [[row for row in rows if (row["p"], row["sigma"]) == key] for key in sorted({(r["p"], r["sigma"]) for r in rows})]
    for accountant, geometry, _ in COLUMNS:
        with ProcessPoolExecutor(max_workers=workers) as pool:
            list(pool.map(len, [[]] * workers))
            began = time.perf_counter()
            found = pool.map(_column, [(group, accountant, geometry) for group in groups])
            by_row = {id(row): value for group, part in zip(groups, found) for row, value in zip(group, part)}
            seconds.append(time.perf_counter() - began)
        values.append([by_row[id(row)] for row in rows])
    return values, seconds


def main() -> None:
    """Prints the table, then counts and seconds per column."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    rows = read_rows()
    values, seconds = columns(rows, arguments.workers)
    heads = "".join(f"{f'{name}/{geometry}' if name == 'renyi' else name:>22}" for name, geometry, _ in COLUMNS)
    print(f"{'delta':>6}{'p':>8}{'sigma':>6}{'T':>7}{heads}   (ours | printed; * differs)")
    matches = [0] * len(COLUMNS)
    for i, row in enumerate(rows):
        line = f"{row['delta']:>6}{row['p']:>8}{row['sigma']:>6}{row['T']:>7}"
        for c, (_, _, printed) in enumerate(COLUMNS):
            same = printed is None or rounds_to(values[c][i], row[printed])
            matches[c] += same
            line += f"{values[c][i]:>12.4f} | {row[printed] if printed else '—':>5}{' ' if same else '*'} "
        print(line)
    for c, (name, geometry, printed) in enumerate(COLUMNS):
        count = f"{matches[c]} of {len(rows)} rows to two decimals" if printed else "not printed in the source"
        print(f"{name + '/' + geometry:<18}{count:<36}{seconds[c]:8.2f} s on {arguments.workers} processes")
    gains = sorted(100 * (1 - ball / pairwise) for pairwise, ball in zip(values[0], values[1]))
    print(f"ball below pairwise: median {gains[len(gains) // 2]:.2f} %, largest {gains[-1]:.2f} %; {sum(g > 1e-3 for g in gains)} gain")
    better = sum(ball < pld for ball, pld in zip(values[1], values[2])), sum(ours < pld for ours, pld in zip(values[0], values[2]))
    print(f"rows where Rényi is below lossless: ball {better[0]}, pairwise {better[1]}")


if __name__ == "__main__":
    main()
