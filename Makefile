# `make` lists what there is to do.
BINARY  := plimsoll
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo test bench clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-8s %s\n", $$1, $$2}'

build: ## Build the binary ./plimsoll (no cgo)
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/plimsoll

# With CI=true the demo sends itself a few hundred requests and stops; otherwise it stays until Ctrl-C.
demo: build ## Run the gateway in front of a small shop, to try it
	./$(BINARY) demo $(if $(filter true 1,$(CI)),--once)

# Allocations are counted without the race detector, which allocates itself. The whole suite comes last, so that its
# lines end the output.
test: ## Install the tools that tests need, then vet and test everything
	./scripts/tools.sh
	@unformatted=$$(gofmt -l cmd internal bench); test -z "$$unformatted" || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	GOOS=darwin go vet ./...
	@out=$$(go test -run Alloc ./...) || { echo "$$out"; exit 1; }; echo "$$out" | grep -v 'no test'
	go test -race ./...

bench: build ## Measure side by side with nginx and HAProxy (20 minutes; BENCH=--quick for a taste)
	python3 bench/proxy_cost.py --plimsoll ./$(BINARY) --all $(BENCH)
	python3 bench/idle.py --plimsoll ./$(BINARY)
	python3 bench/reload.py --plimsoll ./$(BINARY)
	python3 bench/upgrade.py --plimsoll ./$(BINARY)

clean: ## Remove what the other targets made
	rm -rf $(BINARY) bench/out
