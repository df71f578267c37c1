# Everything that make writes goes into this folder; deleting it is safe.
CACHE := $(CURDIR)/.cache

export GOCACHE          ?= $(CACHE)/go-build
export GOMODCACHE       ?= $(CACHE)/go-mod
export STATICCHECK_CACHE := $(CACHE)/staticcheck
export GOFLAGS          := -modcacherw $(GOFLAGS)
export GOTOOLCHAIN      ?= local

# Modules beside the root one, so that what they need stays out of ours.
SUBMODULES := $(patsubst %/go.mod,%,$(wildcard bench/go.mod e2e/go.mod examples/go.mod))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: test
test: system lint race norace submodules bench-once ## install what the tests need, then run all of them

.PHONY: check
check: format lint race bench-once ## what to run before a change is reviewed

.PHONY: build
build: ## build the programs into .cache/bin
	go build -trimpath -o $(CACHE)/bin/ ./cmd/...

.PHONY: release
release: ## build archives for all platforms into .cache/release, with bills of materials and sums
	go run ./deploy/release -out $(CACHE)/release $(RELEASE_FLAGS)

.PHONY: demo
demo: ## wake a dozen real programs on three workers and look at what happened
	go run ./cmd/layover demo

.PHONY: demo-envoy
demo-envoy: ## the same with atenet-router, a real Envoy (pip ships it) and a control plane
	go run ./cmd/atenet-router demo --envoy "$$(cd e2e && go run ./envoy/path)"

.PHONY: figures
figures: ## measure what the documents promise, as ratios, and say whether it held
	cd bench && go run ./figures

.PHONY: figures-envoy
figures-envoy: ## what 2,000 requests parked in a real Envoy cost those to awake actors (80 seconds; leave the machine alone)
	cd e2e && go run ./crowd

.PHONY: bench
bench: ## compare the turnstile with its rivals and write docs/benchmarks.md (ten minutes; leave the machine alone)
	cd bench && go run ./compare

# A stranger's machine keeps its system packages as they are.
.PHONY: system
system:
	@if [ "$$CI" = true ]; then ./.ci/packages; fi

.PHONY: format
format: ## rewrite the Go files in their standard form
	gofmt -w $$(git ls-files '*.go')

.PHONY: lint
lint: ## vet, staticcheck, formatting
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	GOOS=darwin go vet ./cmd/... ./internal/...
	go tool staticcheck ./...

.PHONY: race
race: ## all tests of the root module, with the race detector, in random order
	./.ci/tests -race -shuffle=on -timeout 15m ./...

.PHONY: norace
norace: ## what the race detector would distort: memory of parked requests, the warm path
	go test -run 'TestParkedRequestsAreSmall|TestWarmPath' -timeout 5m ./internal/proxy

.PHONY: submodules
submodules: ## all tests of the modules beside the root one
	@for module in $(SUBMODULES); do \
		echo "== $$module"; \
		(cd $$module && go vet ./... && ../.ci/tests -shuffle=on -timeout 15m ./...) || exit 1; \
	done

.PHONY: bench-once
bench-once: ## run every benchmark once, so that none rots
	go test -run '^$$' -bench . -benchtime 1x ./... > $(CACHE)/bench-once.txt || { cat $(CACHE)/bench-once.txt; exit 1; }
	@for module in $(SUBMODULES); do \
		(cd $$module && go test -run '^$$' -bench . -benchtime 1x ./... > $(CACHE)/bench-once.txt) || { cat $(CACHE)/bench-once.txt; exit 1; }; \
	done

.PHONY: soak
soak: ## run layover under all that a bad day has, for SOAK_TIME (default 3m), and say whether it held
	cd e2e && go run ./soak -time $(or $(SOAK_TIME),3m) $(SOAK_FLAGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 20s) each
	./.ci/fuzz $(or $(FUZZTIME),20s)

.PHONY: clean
clean: ## delete everything that make wrote
	rm -rf $(CACHE)
