# Every command that people and CI need. `make` alone lists them.
# Two environments: .venv has only the service (no torch), .venv-dev everything for tests and training.

PYTHON ?= python3
TORCH  ?= cpu# cpu | cuda: the build of torch in the development environment
ARGS   ?=# passed on to the command
JOBS   ?= 2# processes that run the fast tests
DATA   ?= data# of `make model`: folder with parallel/ and eval/
OUT    ?= runs/crosslet-mini# of `make model`
TERMS  ?=# of `make model`: licences of its text ("permissive share-alike"); empty: the configuration's

NEWEST  := 3.13# newest Python of the development locks; the service alone also runs on newer ones
SERVICE := .venv
DEV     := .venv-dev$(if $(filter cuda,$(TORCH)),-cuda)
LOCKED  := -m pip install -qq --disable-pip-version-check --require-hashes --no-deps
PROJECT := -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .

# The extras of the service that its variables ask for.
EXTRAS  := $(if $(filter 1 t true y yes on,$(CROSSLET_MCP)),mcp) $(if $(filter cl100k_base,$(CROSSLET_TOKEN_IDS)),openai-ids) \
	$(if $(OTEL_EXPORTER_OTLP_ENDPOINT)$(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT),traces) \
	$(if $(filter milvus:% milvus+tls:%,$(CROSSLET_INDEX)),milvus)

TRAIN   := CROSSLET_PYTHON="$(CURDIR)/$(DEV)/bin/python" training/run.sh

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev serve test test-slow test-milvus test-clients lint format train model reranker bench bench-training endurance export reference wheel release image image-test lock

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SERVICE)/.installed $(DEV)/.installed  ## make both environments (other targets make the one they need)

setup-dev: $(DEV)/.installed  ## make the development environment; TORCH=cuda for a GPU

serve: $(SERVICE)/.installed $(EXTRAS:%=$(SERVICE)/.%)  ## serve the bundled model on port 8080 (CROSSLET_PORT)
	@exec $(SERVICE)/bin/crosslet serve

test: $(DEV)/.installed  ## the fast tests; ARGS="-k name" goes to pytest
	$(DEV)/bin/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

test-slow: $(DEV)/.installed  ## the tests that take minutes: training end to end
	$(DEV)/bin/python -m pytest -m slow $(ARGS)

test-milvus: $(DEV)/.installed .venv-milvus/.installed  ## the tests against a Milvus 2.3 server, which is installed (260 MB) and started; no root
	@# In a network of its own, which has loopback alone: the server listens on every address. And with mounts of its own.
	unshare --net --mount --map-root-user sh -c 'ip link set lo up && exec "$$@"' sh $(DEV)/bin/python -m pytest -m milvus $(ARGS)

test-clients: $(DEV)/.installed  ## other people's clients, each in its own environment (.venv-clients, 1 GB)
	$(DEV)/bin/python -m pytest -m clients tests/clients $(ARGS)

lint: $(DEV)/.installed  ## style, import rules and types
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy

format: $(DEV)/.installed  ## rewrite the sources in the project's format
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

train: $(DEV)/.installed  ## distil a model: ARGS="--config FILE --data DIR --out DIR"
	$(TRAIN) $(ARGS)

model: $(DEV)/.installed  ## train the bundled model and export it, into OUT: DATA=DIR OUT=DIR; takes hours, resumes when run again
	$(TRAIN) --config training/configs/default.yaml --data "$(DATA)" --out "$(OUT)/sentences" $(if $(TERMS),--terms $(TERMS))
	$(TRAIN) --config training/configs/passages.yaml --data "$(DATA)" --out "$(OUT)" \
		--continue-from "$(OUT)/sentences/final/checkpoint"
	[ "$(OUT)/artifact/manifest.json" -nt "$(OUT)/final/checkpoint/crosslet.json" ] || \
		$(DEV)/bin/python -m export --checkpoint "$(OUT)/final/checkpoint" --out "$(OUT)/artifact" --word-bits 4 --fold-text --force

reranker: $(DEV)/.installed  ## train a re-ranker and export it, into OUT: DATA=DIR OUT=DIR [CONFIG=FILE]; hours, resumes when run again
	$(TRAIN) --config "$(or $(CONFIG),training/configs/reranker-small.yaml)" --data "$(DATA)" --out "$(OUT)"
	[ "$(OUT)/artifact/manifest.json" -nt "$(OUT)/final/best/crosslet.json" ] || \
		$(DEV)/bin/python -m export --checkpoint "$(OUT)/final/best" --out "$(OUT)/artifact" --word-bits 4 --fold-text --force

bench: $(DEV)/.installed  ## speed and memory beside other servers (ARGS="--data DIR") or another tree (ARGS="--before DIR")
	$(DEV)/bin/python -m benchmarks.serving $(ARGS)

bench-training: $(DEV)/.installed  ## training speed against sentence-transformers: ARGS="--data DIR"
	$(DEV)/bin/python -m benchmarks.training $(ARGS)

endurance: $(DEV)/.installed  ## load, crashes and a full disk on a live service: ARGS="overload", "shutdown", "soak", "crash" or "full-disk"
	$(DEV)/bin/python -m benchmarks.endurance $(ARGS)

export: $(DEV)/.installed  ## checkpoint to artifact: ARGS="--checkpoint DIR --out DIR --precision int8"
	$(DEV)/bin/python -m export $(ARGS)

reference: $(DEV)/.installed  ## write docs/reference/settings.md, configuration.md and clients.md
	$(DEV)/bin/python scripts/reference.py

wheel: $(SERVICE)/.installed  ## build the wheel with the bundled models, into dist/
	$(SERVICE)/bin/python -m hatchling build --target wheel --directory dist

release: $(SERVICE)/.installed  ## build the wheel, its bill of materials (CycloneDX) and SHA256SUMS, into dist/
	scripts/release.sh $(SERVICE)/bin/python

image:  ## build the service's container image
	docker build --file docker/service.Dockerfile --tag crosslet:latest \
		--build-arg REVISION="$$(git describe --always --dirty --abbrev=40 '--exclude=*' 2> /dev/null || echo unknown)" .

image-test: $(DEV)/.installed  ## build and test the image without Docker (Debian, root, buildah)
	PATH="$(CURDIR)/$(DEV)/bin:$$PATH" scripts/image-test.sh

lock: $(DEV)/.installed  ## update the locks under requirements/; ARGS="--upgrade" upgrades every version
	PATH="$(CURDIR)/$(DEV)/bin:$$PATH" scripts/lock.sh $(ARGS)

# Stamp files: an environment is updated only when its locks or pyproject.toml change.
$(SERVICE)/.installed: requirements/build.txt requirements/service.txt pyproject.toml
	@$(PYTHON) scripts/require_python.py
	@echo "installing the service into $(SERVICE)"
	@$(PYTHON) -m venv $(SERVICE)
	@$(SERVICE)/bin/python $(LOCKED) -r requirements/build.txt -r requirements/service.txt
	@$(SERVICE)/bin/python $(PROJECT)
	@touch $@

$(SERVICE)/.%: requirements/%.txt $(SERVICE)/.installed
	@echo "installing the extra $* into $(SERVICE)"
	@$(SERVICE)/bin/python $(LOCKED) -r $<
	@touch $@

.venv-milvus/.installed: requirements/milvus-server.txt
	@$(PYTHON) -m venv .venv-milvus
	@.venv-milvus/bin/python $(LOCKED) -r requirements/milvus-server.txt
	@touch $@

$(DEV)/.installed: requirements/build.txt requirements/dev.txt requirements/torch-$(TORCH).txt pyproject.toml
	@$(PYTHON) scripts/require_python.py $(NEWEST)
	@echo "installing the development environment into $(DEV), torch for $(TORCH): some minutes the first time"
	@$(PYTHON) -m venv $(DEV)
	@$(DEV)/bin/python $(LOCKED) -r requirements/build.txt -r requirements/dev.txt
	@scripts/install-torch.sh $(DEV)/bin/python $(TORCH)
	@$(DEV)/bin/python $(PROJECT)
	@touch $@
