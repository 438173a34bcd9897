"""What every exporter must satisfy; an exporter joins by being in `EXPORTERS`.

A test class inherits `ExporterContract`. Scripts of trainers that are not installed are not run.
"""

import ast
import importlib.util
import json
import runpy

import pytest

from accountants.gaussian import GaussianAccountant
from engine.exports import EXPORTERS, export, load_config
from engine.files import readable_json, sha256_of
from engine.results import strategy_document, write_strategy
from search_spaces.errors import InputError
from search_spaces.mechanism import Mechanism
from search_spaces.problem import Problem
from search_spaces.schemes import SCHEMES, make_scheme
from search_spaces.strategies import harmonic

IMPORTS = {"arrays": ("numpy",), "jax-privacy": ("jax_privacy",), "opacus": ("torch", "opacus")}
"""What must be importable for an exporter's script to run."""

TRAINER_WARNINGS = ("ignore:Full backward hook is firing:UserWarning", "ignore:optax.global_norm is deprecated:DeprecationWarning")
"""What Opacus says of inputs that need no gradient, and what JAX-Privacy 2.0.0 makes optax say."""


def strategy_content(name: str = "min_sep_ra", *, sigma: float = 1.3, iterations: int = 24, epsilon: float = 8.0) -> dict[str, object]:
    """A strategy file's content with the unamplified Gaussian mechanism as its guarantee, δ as large as that needs."""
    bandwidth = 1 if name in ("poisson", "random_allocation") else 4
    scheme = make_scheme(name, iterations=iterations, participations=3, bandwidth=bandwidth)
    strategy = harmonic(iterations=iterations, bandwidth=bandwidth, r=0.1)
    mechanism = Mechanism(scheme=scheme, strategy=strategy, sigma=sigma)
    evidence = GaussianAccountant().delta(mechanism, epsilon=epsilon)
    delta = min(0.999999, max(1e-9, 1.01 * max(statement.delta for statement in evidence)))
    problem = Problem(iterations=iterations, participations=3, epsilon=epsilon, delta=delta)
    return strategy_document(mechanism=mechanism, problem=problem, evidence=evidence, certificate=None, seeds={})


@pytest.fixture
def strategy_file(tmp_path):
    """A strategy file of min-sep random allocation."""
    path = tmp_path / "strategy.json"
    write_strategy(path, strategy_content())
    return path


def leaves(document: object, place: tuple = ()) -> list[tuple]:
    """The place of every value in a JSON document."""
    children = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else None
    return [place] if children is None else [leaf for key, value in children for leaf in leaves(value, (*place, key))]


def edited(document: dict, place: tuple) -> dict:
    """A copy in which the value at this place is another one of its type."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    value = holder[place[-1]]
    holder[place[-1]] = (not value) if isinstance(value, bool) else value * 1.01 + 1 if isinstance(value, (int, float)) else f"{value}!"
    return copy


class ExporterContract:
    """Folder, seal and script of every exporter."""

    @pytest.fixture(params=EXPORTERS)
    def to(self, request) -> str:
        return request.param

    def test_is_found_by_its_name(self, to):
        assert EXPORTERS[to].name == to and to in IMPORTS, "say in IMPORTS what its script needs"

    @pytest.mark.parametrize("name", SCHEMES)
    def test_serves_every_scheme_or_says_why_not(self, to, name, tmp_path):
        path = tmp_path / "strategy.json"
        content = strategy_content(name)
        write_strategy(path, content)
        config = load_config(export(path, to=to, out=tmp_path / "out"), to=to)
        assert config.mechanism.scheme.name == name

    def test_the_configuration_repeats_what_must_hold(self, to, strategy_file, tmp_path):
        out = export(strategy_file, to=to, out=tmp_path / "out", clip_norm=0.5, normalize_by=40)
        document, content = json.loads((out / "config.json").read_text()), strategy_content()
        for name in ("problem", "scheme", "bandwidth", "r", "coefficients", "sigma"):
            assert document[name] == content[name]
        assert document["guarantee"]["adjacency"] == "add_remove"
        assert (document["guarantee"]["epsilon"], document["guarantee"]["delta"]) == (8.0, content["problem"]["delta"])
        assert [statement["direction"] for statement in document["guarantee"]["statements"]] == ["remove", "add"]
        assert document["training"] == {
            "steps": 24, "clip_norm": 0.5, "normalize_by": 40.0, "noise_stddev_of_the_sum": 1.3 * 0.5,
            "noise_stddev_after_normalising": 1.3 * 0.5 / 40, "correlated_over_steps": 4,
        }
        assert document["sampler"]["scheme"] == "min_sep_ra" and len(document["sampler"]["expected_coverage_after_epoch"]) == 3
        assert any("0.5" in rule for rule in document["rules"]) and any("40.0" in rule for rule in document["rules"])

    def test_any_edit_is_refused(self, to, strategy_file, tmp_path):
        out = export(strategy_file, to=to, out=tmp_path / "out")
        document = json.loads((out / "config.json").read_text())
        for place in leaves(document):
            (out / "config.json").write_text(readable_json(edited(document, place)))
            with pytest.raises(InputError, match=r"In exported configuration .*config.json"):
                load_config(out)

    def test_parts_that_disagree_are_refused_even_with_the_right_hash(self, to, strategy_file, tmp_path):
        out = export(strategy_file, to=to, out=tmp_path / "out")
        document = json.loads((out / "config.json").read_text())
        del document["sha256"]
        for place in (("sigma",), ("training", "steps"), ("training", "noise_stddev_of_the_sum"), ("sampler", "separation"), ("rules", 0),
                      ("guarantee", "adjacency"), ("guarantee", "epsilon"), ("guarantee", "statements", 0, "delta"), ("scheme",)):
            forged = edited(document, place)
            (out / "config.json").write_text(readable_json(forged | {"sha256": sha256_of(forged)}))
            with pytest.raises(InputError, match="In exported configuration"):
                load_config(out)

    def test_the_same_strategy_gives_the_same_bytes(self, to, strategy_file, tmp_path):
        first, again = (export(strategy_file, to=to, out=tmp_path / name) for name in ("first", "again"))
        assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in again.iterdir())
        for path in first.iterdir():
            assert path.read_bytes() == (again / path.name).read_bytes()

    def test_an_existing_folder_is_not_touched(self, to, strategy_file, tmp_path):
        (tmp_path / "out").mkdir()
        with pytest.raises(InputError, match="Expected out=.* not to exist yet"):
            export(strategy_file, to=to, out=tmp_path / "out")
        assert not list((tmp_path / "out").iterdir())

    def test_a_folder_appears_whole_or_not_at_all(self, to, strategy_file, tmp_path, monkeypatch):
        monkeypatch.setattr(type(EXPORTERS[to]), "files", lambda self, config: {"train.py": b"", "broken": None})
        with pytest.raises(TypeError):
            export(strategy_file, to=to, out=tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["strategy.json"]

    def test_the_script_is_a_program_with_a_docstring(self, to, strategy_file, tmp_path):
        tree = ast.parse((export(strategy_file, to=to, out=tmp_path / "out") / "train.py").read_text())
        assert ast.get_docstring(tree)

    @pytest.mark.filterwarnings(*TRAINER_WARNINGS)
    def test_the_script_runs_as_it_is(self, to, strategy_file, tmp_path, capsys):
        missing = [name for name in IMPORTS[to] if importlib.util.find_spec(name) is None]
        if missing:
            pytest.skip(f"the extra `{EXPORTERS[to].extra}` is not installed: no {', '.join(missing)}")
        out = export(strategy_file, to=to, out=tmp_path / "out", normalize_by=250)
        runpy.run_path(str(out / "train.py"), run_name="__main__")
        printed = capsys.readouterr().out
        assert "epsilon=8.0" in printed
        assert float(printed.split("accuracy")[1]) > 0.6
