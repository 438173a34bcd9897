"""A search in the storage BANDSMITH_STORAGE, in a process of its own: `python -m tests.engine.storage_sweep FOLDER TRIALS ADDRESS`."""

import os
import sys
from pathlib import Path

import engine.environment  # noqa: F401 (before ray, always)
import ray
from engine.run_folder import RunFolder
from engine.search import SearchSettings, run_search
from search_spaces.problem import Problem
from search_spaces.space import SearchSpace

if __name__ == "__main__":
    folder = RunFolder.create(Path(sys.argv[1]))
    problem = Problem(iterations=1024, participations=4, epsilon=4, delta=1e-5)
    settings = SearchSettings(
        folder=folder, space=SearchSpace.for_problem(problem, schemes=["min_sep_ra", "cyclic_ra"]), trials=int(sys.argv[2]), workers=1,
        rungs=(10, 40), objective="tests.engine.objectives:slow", storage=os.environ["BANDSMITH_STORAGE"],
    )
    # The objective is in the tests, which do not travel to a cluster by themselves.
    workers = {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
    ray.init(address=sys.argv[3], log_to_driver=False, logging_level="ERROR", runtime_env=workers)
    with folder.writing():
        run_search(settings)
    ray.shutdown()
