"""`build_report`: from a run's folder to the folder of its report."""

import contextlib
import dataclasses
import logging
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from accountants.evidence import DIRECTIONS
from engine.files import write_atomically
from engine.report import figures, tables, words
from engine.report.contents import Contents, Search, Strategy, read_contents
from engine.report.curves import Curves, fixed_size_curves, privacy_curves
from engine.report.page import Picture, Section, page
from engine.report.style import number
from engine.report.words import Passage

FOLDER, PAGE = "report", "report.html"

logger = logging.getLogger("bandsmith")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What was written.

    Attributes:
      page: the HTML file.
      figures: the PNG files, which the page also holds.
      finished: whether the run has a strategy.
      notes: what is missing from the figures, one sentence each.
      seconds: wall time.
    """

    page: Path
    figures: tuple[Path, ...]
    finished: bool
    notes: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "page": str(self.page), "figures": [str(path) for path in self.figures], "finished": self.finished, "notes": list(self.notes),
            "seconds": self.seconds,
        }


def build_report(folder: Path, *, out: Path | None = None, storage: str | None = None) -> Report:
    """Write the report of a run: each file appears whole or not at all, the page last. The same run gives the same page.

    Args:
      folder: of the run, finished or not.
      out: where to write; None means `report` in the run's folder.
      storage: of the study; None means the run's own.

    Raises:
      InputError: there is no run in the folder, or a file of it is damaged.
      OSError: `out` cannot be written.
    """
    started = time.perf_counter()
    contents = read_contents(folder, storage=storage)
    curves = _curves(contents.strategy) if contents.strategy is not None else Curves(curves=(), notes=())
    pictures = _pictures(contents, curves)
    notes = (*curves.notes, *_left_out(contents.search))
    text = _page(contents, pictures, notes)
    out = Path(folder).absolute() / FOLDER if out is None else Path(out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in pictures.values():
        paths.append(out / f"{picture.name}.png")
        write_atomically(paths[-1], picture.png)
    write_atomically(out / PAGE, text)
    return Report(
        page=out / PAGE, figures=tuple(paths), finished=contents.strategy is not None, notes=notes, seconds=time.perf_counter() - started,
    )


def report_at_the_end(folder: Path, *, storage: str | None = None) -> Report | None:
    """`build_report` of a run that has just ended; whatever goes wrong is a warning, since no page is worth a strategy.

    An older page is removed then: it would be about another strategy.
    """
    try:
        return build_report(folder, storage=storage)
    except Exception as error:
        logger.warning("No report was written.", exc_info=error)
        warnings.warn(f"No report was written, for {type(error).__name__}: {error}; `bandsmith report` tries again.", stacklevel=2)
        with contextlib.suppress(OSError):
            (Path(folder) / FOLDER / PAGE).unlink(missing_ok=True)
        return None


def _curves(strategy: Strategy) -> Curves:
    epsilon = strategy.problem.epsilon
    if strategy.fixed_size:
        return fixed_size_curves(strategy.mechanism, epsilon=epsilon)
    return privacy_curves(strategy.mechanism, epsilon=epsilon, seed=int(strategy.document["seeds"].get("run", 0)))


def _pictures(contents: Contents, curves: Curves) -> dict[str, Picture]:
    search, strategy = contents.search, contents.strategy
    made = []
    if search is not None and any(figures.ranked(search.rows, state) for state in ("COMPLETE", "PRUNED")):
        made += [_rmse_picture(contents), _history_picture(search, strategy)]
    lines = _coefficient_lines(contents)
    if any(len(column) > 1 for *_, column in lines):
        made.append(_coefficients_picture(lines, strategy))
    if curves.curves:
        made.append(_privacy_picture(curves, strategy))
    return {picture.name: picture for picture in made}


def _rmse_picture(contents: Contents) -> Picture:
    search, strategy = contents.search, contents.strategy
    best = next(iter(search.best.values()), None)
    lowest = "" if best is None else (
        f" The smallest fully evaluated one is {number(best.rmse)} at bandwidth {best.configuration.bandwidth} ({best.configuration.scheme})."
    )
    failed = sum(row["state"] == "FAIL" for row in search.rows)
    lost = f" Trials that failed have no RMSE and are not drawn: {failed}." if failed else ""
    return Picture(
        name="rmse_by_bandwidth", png=figures.png(figures.rmse_by_bandwidth(search, strategy, contents.lower_limit)),
        alternative=f"Scatter plot of the RMSE of {len(search.rows)} trials against their bandwidth, one colour and marker per scheme.{lowest}",
        caption=(
            "Both axes are logarithmic. Error bars are ± 2 standard errors and often smaller than the marker. Faint dots are trials that were "
            f"stopped early, on few samples.{lost}"
            + ("" if strategy is None else f" The star is the strategy of this run, at its final σ: {words.kinds(strategy.guarantee)}.")
        ),
    )


def _history_picture(search: Search, strategy: Strategy | None) -> Picture:
    complete = figures.ranked(search.rows, "COMPLETE")
    numbers, values = figures.best_so_far(complete, last=len(search.rows) - 1)
    best = f" The best was found in trial {numbers[-2]}: {number(values[-1])}." if numbers else " None was fully evaluated."
    return Picture(
        name="search_history", png=figures.png(figures.history(search, strategy)),
        alternative=f"The RMSE of {len(search.rows)} trials in the order in which they started, and the best so far.{best}",
        caption=(
            "Trials in the order in which they started. The line is the best fully evaluated RMSE so far; it rests on estimates where the marker "
            "is hollow. Trials that repeat an earlier configuration are answered from it and not drawn."
        ),
    )


def _coefficient_lines(contents: Contents) -> list[tuple[str, str, Sequence[float]]]:
    """(scheme, label, first column): the run's strategy, then the best of every other scheme, best first."""
    search, strategy, lines = contents.search, contents.strategy, []
    if strategy is not None and not strategy.fixed_size:
        document = strategy.document
        label = _label(strategy.scheme, document["bandwidth"], document["r"]) + " (this run)"
        lines.append((strategy.scheme, label, document["coefficients"]))
    for scheme, best in ({} if search is None else search.best).items():
        if strategy is None or scheme != strategy.scheme:
            one = best.configuration
            lines.append((scheme, _label(scheme, one.bandwidth, one.r), one.strategy(search.problem).coefficients))
    return lines


def _label(scheme: str, bandwidth: int, r: float | None) -> str:
    return f"{scheme}, b = {bandwidth}" + ("" if r is None or bandwidth == 1 else f", r = {number(r, 3)}")


def _coefficients_picture(lines: Sequence[tuple[str, str, Sequence[float]]], strategy: Strategy | None) -> Picture:
    whose = "the strategy of this run (thick), and of the best trial of each other scheme"
    if strategy is None:
        whose = "the best trial of each scheme"
    return Picture(
        name="coefficients", png=figures.png(figures.coefficients(lines)),
        alternative=f"Line plot of the coefficients of {whose}: " + "; ".join(label for _, label, _ in lines) + ".",
        caption=(
            f"First column of the strategy matrix C of {whose}; schemes without a fully evaluated trial are not in it. Both axes are logarithmic. "
            "The noise added to the gradients is C⁻¹z; a single point at b = 1 is the identity, that is independent noise."
        ),
    )


def _privacy_picture(curves: Curves, strategy: Strategy) -> Picture:
    problem, guarantee = strategy.problem, strategy.guarantee
    which = "replace" if strategy.fixed_size else " and ".join(DIRECTIONS)
    stated = "; ".join(f"{one.direction}: delta at most {number(one.delta)} at epsilon {number(one.epsilon)}, {one.kind}" for one in guarantee)
    names = ", ".join(dict.fromkeys(f"{curve.accountant} ({curve.kind})" for curve in curves.curves))
    return Picture(
        name="privacy", png=figures.png(figures.privacy(curves.curves, guarantee, epsilon=problem.epsilon, delta=problem.delta)),
        alternative=f"Curves of delta against epsilon of this run's mechanism, direction {which}, by {names}. The guarantee: {stated or 'none'}.",
        caption=(
            "Solid lines are deterministic upper bounds, each valid by itself. A dashed line is a Monte Carlo estimate with a band of "
            "± 2 standard errors, and no guarantee at any ε. The star is what this run guarantees. Where accountants agree, lines of different "
            "width lie on top of each other."
        ),
    )


def _left_out(search: Search | None) -> tuple[str, ...]:
    """One sentence where trials have values that cannot be drawn."""
    if search is None:
        return ()
    bad = sum(
        row["state"] in ("COMPLETE", "PRUNED") and isinstance(row["rmse"], float) and not figures.is_drawable(row["rmse"])
        for row in search.rows
    )
    if not bad:
        return ()
    return (f"{bad} {'trial' if bad == 1 else 'trials'} with an RMSE that is not a finite number > 0 left out of the figures.",)


def _page(contents: Contents, pictures: dict[str, Picture], notes: Sequence[str]) -> str:
    strategy, search, problem = contents.strategy, contents.search, contents.problem
    warnings = [words.unfinished(contents)] if strategy is None else []
    sections = [_result_section(contents, pictures)]
    if strategy is not None:
        sections.append(_section("privacy", "Privacy: δ against ε", pictures.get("privacy"), _notes(notes), tables.evidence_table(strategy)))
        sections.append(_certificate_section(strategy))
    if search is not None:
        sections.append(_section(
            "search", "The search", pictures.get("search_history"), _notes(notes if strategy is None else ()),
            tables.states_table(search), tables.reasons_table(search), tables.best_table(search),
        ))
    if "coefficients" in pictures:
        sections.append(_section("coefficients", "The strategy", pictures["coefficients"]))
    sections.append(_section("origin", "Where this comes from", tables.origin_table(contents)))
    return page(
        title=f"bandsmith report: {contents.name}", lead=f"{words.training(problem)}; target {words.target(problem)}.",
        headline=() if strategy is None else tables.headline(strategy), warnings=warnings, sections=sections,
        footer="Made from the strategy file and the study of the run; everything is in this one file, and opening it loads nothing.",
    )


def _result_section(contents: Contents, pictures: dict[str, Picture]) -> Section:
    strategy = contents.strategy
    guarantee = None if strategy is None else words.guarantee_words(strategy)
    none = Passage(heading="", paragraphs=("This run has no study in reach: nothing was searched, or its study is elsewhere.",))
    return _section(
        "result", "Problem and result", guarantee, tables.problem_table(contents), pictures.get("rmse_by_bandwidth"),
        None if contents.search is not None else none,
    )


def _certificate_section(strategy: Strategy) -> Section:
    passages = words.certificate_words(strategy)
    table = () if strategy.certificate is None else (tables.tests_table(strategy.certificate),)
    return _section("certificate", "The certificate, in words", *passages[:-1], *table, words.limits(strategy), passages[-1])


def _notes(notes: Sequence[str]) -> Passage | None:
    return Passage(heading="Left out of the figures", points=tuple(notes)) if notes else None


def _section(anchor: str, title: str, *parts) -> Section:
    return Section(anchor=anchor, title=title, parts=tuple(part for part in parts if part is not None))
