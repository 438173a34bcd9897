"""Measurements that a results file keeps: what is there already is not measured again, on Ray where more than one runs at once."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from benchmarks.store import Results
from launch.progress import progress
from search_spaces.errors import BandsmithError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement.

    Attributes:
      key: what identifies it in the results file.
      make: measures.
      label: what is shown of it while others wait.
    """

    key: dict[str, object]
    make: Callable[[], dict[str, object]]
    label: str

    def run(self) -> dict[str, object]:
        """Its values; `failure` says why there are none, which the same seed would only repeat."""
        try:
            return self.make()
        except BandsmithError as error:
            return {"failure": str(error)}


def run(jobs: Sequence[Job], results: Results, *, workers: int) -> list[dict[str, object]]:
    """Measures what the results lack, in this process or on Ray, and keeps each as soon as it is there.

    Returns:
      Key and values of every job that has any, in one mapping each.
    """
    left = [job for job in jobs if job.key not in results]
    with progress() as tell:
        for number, (job, result) in enumerate(_measured(left, workers), start=1):
            results.add(job.key, result)
            tell(f"{job.label}: {result.get('failure', 'done')}", number, len(left))
    return [job.key | results[job.key] for job in jobs if "failure" not in results[job.key]]


def _measured(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, dict[str, object]]]:
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, job.run()
        return
    from engine.environment import ray, start_ray

    with start_ray(workers=workers):
        task = ray.remote(num_cpus=1)(Job.run)
        jobs_of = {task.remote(job): job for job in jobs}
        while jobs_of:
            (done,), _ = ray.wait(list(jobs_of), num_returns=1)
            yield jobs_of.pop(done), ray.get(done)
