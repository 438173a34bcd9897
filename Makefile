# `make test` and `make tune` are the two commands. Both first install into .venv, again only when a pin or a dependency changed.

PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3; do \
	"$$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)
INSTALL = .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: test test-quick test-extras tune file-map clean
.DELETE_ON_ERROR:

# In two processes (see tests/conftest.py for who gets what); `make test PYTEST_FLAGS='-n 0'` uses one.
test: .venv/installed
	.venv/bin/python -m pytest -n 2 $(PYTEST_FLAGS)

test-quick: .venv/installed
	.venv/bin/python -m pytest -n 2 -m 'not slow' $(PYTEST_FLAGS)

# What needs a trainer: exports and examples, with JAX-Privacy, Opacus (on PyTorch's CPU build) and scikit-learn installed.
test-extras: .venv/installed-extras
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest tests/engine/exports tests/examples tests/engine/test_imports.py tests/launch/test_export.py $(PYTEST_FLAGS)

tune: .venv/installed
	.venv/bin/bandsmith tune --iterations 1024 --participations 4 --epsilon 4 --delta 1e-5 $(TUNE_FLAGS)

# `make benchmark-NAME` runs benchmarks/NAME.py, with the peers it is compared to installed.
benchmark-%: .venv/installed-benchmark
	.venv/bin/python -m benchmarks.$*

file-map: .venv/installed
	.venv/bin/python -m tests.file_map

clean:
	rm -rf .venv

.venv/installed: constraints.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Expected Python >= 3.11 with ensurepip on PATH; name one with PYTHON=/path/to/python." >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(INSTALL) '.[test]'
	@touch $@

.venv/installed-benchmark: .venv/installed
	$(INSTALL) '.[test,benchmark]'
	@touch $@

.venv/installed-extras: .venv/installed constraints-extras.txt
	$(INSTALL) '.[test,jax-privacy,opacus,examples]' --constraint constraints-extras.txt
	@touch $@
