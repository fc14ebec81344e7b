# `make weigh` and `make test` are all that a fresh Debian 12 needs (with make
# itself: apt-get install make). Set-up is scripts/setup.sh; see its head.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Set-up comes before building, and two steps at once would both call apt-get.
.NOTPARALLEL:

# Nothing here needs C in a Go binary. Building, vetting and testing share these settings, so
# that each dependency is compiled once.
export CGO_ENABLED := 0
export GOFLAGS += -trimpath

# Asked for late, in the recipe that uses it: `make go` may only just have
# fetched it.
GO = $(shell scripts/setup.sh which-go)

# Late as well: so may git.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The version is stamped by hand: Go's own stamp wants git, and a repository
# that belongs to whoever builds.
BUILD = build -buildvcs=false -ldflags '-s -w -X tare/cli/command.version=$(VERSION)'

# Always anew: Go's cache of results knows nothing of the host. The limit is a package's. Vetting is
# left to make lint.
# Most packages run one at a time: their tests use the host's control groups, the engine, fixed
# ports and the clock, and two at once would weigh each other. Two at a time run those that
# use nothing but files of their own, and those whose machines are emulated; and after them
# those whose programs are in groups of their own, and that no engine's shims are beside. A box
# is not: its swap area is everybody's first.
TEST = test -json -vet=off -count 1 -timeout 10m
TOGETHER = ./platform/vm/... ./programs/... ./image/... ./annex/simulate ./annex/data ./annex/predict \
	./annex/trace ./annex/synthetic ./annex/config ./advise ./census ./claim ./cli/command ./cli/results ./model/... \
	./nearest ./overhead ./record/... ./report ./stats/... ./study/imported ./study/kit/... \
	./study/platforms ./study/predict ./study/reproduction ./study/weigh ./terminal .
BESIDE = ./workload ./platform/oci ./platform/bare ./platform/agent
# At the end it lists the tests that were skipped, with their reasons, and those that failed.
SUMMED = $(GO) tool -modfile=tools/go.mod gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg --raw-command --

SHELL_SCRIPTS := scripts/setup.sh scripts/bench-gpu.sh scripts/package.sh scripts/words.sh scripts/stale.sh scripts/picture.sh contrib/kubectl_complete-tare .ci/run kernel/bpf/generate.sh $(wildcard programs/*/*.sh)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' Makefile

.PHONY: weigh
weigh: setup build ## set up, build, and weigh redis, stream and ffmpeg (under 15 minutes)
	bin/tare weigh redis stream ffmpeg --budget 8m --yes

# The tests of platform docker:swarm need an engine that is in a swarm, or that
# set-up started, which they put into one and out again. With another, such as one
# that systemd started, they do so only where TARE_TEST_SWARM=1 is given; a run that
# is killed then leaves it there (docker swarm leave --force).

.PHONY: test
test: setup build lint generated ## set up, build, check, make a short weighing, run every test, and list those that were skipped (TARE_TEST_SWARM=1: may put any engine into a swarm)
	bin/tare weigh redis --quick --yes
	$(SUMMED) bash -c 'failed=0; \
	$(GO) $(TEST) -p 2 $(TOGETHER) || failed=1; \
	$(GO) $(TEST) -p 2 $(BESIDE) || failed=1; \
	$(GO) $(TEST) -p 1 $$($(GO) list ./... | grep -vxF "$$($(GO) list $(TOGETHER) $(BESIDE))") || failed=1; \
	exit $$failed'

.PHONY: test-all
test-all: setup build ## what make test leaves out for time: every package's tests in a guest, Debian with systemd as a guest and engines in it, a guest's CPU taken off line, machines' and agents' whole conformance, swarms' and rootless engines' too, each image built twice, tare killed at more moments, a study over 1,000 simulated nodes (about 2 hours)
	TARE_TEST_GUEST=1 TARE_TEST_VM=1 $(GO) test -count 1 -timeout 5h ./platform/vm/guest
	TARE_TEST_VM=1 $(GO) test -count 1 -timeout 40m ./platform/vm
	TARE_TEST_ALL=1 $(GO) test -p 1 -count 1 -timeout 20m ./platform/agent ./platform/docker ./image ./cli ./cli/kubectl ./annex/daemon

# What has to do with Kubernetes' client, 300 packages. staticcheck reads all of them, which takes
# minutes: that is left to test-nodes.
NODES = ./nodes ./cli/kubectl ./cli/reference ./cmd/kubectl-tare

.PHONY: test-nodes
test-nodes: go ## a real Kubernetes cluster of two nodes on this host: built (about 10 minutes, once), used, disturbed and removed (needs root)
	scripts/setup.sh packages nodes
	$(GO) tool -modfile=tools/go.mod staticcheck $(NODES)
	TARE_TEST_NODES=1 $(GO) test -p 1 -count 1 -timeout 90m -v ./platform/clustertest ./platform/k8s ./cli/kubectl

SOAK ?= 20m

.PHONY: soak
soak: setup build ## tare and annexd killed at random moments, and annexd beside containers that come and go; SOAK (20m) each
	TARE_SOAK=$(SOAK) $(GO) test -p 1 -count 1 -timeout 0 -v -run Soak ./cli ./annex/daemon

.PHONY: setup
setup: ## packages, Go, a Docker engine that answers; says what the host lacks
	@scripts/setup.sh all

.PHONY: go
go:
	@scripts/setup.sh which-go >/dev/null 2>&1 || scripts/setup.sh go

.PHONY: build
build: go ## bin/tare, bin/annexd and bin/annex of the memory extension, and bin/kubectl-tare: static binaries; needs Go and nothing else
	@mkdir -p bin
	$(GO) $(BUILD) -o bin/ ./cmd/...

.PHONY: hint
hint: ## bin/libannexhint.so, by which programs that opt in have their memory read in bulk when they wake; needs gcc
	@mkdir -p bin
	gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -o bin/libannexhint.so contrib/hint/annex_hint.c -pthread -ldl

# GPU_ARGS go to its build.sh: --capability 9.0 for a device that is not here, --kind ptx for
# PTX alone.
.PHONY: gpu-programs
gpu-programs: ## bin/gpu/KIND/PROGRAM: the CUDA programs for the device here, as PTX, and as both; needs nvcc of CUDA 11.8 or newer
	@programs/gpu/build.sh bin/gpu $(GPU_ARGS)

# The site's programs are kept beside Go's.
DOCS_ENV := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tare/docs

.PHONY: docs
docs: ## dist/docs: the documentation as a site, which needs no network (needs python3-venv)
	test -x $(DOCS_ENV)/bin/mkdocs || { python3 -m venv $(DOCS_ENV) && $(DOCS_ENV)/bin/pip install --quiet -r docs/requirements.txt; }
	$(DOCS_ENV)/bin/mkdocs build --strict --quiet --site-dir $(CURDIR)/dist/docs

.PHONY: picture
picture: build ## the pictures of the front page, from the run that is kept for them (needs chromium)
	scripts/picture.sh

.PHONY: results
results: go ## fill the pages of docs/results from the runs that are kept for them, and draw their plots
	$(GO) run ./cli/results docs/results
	$(GO) run scripts/plots.go

.PHONY: stale
stale: ## pages of results that are older than the code that they measured
	@scripts/stale.sh

.PHONY: words
words: ## words of documentation that are written by hand, by page
	@scripts/words.sh

# PREFIX is where programs are installed to; DESTDIR goes before it, for packages.
PREFIX ?= /usr/local

# Manual pages and packages have the date of the last commit, so that the same source makes the
# same files.
MADE = SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: install
install: build ## programs, manual pages, completions and annexd's unit into PREFIX (/usr/local)
	$(MADE) $(GO) run ./cli/reference -version $(VERSION) -man bin/man -completions bin/completions
	scripts/package.sh install "$(DESTDIR)" "$(PREFIX)" bin

.PHONY: uninstall
uninstall: ## take away what make install put there
	scripts/package.sh uninstall "$(DESTDIR)" "$(PREFIX)"

ARCHITECTURES := amd64 arm64

# What packages are made of, for each architecture.
.PHONY: dist
dist: go
	rm -rf dist
	for arch in $(ARCHITECTURES); do \
		GOOS=linux GOARCH=$$arch $(GO) $(BUILD) -o dist/$$arch/ ./cmd/...; \
		$(MADE) $(GO) run ./cli/reference -version $(VERSION) -man dist/$$arch/man -completions dist/$$arch/completions; \
	done

.PHONY: deb
deb: dist ## dist/tare_VERSION_ARCH.deb, for amd64 and arm64
	for arch in $(ARCHITECTURES); do $(MADE) scripts/package.sh deb $(VERSION) $$arch dist/$$arch dist; done

.PHONY: tarball
tarball: dist ## dist/tare-VERSION-linux-ARCH.tar.gz, for amd64 and arm64
	for arch in $(ARCHITECTURES); do scripts/package.sh tarball $(VERSION) $$arch dist/$$arch dist; done

.PHONY: image
image: dist ## dist/tare-VERSION-image-ARCH.tar, which docker load and podman load take; dist/kubectl-tare-VERSION-image.tar for nodes of a cluster, with its digest
	for arch in $(ARCHITECTURES); do $(GO) run scripts/image.go -version $(VERSION) -arch $$arch -binaries dist/$$arch -out dist; done
	$(GO) run scripts/image.go -nodes -version $(VERSION) -binaries dist -out dist

.PHONY: lint
lint: go ## gofmt, go mod tidy, go vet, staticcheck, shellcheck
	@scripts/setup.sh lint
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); \
	if [[ -n $$unformatted ]]; then echo "gofmt would change:" $$unformatted; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck $$($(GO) list ./... | grep -vxF "$$($(GO) list $(NODES))")
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_SCRIPTS); fi

.PHONY: generate
generate: go ## make generated files anew
	$(GO) generate ./...

# What takes minutes to make anew is not made here: the test beside its generator
# holds it to a shorter run of the same.
SLOW_GENERATORS := statistics\.md

# What generating changed is told from what was changed before.
TREE_STATE = { git diff HEAD; git ls-files -oz --exclude-standard | xargs -0r cat; } | sha256sum

.PHONY: generated
generated: go ## fail where generated files are not current
	@if ! git rev-parse HEAD >/dev/null 2>&1; then echo "generated: no git history here to compare with; passed over"; exit; fi; \
	before=$$($(TREE_STATE)); \
	$(GO) generate -skip '$(SLOW_GENERATORS)' ./...; \
	if [[ $$before != "$$($(TREE_STATE))" ]]; then git status --short; echo "generated files were not current: they are now; review and commit them"; exit 1; fi

# Benchmarks measure: on an idle host, nothing else beside them. They judge
# nothing; SPECIFICATION.md says what they should find.

.PHONY: bench-weight
bench-weight: setup build ## the instrument's own weight, against programs started by hand (about 8 minutes)
	$(GO) build -o bin/weight ./bench/weight
	bin/weight start redis stream oci:runc oci:crun

.PHONY: bench-startup
bench-startup: setup build ## starts against starts by hand, the generator's lateness, the profiler's cost (about 10 minutes)
	$(GO) build -o bin/weight ./bench/weight
	bin/weight starts:runc starts:crun
	bin/tare startup --platform oci:crun --workload empty --rate 50 --count 200 --knee=false --blocks 5
	bin/tare startup --platform docker,oci:runc --workload empty --rate 4 --knee=false --profile --budget 6m

.PHONY: bench-load
bench-load: go ## the load generator's own exactness, against servers of known delay and known stalls (about 2 minutes; needs root, two CPUs, and nothing else on them)
	$(GO) build -o bin/load ./bench/load
	bin/load

.PHONY: bench-latency
bench-latency: setup build ## S4 whole, and predictions against what they predict: docs/results/latency.md (about 50 minutes; nothing else should run)
	bin/tare latency cpu --budget 12m
	bin/tare latency cpu --experiment burst --budget 4m
	bin/tare predict quota thrift:server=python,client=python thrift:server=go,client=go,work=300 --rate closed,1500 --period 10ms --quota 1ms,2ms,3ms,4ms,5ms,6ms,8ms,10ms --validate --budget 12m
	bin/tare latency network --path nat,bridge,proxy,container --budget 10m
	bin/tare latency files --budget 7m

.PHONY: bench-io
bench-io: setup build ## S5 whole, with the peers of its programs in the same blocks: docs/results/io.md (about 50 minutes; nothing else should run)
	bin/tare io stream --peer --budget 10m
	bin/tare io haccio --budget 15m
	bin/tare io redis --budget 15m
	bin/tare io redis --command get --payload 3 --pipeline 1,10 --storage volume,bind --network host,bridge --appendonly no --budget 10m

.PHONY: bench-platforms
bench-platforms: setup build ## S2 as far as this host's CPUs allow: docs/results/platforms.md (about 35 minutes; nothing else should run)
	bin/tare platforms --workload ffmpeg --cpus 0.5,1,1.5,2 --platform oci,docker --budget 8m
	bin/tare platforms --workload mpi-search,mpi-primes --cpus 2 --platform docker --budget 5m
	bin/tare platforms --workload wordpress,cassandra --cpus 1 --platform docker --budget 7m
	bin/tare platforms --workload ffmpeg --cpus 2 --platform docker --tasks one,many --budget 4m
	bin/tare platforms --workload ffmpeg --cpus 1 --platform docker,vm:tcg/bare,vm:tcg/oci --param clip=/clips/720p-1s.mp4 --causes off --budget 7m
	bin/tare platforms --workload ffmpeg --cpus 1 --platform vm:tcg/oci --host-cpus 1,2 --param clip=/clips/720p-1s.mp4 --causes off --budget 4m

.PHONY: bench-gpu
bench-gpu: setup build ## CUDA programs in containers: docs/results/gpu.md (10 minutes; needs a device of NVIDIA's, and nvcc; nothing else should run)
	mkdir -p bin/gpu-bench
	scripts/bench-gpu.sh pack bin/gpu-bench/archive.tar.gz "$$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)"
	tar -C bin/gpu-bench -xzf bin/gpu-bench/archive.tar.gz
	bin/gpu-bench/bench-gpu.sh run bin/gpu-bench/results

.PHONY: bench-density
bench-density: setup build ## S3's benchmark on this host: docs/results/density.md (about an hour; nothing else should run)
	bin/tare density --blocks 5
	bin/tare density --order interleaved --neighbours 1,16 --swap file,zram --protect none,swappiness,limit,headroom --noise-param compressible=75 --blocks 5
	bin/tare density --critical redis --noise redis --pattern poisson --burst 8 --blocks 5

# The fair measurement of the memory extension: a critical redis at 300 requests a second, and
# neighbours of which half is what each works with: whoever wakes asks for all of that, in an
# order that stays. A turn is 16.6 MiB, 5 times a second, whatever their number, so that each
# of 30 sleeps for 6 seconds, and each of 60 for 12. --settle is what learning takes, five
# rounds: before that the daemon knows no period. Page-cluster and zswap's settings are the
# whole host's: hence --disruptive. BENCH_ARGS go to each command: --dry-run says what would be
# done, and how long it takes; --blocks 10 is what an interval should rest on.
BENCH_ARGS ?= --blocks 4
ANNEX_BOX = --box 512m --critical redis --critical-memory 160m --rate 300 --param compressible=60 \
	--noise redis --neighbour-memory 32m --noise-param asked=50 --noise-param compressible=60 --noise-param unit=4096 --noise-param draw=cycle --burst 85 --think 2353us \
	--order interleaved --step-limit 3m --yes

.PHONY: bench-annex
bench-annex: setup build ## S3.2: the memory extension against every baseline by two patterns, then by overcommitment (about 5 hours; nothing else should run; BENCH_ARGS=--dry-run says more)
	for pattern in periodic poisson; do \
		bin/tare density $(ANNEX_BOX) --pattern $$pattern --neighbours 1,30 --settle 36s --step 13s+1s \
			--protect none,swappiness,limit,headroom --extend none,annex $(BENCH_ARGS); \
	done
	bin/tare density $(ANNEX_BOX) --pattern periodic --neighbours 1,30 --settle 36s --step 13s+1s \
		--swap file,zram,zswap --page-cluster 3,0 --disruptive --extend none,annex $(BENCH_ARGS)
	bin/tare density $(ANNEX_BOX) --pattern periodic --order continuous --neighbours 1,60,99,150 --settle 50s --step 13s+1s \
		--step-limit 5m --swap-size 8g --protect none,swappiness --extend none,annex $(BENCH_ARGS)

# What a policy that predicts may be hurt by: moments and neighbours that cannot be foretold,
# working sets that are never the same twice, collectors, pages shared after a fork, huge
# pages, and more than the box holds, where nothing can help and nothing may get worse.
ANNEX_HEAP = --box 512m --critical redis --critical-memory 160m --rate 300 --param compressible=60 \
	--noise heap --neighbour-memory 16m --noise-param asked=50 --noise-param compressible=60 --noise-param draw=cycle \
	--noise-param collector=serial --noise-param garbage=256 --burst 85 --think 3ms --order interleaved --step-limit 3m --yes
ANNEX_HARD = --neighbours 30 --settle 36s --step 13s+1s --protect none,swappiness --extend none,annex

.PHONY: bench-annex-hard
bench-annex-hard: setup build ## the memory extension where prediction is hard (about 2.5 hours; nothing else should run)
	for pattern in heavy-tailed random drifting; do \
		bin/tare density $(ANNEX_BOX) $(ANNEX_HARD) --pattern $$pattern $(BENCH_ARGS); \
	done
	bin/tare density $(ANNEX_BOX) $(ANNEX_HARD) --pattern periodic --noise-param draw=uniform --noise-param asked=100 $(BENCH_ARGS)
	bin/tare density $(ANNEX_BOX) $(ANNEX_HARD) --pattern poisson --noise-param draw=uniform --noise-param asked=100 --burst 8 $(BENCH_ARGS)
	bin/tare density $(ANNEX_BOX) $(ANNEX_HARD) --pattern periodic --noise-param snapshot=850 $(BENCH_ARGS)
	for pages in small huge; do \
		bin/tare density $(ANNEX_HEAP) $(ANNEX_HARD) --neighbours 20 --pattern periodic --noise-param pages=$$pages $(BENCH_ARGS); \
	done

.PHONY: bench-pages
bench-pages: go ## censuses against raw reads of the same, the fault recorder against perf (about 5 minutes)
	$(GO) test -run '^$$' -bench 'Walk|Files|Many|Memory' -benchtime 10x -timeout 30m ./probe/pagetable
	$(GO) test -run '^$$' -bench 'Slowdown' -benchtime 15x -timeout 30m ./probe/faults
	$(GO) test -run '^$$' -bench 'Of' ./census

.PHONY: bench-diagnose
bench-diagnose: go ## what diagnose takes of 100 containers, and from one that it watches (about 5 minutes; needs root and an OCI runtime)
	TARE_TEST_ALL=1 $(GO) test -count 1 -v -run DiagnoseWeight ./cli
	$(GO) test -run none -bench Weight -benchtime 1x ./study/diagnose

.PHONY: bench-nodes
bench-nodes: go ## what a study over 1,000 simulated nodes asks of a cluster and of who follows it (about 10 minutes)
	TARE_TEST_ALL=1 $(GO) test -count 1 -timeout 40m -v -run ManyNodes ./cli/kubectl

.PHONY: bench-aa
bench-aa: setup ## 20 runs of the same against the same (about 8 minutes)
	$(GO) build -o bin/weight ./bench/weight
	bin/weight -param requests=20000 aa:redis

# RESOLUTION_ARGS go to the command: -part redis2m,weigh names parts, -short shows that it works,
# -report prints what was found. What has been measured stays in bench/resolution/out.
.PHONY: bench-resolution
bench-resolution: setup build ## how finely rounds of slices resolve, in parts that can be interrupted (about 2.5 hours; nothing else should run)
	$(GO) build -o bin/resolution ./bench/resolution
	bin/resolution $(RESOLUTION_ARGS)

.PHONY: bench-report
bench-report: go ## a report, a store and an analysis of 100,000 samples
	$(GO) test -run '^$$' -bench 'HTML|Terminal|Run$$|Analyse' ./report ./record ./overhead

.PHONY: bench-coverage
bench-coverage: go ## the coverage of every interval, by simulation, into docs/statistics.md (about 10 minutes)
	$(GO) generate ./stats/coverage

.PHONY: clean
clean: ## remove what was built (what tare left on the host: bin/tare clean)
	rm -rf bin dist
