"""Where a new search begins if an earlier one is to help it: with the best configurations found there, as far as it has them."""

from engine.configuration import Configuration, first_configurations
from engine.run_folder import RunFolder
from engine.run_storage import run_storage
from engine.storage import opened_storage
from engine.study import load_study
from engine.trials import best_candidates, best_per_scheme
from search_spaces.errors import InputError
from search_spaces.space import SearchSpace

BEST = 5
"""So many of the best configurations are taken over, besides the best of each scheme."""


def warm_configurations(folder: RunFolder, space: SearchSpace) -> tuple[Configuration, ...]:
    """The first configurations of a search in `space`: the best of an earlier run, then `first_configurations` of schemes that run lacks.

    The earlier run may have had another problem, other schemes or bandwidths; what is not in `space` is passed over. Nothing in it is changed.

    Raises:
      InputError: the run has no study, its storage does not open, or none of its evaluated configurations is in `space`.
    """
    place = run_storage(folder)
    if not place.begun:
        raise InputError(f"Expected warm_start={str(folder.path)!r} to be the folder of a run with a study.")
    with opened_storage(place.spec, read_only=True) as storage:
        study = load_study(storage=storage, name=place.study)
        found = [*best_candidates(study, count=BEST), *best_per_scheme(study).values()]
    distinct = {one.configuration.key: one.configuration for one in found if _is_in(one.configuration, space)}
    if not distinct:
        raise InputError(f"Expected warm_start={str(folder.path)!r} to be a run with an evaluated configuration in the space of the new one.")
    schemes = {configuration.scheme for configuration in distinct.values()}
    return (*distinct.values(), *(one for one in first_configurations(space) if one.scheme not in schemes))


def _is_in(configuration: Configuration, space: SearchSpace) -> bool:
    try:
        space.check(scheme=configuration.scheme, bandwidth=configuration.bandwidth, r=configuration.r)
    except InputError:
        return False
    return True
