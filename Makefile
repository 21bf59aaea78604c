# Weir. `make help` explains every target.

GO      ?= go
SHELL   := /bin/bash
PEERS   := iperf3 tshark ethtool ip bird
SUDO    := $(if $(filter 0,$(shell id -u)),,sudo -E env PATH="$$PATH")
PKGS    ?= ./...
BENCH   ?= .

# Folders of make install, and version and architecture of make package.
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION ?= $(shell sed -n 's/^\tNumber = "\(.*\)"/\1/p' internal/version/version.go)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
ARCH    := $(shell $(GO) env GOARCH)
LDFLAGS := -s -w -X weir/internal/version.Number=$(VERSION) -X weir/internal/version.commit=$(COMMIT)

# No build needs cgo. The same settings for all targets let them share compiled packages.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## Explain the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/weir (needs Go alone)
	@mkdir -p bin
	$(GO) build -trimpath -o bin/weir ./cmd/weir

.PHONY: demo
demo: build ## Build, then measure the effect of 1 % packet loss on TCP on this kernel (root; about a minute)
	$(SUDO) bin/weir doctor
	$(SUDO) bin/weir lab run loss-quick

.PHONY: test
test: peers ## Run every test, PACKAGES=N packages at a time; privileged tests need root
	$(GO) build ./...
	@# The tests of e2e treat the whole host, including network namespaces of other tests.
	@all=$$($(GO) list $(PKGS)) || exit; status=0; \
	together=$$(grep -v '^weir/e2e' <<<"$$all"); alone=$$(grep '^weir/e2e' <<<"$$all"); \
	[ -z "$$together" ] || $(SUDO) $(GO) test -count=1 -p $(or $(PACKAGES),3) -timeout 1800s $$together || status=1; \
	[ -z "$$alone" ] || $(SUDO) $(GO) test -count=1 -p 1 -timeout 1800s $$alone || status=1; \
	exit $$status

.PHONY: peers
peers: # the programs that tests use as independent peers
	@missing=; for tool in $(PEERS); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || scripts/install-deps test

.PHONY: install-deps
install-deps: ## Install the Debian packages that tests, generation and the test kernels need
	scripts/install-deps all

.PHONY: generate
generate: ## Compile the BPF programs and write the schemas again (needs clang-19)
	@command -v clang-19 >/dev/null || scripts/install-deps generate
	$(GO) generate ./...

.PHONY: check-generated
check-generated: generate ## Fail if a committed generated file differs from its source
	@changed=$$(git status --porcelain -- '*_bpfel*.go' '*_bpfel*.o' docs/schema docs/formats docs/results/published.md); \
	[ -z "$$changed" ] || { echo "differs from its source:"; echo "$$changed"; git --no-pager diff --stat; exit 1; }

.PHONY: lint
lint: ## Formatting, go.mod, vet, staticcheck, shellcheck, the dependency rules, prose (Vale)
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt'd: $$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -count=1 ./internal/rules
	scripts/prose
	scripts/prose-counts
	@command -v shellcheck >/dev/null || scripts/install-deps lint
	shellcheck .ci/run bench/*.sh $(wildcard bench/show-*) $(shell find scripts -maxdepth 1 -type f ! -name "*.md") packaging/install packaging/promtool packaging/root packaging/test packaging/test-guest packaging/scripts/* $(wildcard testkernel/run testkernel/debian testkernel/smoke testkernel/build testkernel/test)

.PHONY: soak
soak: ## Kill apply, release, run and daemon 1,000 times (KILLS=N) and check for remains (root; about 10 minutes)
	$(SUDO) env WEIR_SOAK=$(or $(KILLS),1000) $(GO) test -count=1 -v -timeout 90m ./e2e/soak

.PHONY: attack
attack: ## Attack a daemon with ten scopes as an unprivileged user for 10 minutes (FOR=30s) (root)
	$(SUDO) env WEIR_ATTACK=$(or $(FOR),10m) $(GO) test -count=1 -v -timeout 90m ./e2e/attack

.PHONY: test-kernels
test-kernels: build ## Run privileged tests (MISSED=FILE: only those that make test skipped) under the test kernels
	testkernel/test -f uml $(if $(MISSED),-m $(MISSED))
	testkernel/test -f x86 $(if $(MISSED),-m $(MISSED)) ./kernel/bpfcheck ./modules/cc
	testkernel/test -f x86 -i
	testkernel/test -f debian-6.12
	testkernel/test -f debian-6.1
	testkernel/run -f debian-6.1 -c 2 -m 2G -- testkernel/smoke
	testkernel/run -f debian-6.12 -c 2 -m 2G -- testkernel/smoke

.PHONY: bench
bench: peers ## Run every benchmark and its peers, five times; use a quiet machine
	$(SUDO) $(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 1x -count 5 -timeout 3600s ./bench/... ./modules/ioam/... ./modules/class/...

.PHONY: bench-once
bench-once: peers ## Run every benchmark once
	$(SUDO) $(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 1800s ./bench/... ./modules/ioam/... ./modules/class/...

.PHONY: fuzz
fuzz: ## Run every fuzzer in turn and print executions and findings; FUZZTIME=100s each
	GO='$(GO)' scripts/fuzz -t $(or $(FUZZTIME),100s)

.PHONY: install
install: ## Install binary, man pages, completions, weir.service and the policy; PREFIX=/usr/local, DESTDIR=
	@mkdir -p bin
	$(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/release/weir ./cmd/weir
	packaging/install bin/release/weir '$(DESTDIR)' '$(PREFIX)'

.PHONY: package
package: deb ## Make dist/weir_VERSION_ARCH.deb and dist/weir_VERSION_ARCH.oci.tar
	$(GO) run ./packaging/image -binary bin/release/weir -version $(VERSION) -arch $(ARCH) -out dist/weir_$(VERSION)_$(ARCH).oci.tar

.PHONY: deb
deb: # the Debian package alone
	rm -rf dist/root
	$(MAKE) --no-print-directory install DESTDIR=dist/root PREFIX=/usr
	PACKAGE_VERSION=$(VERSION) PACKAGE_ARCH=$(ARCH) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1793491200) \
	    $(GO) tool nfpm package -f packaging/nfpm.yaml -p deb -t dist/weir_$(VERSION)_$(ARCH).deb
	rm -rf dist/root

.PHONY: test-package
test-package: ## Install, upgrade and purge the package in a clean Debian with systemd, under Debian's kernel (root)
	packaging/test

.PHONY: clean
clean: ## Remove the files of the build
	rm -rf bin dist weir-out
