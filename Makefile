# On a fresh machine with Python >= 3.11: `make demo` (the main job) and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMPS := .venv/stamps
# The PyTorch that the tests use; `make test TORCH=2.4.0` takes another one that the extra `trainer` allows.
TORCH ?= 2.13.0

.PHONY: demo trainer test test-fast test-torchrec check docs bench clean

demo: $(STAMPS)/run  ## ZionEX, model A, 128 GPUs: headline numbers and a report
	$(BIN)/dlrmsim run zionex_a_128

trainer: $(STAMPS)/run  ## PyTorch, for `dlrmsim capture` and `dlrmsim measure`
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[trainer]' 'torch==$(TORCH)'

test: $(STAMPS)/dev $(STAMPS)/browser  ## all tests, about 20 minutes on 2 cores
	$(BIN)/python -m pytest -n 2

test-fast: $(STAMPS)/dev  ## unit, theory and property tests without the slow ones, 3 to 4 minutes on 2 cores
	$(BIN)/python -m pytest -n 2 tests/unit tests/theory tests/property -m "not slow"

test-torchrec: $(STAMPS)/torchrec  ## the bridge to TorchRec, with the real library, about a minute; skipped where it cannot be installed
	$(BIN)/python -m pytest -rs tests/torchrec || [ $$? = 5 ]

check: $(STAMPS)/dev  ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMPS)/docs  ## the documentation as a site in site/
	$(BIN)/mkdocs build --strict

bench: $(STAMPS)/dev  ## the numbers the README quotes
	$(BIN)/python -m benchmarks engine
	$(BIN)/python -m benchmarks cli
	$(BIN)/python -m benchmarks costs
	$(BIN)/python -m benchmarks estimates
	$(BIN)/python -m benchmarks oracle --programs 10000 --seed 1
	$(BIN)/python -m benchmarks planning

clean:
	rm -rf .venv build dist site *.egg-info

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(STAMPS)/dev: $(STAMPS)/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,trainer,hta]' 'torch==$(TORCH)'
	touch $@

# TorchRec asks for the CUDA build of FBGEMM: it is installed without the packages that it asks for, and those that its
# modules import are named here. Without a network for them the tests are skipped.
$(STAMPS)/torchrec: $(STAMPS)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'tensordict>=0.15' 'pyre-extensions>=0.0.32' \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0 \
	  && touch $@ \
	  || echo "torchrec could not be installed: its tests will be skipped"

$(STAMPS)/docs: $(STAMPS)/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

# A browser for the tests: one that is there, Debian's as root, or playwright's own. Without any the tests are skipped.
# Pages are measured in DejaVu, the widest of the common fonts; where it cannot be installed, in another.
$(STAMPS)/browser: $(STAMPS)/dev
	@fc-list 2>/dev/null | grep -q DejaVu \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fonts-dejavu >/dev/null; } \
	  || echo "fonts-dejavu could not be installed: browser tests use another font"
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
	  || $(BIN)/python -m playwright install chromium \
	  || echo "no browser could be installed: browser tests will be skipped"
	touch $@
