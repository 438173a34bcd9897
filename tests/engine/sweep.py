"""A search in a process of its own, to be killed: `python -m tests.engine.sweep FOLDER TRIALS OBJECTIVE`."""

import sys
from pathlib import Path

from engine.environment import start_ray
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace


def settings(folder: RunFolder, *, trials: int, objective: str, resume: bool = False) -> SearchSettings:
    """The search that is started, killed and resumed."""
    problem = Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)
    space = SearchSpace.for_problem(problem, schemes=["min_sep_ra", "min_sep_poisson"])
    return SearchSettings(folder=folder, space=space, trials=trials, rungs=(10, 40), objective=objective, resume=resume)


if __name__ == "__main__":
    folder = RunFolder.create(Path(sys.argv[1]))
    with folder.writing(), start_ray(workers=2):
        run_search(settings(folder, trials=int(sys.argv[2]), objective=sys.argv[3]))
