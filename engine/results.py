"""The strategy file: what a trainer loads and anyone can check again. Written whole, sealed by a hash, refused if anything does not fit.

A document is plain JSON values: `format`, `version`, `problem` (fields of `Problem`), `scheme`, `bandwidth`, `r` (null unless harmonic),
`coefficients`, `sigma`, `rmse`, `evidence` (list of `Evidence.to_dict()`), `certificate` (an object, or null), `deterministic`
(`sigma`, `accountant` and `ratio` of `engine.deterministic.DeterministicSigma`, or null), `seeds`, `versions`, and in the file `sha256` of
all the rest (`engine.files.sha256_of`). The hash finds accidents and edits, not a forger: that is what
`bandsmith verify` is for.

Where `scheme` is `fixed_size`, `problem` holds the fields of `FixedSizeProblem` and `adjacency` "replace", the strategy is the identity,
all evidence is about replacing an example, and there is no certificate: the bounds can be computed again from the rest.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from accountants.evidence import REPLACE, Evidence
from accountants.fixed_size.mechanism import FixedSizeMechanism
from engine.files import read_json, readable_json, sha256_of, write_atomically
from engine.study import versions
from search_spaces import checks
from search_spaces.errors import InputError, NumericalError, UnsupportedError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import FIXED_SIZE, FixedSizeProblem, Problem
from search_spaces.schemes import make_scheme
from search_spaces.strategies import ToeplitzStrategy, harmonic

FORMAT = "bandsmith strategy"
VERSION = 1
FIELDS = (
    "format", "version", "problem", "scheme", "bandwidth", "r", "coefficients", "sigma", "rmse", "evidence", "certificate", "deterministic",
    "seeds", "versions",
)
SEAL = "sha256"

_IDENTITY: Mapping[str, object] = {"bandwidth": 1, "r": None, "coefficients": [1.0], "certificate": None, "deterministic": None}
"""What is the same in every document of fixed-size batches."""

AGREEMENT = 1e-9
"""Largest relative difference between a stated RMSE or coefficient and the recomputed one: far above rounding, far below any meaning."""


def strategy_document(
    *, mechanism: Mechanism, problem: Problem, evidence: Iterable[Evidence], certificate: Mapping[str, object] | None,
    seeds: Mapping[str, object], deterministic: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The document of a mechanism and what is known of its privacy.

    Raises:
      InputError: the parts do not fit each other.
    """
    document = {
        "format": FORMAT, "version": VERSION,
        "problem": {name: getattr(problem, name) for name in ("iterations", "participations", "epsilon", "delta", "dataset_size")},
        "scheme": mechanism.scheme.name, "bandwidth": mechanism.scheme.bandwidth, "r": mechanism.strategy.r,
        "coefficients": list(mechanism.strategy.coefficients), "sigma": mechanism.sigma, "rmse": mechanism.rmse,
        "evidence": [statement.to_dict() for statement in evidence],
        "certificate": None if certificate is None else dict(certificate),
        "deterministic": None if deterministic is None else dict(deterministic), "seeds": dict(seeds), "versions": versions(),
    }
    check_document(document)
    return document


def fixed_size_document(*, mechanism: FixedSizeMechanism, problem: FixedSizeProblem, evidence: Iterable[Evidence]) -> dict[str, object]:
    """The document of a mechanism with fixed-size batches and what is known of its privacy.

    Raises:
      InputError: the parts do not fit each other.
    """
    document = {
        "format": FORMAT, "version": VERSION, "problem": dataclasses.asdict(problem) | {"adjacency": problem.adjacency},
        "scheme": FIXED_SIZE, **_IDENTITY, "sigma": mechanism.sigma, "rmse": mechanism.rmse,
        "evidence": [statement.to_dict() for statement in evidence], "seeds": {}, "versions": versions(),
    }
    check_document(document)
    return document


def write_strategy(path: Path, document: Mapping[str, object]) -> None:
    """Checks and seals a document and writes it as JSON, whole or not at all.

    Raises:
      InputError: it is not a valid document.
      NumericalError: a NaN or an infinity in it.
      OSError: it cannot be written there.
    """
    content = {name: value for name, value in document.items() if name != SEAL}
    check_document(content)
    write_atomically(path, readable_json(content | {SEAL: sha256_of(content)}))


def read_strategy(path: Path) -> dict[str, object]:
    """The document in a strategy file, without its seal.

    Raises:
      InputError: it cannot be read, is not JSON, is of another format or version, was changed, or its parts do not fit each other; one
        sentence that names the file and what is wrong.
    """
    document = read_json(path, argument="strategy file")
    try:
        _check_version(document)
        seal = document.pop(SEAL, None)
        if seal != sha256_of(document):
            raise InputError(f"Expected {SEAL} to be that of the content: the file was changed after it was written.")
        check_document(document)
    except (InputError, NumericalError) as error:
        raise InputError(f"In strategy file {str(path)!r}: {error}") from error
    return document


def check_document(document: Mapping[str, object]) -> None:
    """Nothing if a document is valid.

    Raises:
      InputError: a field is missing, unknown, of the wrong type or out of range, or two of them disagree.
    """
    _check_version(document)
    if difference := set(document) ^ set(FIELDS):
        raise InputError(f"Expected the fields {', '.join(FIELDS)}, which differ in {', '.join(sorted(difference))}.")
    fixed_size = document["scheme"] == FIXED_SIZE
    mechanism = fixed_size_mechanism_of(document) if fixed_size else mechanism_of(document)
    rmse = checks.positive(rmse=document["rmse"])
    if not math.isclose(rmse, mechanism.rmse, rel_tol=AGREEMENT):
        raise InputError(f"Expected rmse={rmse!r} to be that of the coefficients and sigma, {mechanism.rmse!r}.")
    for statement in _typed(document, "evidence", list):
        if ((adjacency := _evidence_of(statement).adjacency) == REPLACE) != fixed_size:
            raise InputError(f"Expected evidence of adjacency={adjacency!r} not to be in a file of scheme={document['scheme']!r}.")
    for name, kinds in (("certificate", (dict, type(None))), ("deterministic", (dict, type(None))), ("seeds", dict), ("versions", dict)):
        _typed(document, name, kinds)
    if document["deterministic"] is not None:
        _check_deterministic(document["deterministic"], mechanism.sigma)


def _check_deterministic(stated: Mapping[str, object], certified: float) -> None:
    if set(stated) != {"sigma", "accountant", "ratio"} or not isinstance(stated["accountant"], str):
        raise InputError(f"Expected deterministic={stated!r} to have sigma, accountant (a name) and ratio.")
    sigma, ratio = checks.positive(deterministic_sigma=stated["sigma"]), checks.positive(ratio=stated["ratio"])
    if not math.isclose(ratio, certified / sigma, rel_tol=AGREEMENT):
        raise InputError(f"Expected ratio={ratio!r} to be sigma over the deterministic one, {certified / sigma!r}.")


def problem_of(document: Mapping[str, object]) -> Problem:
    """The problem in a document.

    Raises:
      InputError: a field is missing, unknown or out of range.
      UnsupportedError: the document is about fixed-size batches.
    """
    if document["scheme"] == FIXED_SIZE:
        raise UnsupportedError(
            "Expected a strategy file of an add/remove scheme, not of fixed_size, whose guarantee is about replacing an example; "
            "`bandsmith verify` checks such a file and `bandsmith account --scheme fixed_size` states its privacy."
        )
    try:
        return Problem(**_typed(document, "problem", dict))
    except TypeError as error:
        raise InputError(f"Expected problem to have the fields of a problem: {error}.") from error


def mechanism_of(document: Mapping[str, object]) -> Mechanism:
    """The mechanism in a document.

    Raises:
      InputError: a value is out of range, or r and coefficients disagree.
      UnsupportedError: the document is about fixed-size batches.
    """
    problem = problem_of(document)
    scheme = make_scheme(
        document["scheme"], iterations=problem.iterations, participations=problem.participations, bandwidth=document["bandwidth"],
    )
    coefficients = tuple(_typed(document, "coefficients", list))
    if document["r"] is None:
        strategy = ToeplitzStrategy(iterations=problem.iterations, coefficients=coefficients)
    else:
        strategy = ToeplitzStrategy(iterations=problem.iterations, coefficients=coefficients, family="harmonic", r=document["r"])
        named = harmonic(iterations=problem.iterations, bandwidth=strategy.bandwidth, r=document["r"]).coefficients
        if not all(math.isclose(a, b, rel_tol=AGREEMENT) for a, b in zip(strategy.coefficients, named, strict=True)):
            raise InputError(f"Expected coefficients to be those of the harmonic family at r={document['r']!r}.")
    return Mechanism(scheme=scheme, strategy=strategy, sigma=document["sigma"])


def fixed_size_problem_of(document: Mapping[str, object]) -> FixedSizeProblem:
    """The problem in a document about fixed-size batches.

    Raises:
      InputError: a field is missing, unknown or out of range, or the adjacency is another.
    """
    fields = dict(_typed(document, "problem", dict))
    checks.one_of((FixedSizeProblem.adjacency,), adjacency=fields.pop("adjacency", None))
    try:
        return FixedSizeProblem(**fields)
    except TypeError as error:
        raise InputError(f"Expected problem to have the fields of a problem with fixed-size batches: {error}.") from error


def fixed_size_mechanism_of(document: Mapping[str, object]) -> FixedSizeMechanism:
    """The mechanism in a document about fixed-size batches.

    Raises:
      InputError: a value is out of range, or a strategy other than the identity, or a certificate.
    """
    problem = fixed_size_problem_of(document)
    for name, value in _IDENTITY.items():
        if document[name] != value:
            raise InputError(f"Expected {name}={document[name]!r} to be {value!r}, as it is with fixed-size batches.")
    return FixedSizeMechanism(
        dataset_size=problem.dataset_size, batch_size=problem.batch_size, iterations=problem.iterations, sigma=document["sigma"],
    )


def evidence_of(document: Mapping[str, object]) -> tuple[Evidence, ...]:
    """The evidence in a document. Raises `InputError` where a statement is invalid."""
    return tuple(_evidence_of(statement) for statement in _typed(document, "evidence", list))


def _evidence_of(statement: object) -> Evidence:
    if not isinstance(statement, dict):
        raise InputError(f"Expected evidence={statement!r} to be an object.")
    try:
        return Evidence.from_dict(statement)
    except NumericalError as error:
        raise InputError(f"Expected evidence to be in range: {error}") from error


def _check_version(document: Mapping[str, object]) -> None:
    if document.get("format") != FORMAT:
        raise InputError(f"Expected format={document.get('format')!r} to be {FORMAT!r}.")
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise InputError(f"Expected version={document.get('version')!r} to be {VERSION}, the only one this release reads.")


def _typed(document: Mapping[str, object], name: str, kinds: type | tuple[type, ...]) -> object:
    value = document.get(name)
    if not isinstance(value, kinds):
        words = {dict: "an object", list: "a list", type(None): "null"}
        allowed = " or ".join(words[kind] for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise InputError(f"Expected {name}={value!r} to be {allowed}.")
    return value
