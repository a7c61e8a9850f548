# `make` lists what there is to do.
BINARY  := plimsoll
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build web demo lint checks rules test tools analyzer rest late plain alone race seeds statistics soak planted bench bench-overload pgo h2spec patients picture clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

# go build finds cmd/plimsoll/default.pgo, the profile that bench/pgo.py took, by itself.
build: web ## Build the binary ./plimsoll (no cgo)
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BINARY) ./cmd/plimsoll

# Built again when a source is newer than the stamp. Without npm, or without what it downloads, the
# binary is built all the same: its reports then have no charts, and say so.
FRONT := web/package.json web/package-lock.json web/tsconfig.json web/vite.config.mjs $(shell find web/src -type f)

web: web/dist/.built ## Build the front end of the reports into web/dist (needs npm)

web/dist/.built: $(FRONT)
	@cd web && if ! command -v npm >/dev/null; then echo "npm is missing: reports will have no charts; install npm and run make web"; \
	elif ! npm ci --loglevel=error; then echo "npm could not fetch what the front end is built with: reports will have no charts; run make web again"; \
	else npm run --silent build && touch dist/.built; fi

demo: build ## Put a small shop behind the gateway, and find out how much it can carry (two minutes)
	./$(BINARY) demo

# Every package, and the standard library, is compiled twice for the tests, with and without the race
# detector. Debug information takes a sixth of that, and go test links none. Without inlining (-l),
# packages of other modules take a quarter less, and the 19,300 methods of the Redis client's commands
# half; tests spend little time in them. The checks of staticcheck, which are run over everything, and
# the code here, whose allocations are counted, are inlined. With the race detector none are counted:
# to compile takes a quarter less there, too, and tests, which wait for the detector and the kernel, no
# longer; only what the standard library calls everywhere is inlined. A compiler that collects its
# garbage less often (GOGC), for some more memory, takes a fifth less of the processor's time, staticcheck
# a sixth, and tests 14 s in all. With the race detector they would need too much memory: there only the
# go command and the compiler collect less. Where tests have clocks, it gives way to them (nice). As a go
# command runs as many compilers as there are processors, each has one of them (GOMAXPROCS): 4 % of its
# time less. With the profile of cmd/plimsoll, its tests would need every package compiled once more.
# The detector does not look into the arithmetic of handshakes, which shares nothing: tests that make
# many take a sixth less. It would report what it does not see of sync in other packages as races.
INLINED := std plimsoll/... honnef.co/go/tools/... golang.org/x/tools/...
race: INLINED := runtime/... internal/... sync/... bytes strings bufio io
GCFLAGS = '-gcflags=all=-dwarf=false -l' $(INLINED:%=-gcflags=%=-dwarf=false)
race: GCFLAGS += $(patsubst %,'-gcflags=%=-dwarf=false -race=false',crypto/ecdh $(addprefix crypto/internal/fips140/,bigmod ecdh ecdsa edwards25519/... mlkem nistec/... rsa))
GIVEN := $(GOFLAGS)
TOOL := env GOMAXPROCS=1
plain race: TOOL := nice -n 5 env GOMAXPROCS=1
analyzer checks rules plain alone race seeds statistics: export GOFLAGS = $(GIVEN) -pgo=off $(GCFLAGS) '-toolexec=$(TOOL)'
analyzer checks rules plain alone race seeds statistics: export GOGC := 400
# Only the race detector needs cgo. Without cgo no C compiler runs, as in make build.
analyzer checks rules plain alone seeds statistics: export CGO_ENABLED := 0

lint: checks rules ## Look for what gofmt, go vet, staticcheck and the house's own rules object to

# The tool is built here, as go tool would not use these flags, and compile what it needs once more.
checks: web
	dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && go build -o "$$dir" ./internal/lint/analyze && \
	go vet -vettool="$$dir/analyze" ./...

# They build the same tool: at once, each would compile what the tool needs (40 s of the processor).
rules: checks
	./scripts/size.sh
	$(TEST) ./internal/lint

# The race detector makes tests about five times slower, so only what it can find something in runs
# under it. The simulation runs one goroutine at a time, which the detector cannot know. ALONE are
# rooms that start no goroutine and use none that do; a test of internal/lint holds them to that.
# Allocations are counted without the detector, which allocates itself. Tests that wait most of
# their time run in parallel with each other, more of them than there are processors; so do packages
# (-p). The gateway takes the longest, and begins first. go vet has seen everything in lint, where
# internal/lint is tested. A program of the race detector waits a second before it ends unless
# GORACE says otherwise, and tests start hundreds. It also maps its memory for what is allocated
# anew, from 64 KB on: writing it instead, up to a megabyte, takes a fifth of the gateway tests'
# processor time off (page faults). A package may take longer than go test's ten minutes on a
# machine that is slow: only one that hangs meets the time-out. The two halves, with the detector
# and without, run beside each other: one compiles while tests of the other wait. One after the
# other, an eighth of the processors' time was idle. What never waits, lint and the simulation,
# comes last and gives way to the gateway's tests of plain, which wait for a minute, and to ALONE,
# of which the patients wait: first, it left the tests that wait alone at the end. Without the
# detector hardly a test waits or has a clock: each go command of that half runs no more packages at
# once than there are processors, and gives way to the other half (nice), which failed now and then
# in a crowd of eight.
ALONE := ./examples/patients ./examples/patients/work ./internal/admission ./internal/cache \
	./internal/cache/rules ./internal/cidr ./internal/concurrency ./internal/exchange ./internal/grpc \
	./internal/hash ./internal/head ./internal/hist ./internal/hpack ./internal/http1 \
	./internal/http2 ./internal/loadline ./internal/route ./internal/telemetry/budget \
	./internal/lab/diagnose ./internal/lab/disk ./internal/lab/format ./internal/lab/heap \
	./internal/lab/kernel \
	./internal/lab/measure ./internal/lab/model ./internal/lab/pace ./internal/lab/plan \
	./internal/lab/profile ./internal/lab/queue ./internal/lab/record \
	./internal/lab/reference ./internal/lab/report ./internal/lab/slo ./internal/lab/stacks \
	./internal/lab/stats ./internal/lab/survey ./internal/lab/symbols \
	./internal/policy/access ./internal/policy/cors ./internal/policy/forwarded \
	./internal/policy/headers ./internal/policy/ladder ./internal/policy/maxbody \
	./internal/policy/mirror ./internal/policy/redirect ./internal/policy/requestid \
	./internal/policy/respond ./internal/policy/rewrite ./internal/policy/split \
	./internal/policy/trace
# In other rooms, tests for which the same holds stand in files tagged !race.
PLAIN = $(shell grep -rlE '^//go:build !race|^func Test[A-Za-z0-9]*Alloc' --include='*_test.go' cmd internal)
PLAIN_ROOMS = $(filter-out $(ALONE),$(patsubst %,./%,$(sort $(patsubst %/,%,$(dir $(PLAIN))))))
PLAIN_TESTS = $(shell grep -lE '^//go:build !race' $(PLAIN) | xargs grep -ohE '^func (Test|Fuzz)[A-Za-z0-9]+' | sed 's/func //; s/.*/^&$$/' | paste -sd'|')
# Of those rooms' tests, plain compiles those that it runs, and hides the other files: for the gateway
# 8 s, for the others 25 s of the processor less to compile and link. So what those tests use must be in
# files without tests, such as harness_test.go: else plain does not compile. A test of internal/lint sees
# that no TestMain is hidden.
HIDDEN = $(filter-out $(PLAIN),$(shell grep -lE '^func (Test|Fuzz|Benchmark)[A-Za-z0-9]*\(([a-z]+ )?\*testing\.[TFB]\)' $(PLAIN_ROOMS:./%=%/*_test.go)))
# go test compiles packages without tests too, and what they import: for nothing with the race detector,
# with which (-race) those have none whose tests are all tagged !race.
HAS_TESTS := {{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}
BUSY := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
TEST := go test -vet=off -timeout 1h
# Who may not install anything is told what is missing before anything is compiled.
test: ## Install the tools that tests need, then test and lint everything
	@[ "$$(id -u)" -eq 0 ] || ./scripts/tools.sh
	$(MAKE) -j2 tools analyzer
	$(MAKE) -j3 race rest late

# The front end needs npm, which tools.sh installs. It takes little of the processor, so it is built
# while the analyzer compiles.
tools:
	./scripts/tools.sh
	$(MAKE) web

# What make lint uses is compiled while the tools are installed, which mostly waits.
analyzer:
	go build -o /dev/null ./internal/lint/analyze

rest: web
	nice -n 5 $(MAKE) plain
	nice -n 5 $(MAKE) alone seeds

late: race
	nice -n 15 $(MAKE) lint

plain: web
	hidden=$$(mktemp) && trap 'rm "$$hidden"' EXIT && \
	printf '"%s":"",' $(HIDDEN) | sed 's/.*/{"Replace":{&}}/; s/,}/}/' >"$$hidden" && \
	$(TEST) -overlay "$$hidden" -run 'Alloc|$(PLAIN_TESTS)' $(PLAIN_ROOMS)

alone: web
	$(TEST) $(ALONE)

seeds:
	nice -n 10 $(TEST) ./internal/sim -seeds 2000

race: export GORACE = atexit_sleep_ms=0 clear_shadow_mmap_threshold=1000000
race: web
	$(TEST) -exec 'env -u GOGC' -p $(BUSY) -race -parallel 8 -skip Alloc ./internal/gateway $$(go list -race -f '$(HAS_TESTS)' ./... | grep -vxF -e plimsoll/internal/sim -e plimsoll/internal/lint $(ALONE:./%=-e plimsoll/%))

REPEATS ?= 20
# The tables in docs/benchmarks.md, docs/load-line.md and docs/adaptive-concurrency.md come from here.
statistics: ## Repeat hundreds of times the surveys and estimates that make test makes once or twice (REPEATS=20 of each)
	go test ./internal/lab/survey -v -timeout 0 -run 'ItsLine|Truth' -surveys $(REPEATS)
	go test ./internal/lab/survey -v -timeout 0 -run ItsLine -surveys $(REPEATS) -held
	go test ./internal/loadline -v -timeout 0 -run Line -seeds $(REPEATS)
	go test ./internal/lab/model -v -timeout 0 -run Line -seeds $(REPEATS)
	go test ./internal/concurrency -v -timeout 0 -run Services -grid tuned
	go test ./internal/concurrency -v -timeout 0 -run Services -grid held

# Each soak begins at other seeds than the one before. The simulation has no sockets, and no detector.
soak: ## Misbehave around a gateway for two minutes, then play seeds of the simulation for SOAK (an hour; SOAK=10m for less)
	go test -race ./internal/gateway -v -run NobodyBehaves -timeout 0 -soak 1m
	go test ./internal/sim -v -run Seeds -timeout 0 -soak $(or $(SOAK),1h) -from $$(date +%s)000

planted: ## Plant known defects, one at a time, and see that the simulation finds each (half an hour; PLANTED=NAME for one)
	./scripts/planted.py $(PLANTED)

bench: build ## Measure side by side with nginx, HAProxy and wrk, and surveys against the truth (40 minutes; BENCH=--quick for a taste of the first)
	python3 bench/proxy_cost.py --plimsoll ./$(BINARY) --all $(BENCH)
	python3 bench/h2_cost.py --plimsoll ./$(BINARY)
	python3 bench/idle.py --plimsoll ./$(BINARY)
	python3 bench/reload.py --plimsoll ./$(BINARY)
	python3 bench/upgrade.py --plimsoll ./$(BINARY)
	python3 bench/load_cost.py --plimsoll ./$(BINARY)
	python3 bench/replay_burst.py --plimsoll ./$(BINARY)
	python3 bench/survey_truth.py --plimsoll ./$(BINARY) --runs 2

bench-overload: build ## Offer a service three times what it can do, through plimsoll, nginx, HAProxy and Envoy (35 minutes; BENCH=--quick for a look)
	python3 bench/overload.py --plimsoll ./$(BINARY) --json bench/out/overload.json $(BENCH)

pgo: build ## Profile the data plane under load, for the compiler: writes cmd/plimsoll/default.pgo (two minutes)
	python3 bench/pgo.py --plimsoll ./$(BINARY)

h2spec: ## Run h2spec, strict, five times against the gateway (half a minute; fetches h2spec)
	python3 bench/h2spec.py

patients: build ## Survey services that are sick on purpose, sick and cured, and compare the diagnosis with what they have (an hour and a half; PATIENTS="lock ports" for some)
	./scripts/tools.sh
	$(if $(PATIENTS),,go test ./examples/patients -each -timeout 1h)
	python3 bench/patients.py --plimsoll ./$(BINARY) $(PATIENTS)

picture: build ## Draw the report in the README again, from the run in docs/report-run.tar.gz (needs Chromium)
	./scripts/picture.sh

clean: ## Remove what the other targets made
	rm -rf $(BINARY) bench/out web/node_modules web/dist/report.* web/dist/.built plimsoll-runs/demo*.yaml plimsoll-runs/demo-[0-9]*
