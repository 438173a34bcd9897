"""What a run's numbers mean, in words for a reader who decides whether to believe them. Plain text; nothing here knows of HTML."""

import dataclasses
import shlex
from collections.abc import Iterable

from accountants.certificates.records import Certificate, DirectionTest
from accountants.evidence import DIRECTIONS, Evidence
from engine.report.contents import Contents, Strategy
from engine.report.style import number
from search_spaces.problem import FixedSizeProblem

VERIFY = "bandsmith verify strategy.json"
"""To be run in the folder of the run; so it stays right when the folder is moved or sent to somebody."""

ADJACENCY = {
    "add_remove": "add/remove of one example (zero-out)",
    "replace": "replace (one example changes into another; the number of examples is public)",
}
_DOES = {"remove": "removed", "add": "added", "replace": "replaced"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passage:
    """A few sentences under one heading.

    Attributes:
      heading: what they are about.
      paragraphs: the sentences.
      points: a list that follows them.
      command: a line to type in a shell, last.
    """

    heading: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    command: str | None = None


def kinds(guarantee: Iterable[Evidence]) -> str:
    """How a guarantee is known, in a few words."""
    found = {one.kind for one in guarantee}
    if not found:
        return "no guarantee"
    if found == {"bound"}:
        return "deterministic bound"
    return "certified" if found == {"certified"} else "certified, with a deterministic bound in one direction"


def target(problem) -> str:
    """The privacy that is owed."""
    return f"({number(problem.epsilon)}, {number(problem.delta)})-DP"


def unfinished(contents: Contents) -> Passage:
    """That a run has no strategy, and what to do about it."""
    return Passage(
        heading="This run is not finished",
        paragraphs=(
            "There is no strategy file in this folder: the search or the certification has not ended, was interrupted, or found nothing "
            "that could be certified. Everything below describes the search as far as it went. It carries no privacy guarantee of any kind.",
            "To continue it, where the folder of the run is (with the same --storage and --address, if they were given):",
        ),
        command=f"bandsmith tune --resume {shlex.quote(contents.name)}",
    )


def guarantee_words(strategy: Strategy) -> Passage:
    """What is guaranteed, and by what kind of statement."""
    problem, guarantee = strategy.problem, strategy.guarantee
    directions = ("replace",) if strategy.fixed_size else DIRECTIONS
    missing = [direction for direction in directions if direction not in {one.direction for one in guarantee}]
    if missing:
        return Passage(heading="What is guaranteed", paragraphs=(
            f"Nothing: the file holds no bound and no certified statement that meets {target(problem)} in the direction {' and '.join(missing)}.",
        ))
    points = tuple(
        f"{one.direction} (an example is {_DOES[one.direction]}): δ ≤ {number(one.delta)} at ε = {number(one.epsilon)}, "
        f"{'certified by a test on samples' if one.kind == 'certified' else f'a deterministic bound by {one.accountant}'}."
        for one in sorted(guarantee, key=lambda one: directions.index(one.direction))
    )
    batches = (
        f"batches of exactly {problem.batch_size} of {problem.dataset_size} examples, drawn without replacement and afresh in each of "
        f"{problem.iterations} steps" if strategy.fixed_size else
        f"batches drawn by the scheme {strategy.scheme}, {problem.iterations} steps, {problem.participations} participations of an example"
    )
    return Passage(
        heading="What is guaranteed",
        paragraphs=(
            f"One training run that adds this noise to sums of gradients clipped to norm 1 (σ is in units of the clip norm), on {batches}, is "
            f"{target(problem)} under the adjacency {ADJACENCY[guarantee[0].adjacency]}."
            + ("" if strategy.fixed_size else " Both directions are covered, each by a statement of its own:"),
        ),
        points=points,
    )


def limits(strategy: Strategy) -> Passage:
    """What is not guaranteed."""
    sampled = strategy.certificate is not None and any(test.sampler != "bound" for test in _tests(strategy.certificate))
    points = (
        "What is marked as an estimate, in a figure or a table, is no guarantee at any ε.",
        "Only batches drawn as the scheme says: shuffled epochs, a dropped last batch, repeated or skipped steps are other mechanisms.",
        "Only what the noise protects: learning rates, preprocessing or model choices tuned on the private data, and a second training run, "
        "cost privacy that is not counted here.",
        "Real arithmetic: the trainer's floating-point noise is taken as a stand-in for the continuous Gaussian.",
    )
    if sampled:
        points = (
            "It is a statement about the whole pipeline “draw the certifying samples, select, train once”: δ is the average, over the certifying "
            "samples, of the δ of whatever they select. It is not the statement “with probability 1 − β this σ is (ε, δ)-DP”, and there is "
            "no β to choose: the chance that a test passes wrongly is already counted in δ.",
            "It covers one run of that pipeline. Repeating it with other seeds or settings until a smaller σ happens to pass is a selection "
            "that this certificate does not account for.",
            "Of the curve δ(ε), it covers the target alone.",
        ) + points
    if strategy.fixed_size:
        points += ("It cannot be compared with guarantees under add/remove adjacency.",)
    return Passage(heading="What is not guaranteed", points=points)


def certificate_words(strategy: Strategy) -> tuple[Passage, ...]:
    """What the guarantee rests on: what was fixed before sampling, the tests, how they decide, and how to check them."""
    made = strategy.certificate
    if made is None:
        return (_bounds_alone(strategy), _checking(strategy))
    if all(test.sampler == "bound" for test in _tests(made)):
        return (_no_samples(made), _checking(strategy))
    return (_plan(strategy, made), _tests_in_words(made), _decision(made), _checking(strategy))


def how_sampled(test: DirectionTest) -> str:
    """From which law the samples of a test are drawn, in a few words."""
    if test.sampler == "bound":
        return f"none: {test.accountant}"
    if test.sampler == "tilted":
        return f"tilted, α = {test.alpha}"
    return f"shifted by {number(test.shift, 3)}" if test.sampler == "shifted" else "plain"


def _tests(made: Certificate) -> list[DirectionTest]:
    every = (*made.plan.candidates, *([made.plan.fallback] if made.plan.fallback else []))
    return [test for candidate in every for test in candidate.tests]


def _plan(strategy: Strategy, made: Certificate) -> Passage:
    plan = made.plan
    count = len(plan.candidates)
    fallback = "" if plan.fallback is None else (
        f" If none passes, a last resort with a deterministic bound (σ = {number(plan.fallback.mechanism.sigma)}) is used."
    )
    return Passage(
        heading="What was fixed before the first certifying sample",
        paragraphs=(
            f"A list of {count} {_plural(count, 'candidate')} (scheme, strategy and σ), the order in which they are tried, and for each the two "
            "tests below with all their numbers: how outputs are sampled, how many (N), the largest value a sample can have (B), and the "
            f"threshold that the mean must not exceed.{fallback} The search and its pilots used other random numbers.",
            f"The seed of the certifying samples, {plan.seed}, is derived by SHA-256 from this whole list and the run's seed "
            f"{strategy.document['seeds'].get('run', 'unknown')}. Changing anything in the list, for whatever reason, would have drawn other "
            "samples.",
        ),
    )


def _tests_in_words(made: Certificate) -> Passage:
    """What one test is."""
    plan = made.plan
    return Passage(
        heading="The tests",
        paragraphs=(
            "δ of a direction is the mean of a quantity that lies between 0 and B and that can be computed for any output of the mechanism "
            "without data: the hockey-stick integrand, with a Gaussian part of the noise integrated out where the scheme has one. "
            "A test draws N independent outputs and compares the mean of their values, rounded up, with the threshold. "
            "Chernoff's bound limits how likely a mechanism whose δ is too large can pass.",
            "Plain samples are outputs of the mechanism with the example (remove) or without it (add). Where they are drawn from a tilted law, α is "
            "the power of the likelihood ratio and Z_α the law's normalisation (of the part that is sampled), computed by dynamic programming; B is "
            "then the Rényi bound of order α. Shifted samples are outputs without the example, moved by so many standard deviations of the noise. "
            "The bias η bounds what cutting values off at B can hide; it is added to the guarantee.",
            f"Candidates are numbered from 0; number {made.selected} was selected." if made.selected >= 0 else
            f"None of the {len(plan.candidates)} candidates passed; the deterministic last resort was selected.",
        ),
    )


def _decision(made: Certificate) -> Passage:
    plan = made.plan
    if plan.method == "published":
        rule = "Candidates are tried by falling σ until the first fails, and the one before it is selected (the published procedure)."
        sum_ = "the published bound on that procedure for the shared threshold, B and N"
    else:
        rule = "The first candidate that passes both directions is selected."
        sum_ = (
            "the largest threshold (with its bias) or deterministic bound in the list, plus, for every sampled test in the list, the largest "
            "amount by which a δ can exceed that, weighted with the probability of passing all the same"
        )
    points = tuple(f"{direction}: δ ≤ {number(made.delta[direction])}, at most the target {number(plan.delta)}." for direction in DIRECTIONS)
    return Passage(
        heading="How the tests decide, and why that is enough",
        paragraphs=(rule + f" Whatever is selected, the average of its δ over the certifying samples is at most {sum_}:",), points=points,
    )


def _no_samples(made: Certificate) -> Passage:
    accountants = " and ".join(dict.fromkeys(test.accountant for test in made.chosen.tests))
    return Passage(
        heading="What it rests on",
        paragraphs=(
            f"No sample was drawn: {accountants} gives a deterministic bound on δ in both directions, rounded towards more privacy loss, "
            "and the bound meets the target.",
        ),
    )


def _bounds_alone(strategy: Strategy) -> Passage:
    names = ", ".join(dict.fromkeys(one.accountant for one in strategy.evidence if one.kind == "bound"))
    return Passage(
        heading="What it rests on",
        paragraphs=(
            f"No sample was drawn and nothing was selected by a test. The bounds in the table of evidence ({names or 'none'}) are deterministic "
            "and rounded towards more privacy loss; each holds by itself, so the smallest may be used.",
        ),
    )


def _checking(strategy: Strategy) -> Passage:
    how = (
        "computes every bound in it again" if strategy.certificate is None else
        "computes everything in it that can be computed again, and repeats the selected tests with new random numbers from the operating system"
    )
    return Passage(
        heading="How to check it",
        paragraphs=(
            f"Anyone with bandsmith and the file strategy.json can check it without trusting this page. In the folder of the run, the command below "
            f"{how}; it exits with 0 only if all of it holds. The file's SHA-256 seal is {strategy.sha256}.",
        ),
        command=VERIFY,
    )


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def training(problem) -> str:
    """The training run a problem describes."""
    if isinstance(problem, FixedSizeProblem):
        return f"T = {problem.iterations} steps, batches of {problem.batch_size} of {problem.dataset_size} examples"
    return f"T = {problem.iterations} steps, K = {problem.participations} participations of an example"
