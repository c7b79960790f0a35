# Stowage. `make` lists the targets; demo and test set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)-tools
DOCS := $(VENV)-docs
SEEDS ?= 0:2000
ROOM ?= engine
COUNT ?= 30
SEED ?=
MINUTES ?= 20
ROUNDS ?= 1
# Processes of `make test`: one more than two cores, because many tests wait for a daemon.
WORKERS ?= 3
HARNESS ?=
E2E ?= e2e
IMAGE ?= stowage
PLATFORMS ?= linux/amd64,linux/arm64
URL ?= https://example.com/stowage/releases
# Worked out when a target asks for them.
VERSION = $(shell $(BIN)/python -m setuptools_scm)
TAG := python:3.13-slim-bookworm
BASED_ON = $(TAG)@$(shell docker buildx imagetools inspect --format '{{.Manifest.Digest}}' $(TAG))

# Tests and benches start hundreds of processes. Each would compile 400 modules anew where the
# environment asks for no bytecode.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 16

# A try that failed half-way leaves no environment behind that the next would take for a whole one.
$(VENV)/run.stamp: requirements.lock pyproject.toml apistub/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + "; name another one: make PYTHON=python3.12")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  echo "Installing about 30 packages into $(VENV), once: a minute or two, 250 MB."; \
	  rm -rf $(VENV); \
	  $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) has no venv; on Debian: apt install python3-venv" >&2; exit 1; }; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./apistub
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

.PHONY: install
install: $(VENV)/dev.stamp ## Create the virtual environment with locked versions

.PHONY: demo
demo: $(VENV)/run.stamp ## Show the scheduler at work on an in-memory cluster (30 s; the first time it installs)
	@$(BIN)/stowage demo

.PHONY: test
test: $(VENV)/dev.stamp ## Run unit, scenario and recorded parity tests (about 4 minutes on two cores; WORKERS=3 at a time)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore=tests/browser -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

.PHONY: browser
browser: $(VENV)/dev.stamp ## Test the console's pages in Chromium (a minute; needs Debian's chromium)
	$(BIN)/python -m pytest tests/browser

.PHONY: pictures
pictures: $(VENV)/dev.stamp ## Draw the console's pages for docs/ again (needs Debian's chromium)
	$(BIN)/python -m tests.browser.pictures

.PHONY: hunt
hunt: $(VENV)/dev.stamp ## Try the laws on other random examples than `make test` does (ROUNDS=1)
	for round in $$(seq $(ROUNDS)); do HYPOTHESIS_PROFILE=hunt $(BIN)/python -m pytest -n 2 -m hypothesis || exit; done

.PHONY: lint
lint: $(VENV)/dev.stamp ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.words

.PHONY: types
types: $(VENV)/dev.stamp ## Check types
	$(BIN)/mypy

.PHONY: imports
imports: $(VENV)/dev.stamp ## Check that imports go one way
	$(BIN)/lint-imports

.PHONY: check
check: lint types imports test ## Everything a change must pass

.PHONY: docs
docs: $(VENV)/dev.stamp ## Draw again what the pages have from the code
	$(BIN)/python -m tests.pictures
	$(BIN)/python -m tests.unit.docs.drawn

.PHONY: format
format: $(VENV)/dev.stamp ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: cover
cover: $(VENV)/dev.stamp ## Show which branches no test reaches
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

.PHONY: e2e
e2e: $(VENV)/dev.stamp ## Test against a real API server (HARNESS=kubeconfig, kind, own, nodes or ecosystem; else the first of three)
	$(BIN)/python -m $(if $(filter nodes,$(HARNESS)),e2e.nodes,pytest $(E2E) $(addprefix --harness=,$(HARNESS)))

.PHONY: chaos
chaos: $(VENV)/dev.stamp ## Let things go wrong under load, and print what came of it (SEED=1 MINUTES=20)
	$(BIN)/python -m e2e.chaos --seed $(or $(SEED),1) --minutes $(MINUTES)

.PHONY: soak
soak: $(VENV)/dev.stamp ## Let pods come and go for a minute; see docs/reliability.md for more
	$(BIN)/python -m bench.soak

.PHONY: oracle
oracle: ## Build the judge: kube-scheduler's own framework as a program (needs Go)
	cd e2e/oracle && go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3" -o ../../.cache/oracle .

.PHONY: parity
parity: $(VENV)/dev.stamp oracle ## Compare decisions with kube-scheduler's on random clusters (SEEDS=0:2000)
	$(BIN)/python -m tests.parity.run --seeds $(SEEDS)
	$(BIN)/python -m tests.parity.hints
	$(BIN)/python -m tests.parity.mutated
	$(BIN)/python -m tests.parity.mutated --hints
	$(BIN)/python -m tests.parity.sampling
	$(BIN)/python -m tests.parity.groups --seeds $(SEEDS)
	$(BIN)/python -m tests.parity.history
	$(BIN)/python -m tests.parity.history --claims
	$(BIN)/python -m tests.parity.history --devices
	$(BIN)/python -m tests.parity.history --volumes
	$(BIN)/python -m tests.parity.history --both
	$(BIN)/python -m tests.parity.history --all
	$(BIN)/python -m tests.parity.history --more
	$(BIN)/python -m tests.parity.history --profiles
	$(BIN)/python -m tests.parity.history --extenders
	$(BIN)/python -m tests.parity.history --sampling --seeds 0:50
	$(BIN)/python -m tests.parity.history --groups
	$(BIN)/python -m tests.parity.history --racks
	$(BIN)/python -m tests.parity.history --whole
	$(BIN)/python -m tests.parity.expressions --seeds 0:12500

.PHONY: mutants
mutants: $(VENV)/dev.stamp ## Plant small faults and see whether tests notice (ROOM=engine, all or named; COUNT=30 SEED=random)
	$(BIN)/python -m tests.mutants $(if $(filter named,$(ROOM)),--named,--room $(ROOM) --count $(COUNT) $(addprefix --seed=,$(SEED)))

.PHONY: bench
bench: $(VENV)/dev.stamp ## Measure side by side with kube-scheduler (hours; see docs/performance.md)
	$(BIN)/python -m bench
	$(BIN)/python -m bench.decisions
	$(BIN)/python -m bench.bounds
	$(BIN)/python -m bench.page

.PHONY: bench-short
bench-short: $(VENV)/dev.stamp ## The same, small: shows that it works, proves nothing
	$(BIN)/python -m bench --short

# Tools that look at the locked packages have an environment of their own, locked as well.
$(TOOLS)/tools.stamp: requirements-tools.lock
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-tools.lock
	@touch $@

.PHONY: sbom
sbom: $(TOOLS)/tools.stamp ## Write sbom.json (CycloneDX): what the image is made of, from the lock file
	$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --of JSON -o sbom.json requirements.lock

.PHONY: audit
audit: $(TOOLS)/tools.stamp ## Look the locked packages up in a database of known vulnerabilities (needs the network)
	$(TOOLS)/bin/pip-audit --require-hashes --disable-pip -r requirements.lock
	$(TOOLS)/bin/pip-audit --require-hashes --disable-pip -r requirements-tools.lock

$(DOCS)/docs.stamp: requirements-docs.lock
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

.PHONY: site
site: $(DOCS)/docs.stamp ## Make docs/ a site in site/; links to nowhere are errors
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

.PHONY: lock
lock: $(TOOLS)/tools.stamp ## Renew the lock files from pyproject.toml
	$(TOOLS)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra tracing --group build pyproject.toml -o requirements.lock
	$(TOOLS)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra dask --extra data --extra sweep --extra top --extra tracing --group build --group dev pyproject.toml -c requirements.lock -o requirements-dev.lock
	$(TOOLS)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group tools -o requirements-tools.lock
	$(TOOLS)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group docs -o requirements-docs.lock

.PHONY: image
image: $(VENV)/run.stamp ## Build the container image for this machine (needs docker)
	docker build --build-arg VERSION=$(VERSION) --target daemon -t stowage:dev .

.PHONY: image-operator
image-operator: $(VENV)/run.stamp ## Build the operator's image (needs docker)
	docker build --build-arg VERSION=$(VERSION) --target operator -t stowage-operator:dev .

.PHONY: image-push
image-push: $(VENV)/run.stamp ## Build both for two architectures and push them (IMAGE=registry.example/stowage)
	docker buildx build --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --build-arg BASE=$(or $(BASE),$(BASED_ON)) --target daemon --push -t $(IMAGE):$(subst +,-,$(VERSION)) .
	docker buildx build --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --build-arg BASE=$(or $(BASE),$(BASED_ON)) --target operator --push -t $(IMAGE)-operator:$(subst +,-,$(VERSION)) .

.PHONY: dist
dist: $(VENV)/run.stamp sbom ## Make what is released in dist/: wheels, chart, krew plugin, SBOM (needs helm, and a tag)
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . ./apistub
	helm package deploy/helm/stowage --version $(VERSION) --app-version $(VERSION) --destination dist
	$(BIN)/python deploy/krew/build.py --version v$(VERSION) --url $(URL)/v$(VERSION) --into dist
	mv sbom.json dist

.PHONY: deploy
deploy: ## Apply the base manifests to the current cluster
	kubectl apply -k deploy/base

.PHONY: kind
kind: image ## Create a kind cluster with Stowage in it (needs docker, kind and kubectl)
	kind get clusters | grep -qx stowage || kind create cluster --name stowage --config deploy/overlays/kind/cluster.yaml --wait 180s
	kind load docker-image stowage:dev --name stowage
	kubectl --context kind-stowage apply -k deploy/overlays/kind
	kubectl --context kind-stowage -n stowage rollout restart deployment/stowage
	kubectl --context kind-stowage -n stowage rollout status deployment/stowage --timeout 180s
	@echo 'Next: kubectl --context kind-stowage apply -k deploy/examples'
	@echo 'Then: kubectl --context kind-stowage get pods -o wide; kind delete cluster --name stowage'

.PHONY: undeploy
undeploy: ## Remove what deploy applied
	kubectl delete -k deploy/base

.PHONY: clean
clean: ## Remove everything that can be made again
	rm -rf $(VENV) $(TOOLS) $(DOCS) site sbom.json .cache build dist *.egg-info apistub/build apistub/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
