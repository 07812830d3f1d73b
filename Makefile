# Verbs of the project. `make` alone lists them.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
WORKERS ?= 2
TESTS ?= tests
# "required": a missing tool of deployment fails its tests instead of skipping them.
export DEPLOY_TOOLS
# Tools that are no Python packages: built once by `make install-tools`, with these versions and no others.
ACTIONLINT_VERSION := v1.7.7
HELM_VERSION := v3.19.0
IMAGE ?= goqueue
CONTAINER ?= $(firstword $(foreach tool,docker podman,$(if $(shell command -v $(tool)),$(tool))) docker)
VERSION = $(shell $(PYTHON) -c 'import hatch_build; print(hatch_build.version())')
COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
# An image tag may not hold a plus sign.
IMAGE_TAG = $(subst +,-,$(VERSION))
# Byte code is kept: every test that starts a broker or a command would compile it all anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

help: ## list the verbs
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{n = split($$1, names, " "); for (i = 1; i <= n; i++) printf "  make %-20s %s\n", names[i], $$2}'

# A broker needs a third of what the tests need, so who only runs one does not wait for the rest.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("GoQueue needs Python 3.11 or newer; found %d.%d. Set PYTHON=/path/to/python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "could not create a virtual environment: on Debian, install python3-venv"; exit 1; }
	@echo "installing packages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(READY): $(INSTALLED)
	@echo "installing tools and tests' packages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(TOOLS): $(READY)
	@echo "installing the tools of a release into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

$(BIN)/actionlint: | $(READY)
	@command -v go >/dev/null || { echo "actionlint needs Go to be built: install golang, or put actionlint into $(BIN)"; exit 1; }
	GOBIN=$(abspath $(BIN)) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(BIN)/helm: | $(READY)
	@command -v go >/dev/null || { echo "helm needs Go to be built: install golang, or put helm into $(BIN)"; exit 1; }
	GOBIN=$(abspath $(BIN)) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

install: $(READY) ## create the environment, with all that tests need

run: $(INSTALLED) ## start a broker with its data in ./data
	@$(BIN)/goqueue server --data-dir ./data

run-dev: $(INSTALLED) ## start a broker, and again whenever a source file changes
	@$(BIN)/python tools/run_dev.py --data-dir ./data

version: ## show the version that a build would have now
	@$(PYTHON) -c 'import hatch_build, pathlib; print(*hatch_build.facts(pathlib.Path(".").resolve()).values())'

install-tools: $(TOOLS) $(BIN)/actionlint $(BIN)/helm ## get the tools of releases: build, pip-audit, bandit, actionlint, helm

build: $(TOOLS) ## sdist and wheel in ./dist
	$(BIN)/python -m build --outdir dist .

# One wheel holds all three programs: each verb shows that its program is there, with the version of the build.
build-goqueue build-cli build-admin: build ## the wheel, and the version that this program of it shows
	@$(BIN)/python tools/show_program.py dist $(patsubst build-goqueue,goqueue,$(patsubst build-cli,goqueue-cli,$(patsubst build-admin,goqueue-admin,$@)))

test: $(READY) lint ## lint, types and all tests but the slow suites, those on Spark and the benchmarks in small
	$(BIN)/python -X dev -m pytest -n $(WORKERS) --dist loadfile -m 'not slow and not spark and not bench' $(TESTS)

# The cluster gets twice the seeds: its runs are short.
SEEDS ?= 500
sim: $(READY) ## the deep simulations: crashes at every persisted step (SEEDS=500 lives each), then the cluster
	GOQUEUE_SIM_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) -m slow tests/sim
	SEEDS=$$(($(SEEDS) * 2)) $(BIN)/python -m pytest -q -n $(WORKERS) tests/sim/test_cluster_replication.py tests/sim/test_cluster_whole.py

test-spark: $(READY) ## source, sink, pipelines and bulk jobs on a real Spark, in one session
	$(BIN)/python -m pytest -m 'spark and not slow' tests/e2e/spark

test-unit: $(READY) ## unit tests alone
	$(BIN)/python -X dev -m pytest -m 'not slow' tests/unit

# Threads and tasks against each other: all simulations, brokers in this process, clients at once, settings.
RACE_TESTS := tests/integration tests/sim tests/unit/broker tests/unit/client tests/unit/coordinator tests/unit/delivery \
	tests/unit/groups tests/unit/node tests/unit/transactions tests/e2e/test_groups_churn.py tests/e2e/test_transactions_together.py

test-race: $(READY) ## concurrency run: threads switch every microsecond, asyncio debug, warnings are errors
	PYTHONASYNCIODEBUG=1 $(BIN)/python -X dev -W error -m pytest -p tests.race -m 'not slow and not spark' $(RACE_ARGS) $(RACE_TESTS)

test-bench: $(READY) ## every benchmark once, in small: does it run, and is what it measures right?
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m 'bench and not slow' tests/e2e

test-deploy: $(TOOLS) $(BIN)/helm ## unit file, compose files and chart, by their own tools
	$(BIN)/python -m pytest -rsfE -m 'not slow' tests/deploy

test-image: $(TOOLS) ## build the image on a base made by debootstrap and run it; needs root, buildah, debootstrap
	$(BIN)/python -m pytest -rs -s -m slow --timeout 1500 tests/deploy/test_image.py

test-cover: $(READY) ## tests with a coverage report
	$(BIN)/coverage run -m pytest -m 'not slow' tests && $(BIN)/coverage report

test-slow: $(READY) ## the long suites: kill -9, soak, deep search
	$(BIN)/python -m pytest -m slow tests

# The suites of clients. What is about one node by design is skipped with its reason (tests/e2e/one_node.py).
THREE_TESTS := $(addprefix tests/e2e/,$(addsuffix .py,test_kafka_* test_groups_* test_transactions_* test_http_* test_client* \
	test_cli* test_delay_* test_schemas_* test_share_groups test_queue_connection test_prepared test_stories test_worker \
	test_lane_reads test_wire_client test_celery test_transfers test_java_client))
test-three: $(READY) ## the tests of clients again, with a broker that is one of three nodes
	GOQUEUE_TEST_NODES=3 $(BIN)/python -m pytest -rs -m 'not spark' --timeout 300 $(wildcard $(THREE_TESTS))

SOAK_MINUTES ?= 60
soak: $(READY) ## mixed load for SOAK_MINUTES: neither memory nor open files may grow
	SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -s -m slow tests/e2e/test_soak.py

MINUTES ?= 30
SEED ?= 1
chaos: $(READY) ## three real nodes killed, frozen and cut off for MINUTES while clients work: nothing acknowledged is lost
	MINUTES=$(MINUTES) SEED=$(SEED) $(BIN)/python -m pytest -s -m slow tests/e2e/cluster/test_chaos.py

test-spark-crash: $(READY) ## kill -9 of driver, workers and broker at every step of the Spark sink
	$(BIN)/python -m pytest -s -m slow tests/e2e/spark/test_spark_crash.py

OLDER := /tmp/goqueue-older-spark
test-spark-older: $(READY) ## PySpark 4.0 and 4.1, each in an environment of its own
	for version in 4.0 4.1; do \
	  test -x $(OLDER)/$$version/bin/python || { python3 -m venv $(OLDER)/$$version && \
	  $(OLDER)/$$version/bin/pip install -q "pyspark==$$version.*" "pyarrow>=18,<22" -e '.[spark,lake,schemas]'; }; \
	done
	GOQUEUE_OLDER_SPARK="$(OLDER)/4.0/bin/python $(OLDER)/4.1/bin/python" \
	  $(BIN)/python -m pytest -m slow tests/e2e/spark/test_older_spark.py tests/e2e/spark/test_spark_writers.py

soak-spark: $(READY) ## a streaming pipeline for MINUTES: lag, memory and state do not grow, and every row is written once
	MINUTES=$(MINUTES) $(BIN)/python -m pytest -s -m slow tests/e2e/spark/test_pipeline_soak.py

test-spark-cluster: $(READY) ## one pipeline file on local[*], a standalone cluster and Spark Connect; spark-submit; state in a store
	$(BIN)/python -m pytest -m slow tests/e2e/spark/test_spark_cluster.py tests/e2e/spark/test_same_file.py tests/e2e/spark/test_store_state.py

lint: $(READY) ## ruff, mypy --strict, import contract, spelling
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs tools deploy examples hatch_build.py README.md CHANGELOG.md CONTRIBUTING.md

vet: $(READY) ## types and import contract alone
	$(BIN)/mypy
	$(BIN)/lint-imports

security: $(TOOLS) ## ruff's security rules and bandit
	$(BIN)/ruff check --select S .
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src

secrets: $(READY) ## credentials that somebody left in the tree
	$(BIN)/python tools/secret_scan.py

lint-workflows: $(BIN)/actionlint ## the GitHub workflows, by actionlint
	$(BIN)/actionlint

check: lint security secrets lint-workflows test-unit ## all that says whether a change may be pushed, in minutes

vuln: licences ## known vulnerabilities of what we bring (pip-audit), and licences
# Strict: a package that could not be looked up fails the check instead of counting as safe.
	$(BIN)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

licences: $(TOOLS) ## licences of what we bring
	$(BIN)/python tools/licences.py --extra spark --extra lake --extra remote --extra encryption --extra schemas

proto: $(READY) ## write the Python code of the gRPC API from proto/
	$(BIN)/buf format -w
	$(BIN)/python tools/make_protos.py
	$(BIN)/python tools/grpc_page.py

proto-check: $(READY) ## wire formats: protos (lint, breaking changes, generated code), Kafka's message shapes, compatibility page, HTTP contract
	$(BIN)/python -m pytest -m 'not slow' tests/unit/tools/test_protos.py tests/unit/servers/test_grpc_table.py tests/unit/codec/kafka tests/unit/servers/kafka/test_compatibility.py tests/e2e/test_http_contract.py

# With a release, and only then: from here on, whatever breaks its users is refused.
proto-release: $(READY) ## keep the protos as they are as what later ones are compared with
	$(BIN)/buf build --exclude-source-info -o proto/released.binpb

canary: $(TOOLS) ## plant defects in copies of the tree: does every gate refuse its own? GATES="lint test"
	@PATH=$(abspath $(BIN)):$$PATH $(BIN)/python tools/canary.py $(GATES)

release-version: ## the version of a release, if TAG is one and the build agrees
	@$(PYTHON) tools/release_version.py $(TAG)

release-check: $(TOOLS) ## build, install the wheel into a clean environment, use it: server, clients, fixtures
	$(BIN)/python tools/release_check.py --reproducible

release-dry: $(TOOLS) ## all of a release but the upload: checks, sdist, wheel, SBOM and checksums in ./dist
	rm -rf dist
	$(BIN)/python tools/release_check.py --reproducible --keep dist
	$(BIN)/python tools/sbom.py dist
	@cd dist && sha256sum --check SHA256SUMS

docker: ## build the image as goqueue:VERSION
	$(CONTAINER) build --file deploy/docker/Dockerfile --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --tag $(IMAGE):$(IMAGE_TAG) --tag $(IMAGE):latest .

docker-smoke: $(INSTALLED) ## publish to and read from the container that docker-compose-up started
	$(BIN)/goqueue health --server http://127.0.0.1:8080
	echo hello | $(BIN)/goqueue produce docker-smoke --server http://127.0.0.1:8080
	$(BIN)/python tools/kafka_smoke.py 127.0.0.1:9092 docker-smoke hello

docker-push: ## push the image; IMAGE=registry/name
	$(CONTAINER) push $(IMAGE):$(IMAGE_TAG)

docker-debug: ## a shell in the image, with its data in a volume of its own
	$(CONTAINER) run --rm --interactive --tty --entrypoint /bin/sh $(IMAGE):latest

docker-compose-up: ## one node in a container, by compose
	$(CONTAINER) compose --file deploy/compose/single.yaml up --build --detach --wait

docker-compose-down: ## stop it; its volume stays
	$(CONTAINER) compose --file deploy/compose/single.yaml down

fmt: $(READY) ## format and sort imports
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench-log: $(READY) ## the partition log against bare system calls
	$(BIN)/python -m tests.bench.bench_log

bench-kafka: $(READY) ## Kafka clients against us and against a broker that stores nothing
	$(BIN)/python -m tests.bench.bench_kafka

bench-consume: $(READY) ## reading from GoQueue, Apache Kafka and a null broker, in turns within one client
	$(BIN)/python -m tests.bench.bench_consume

bench-clients: $(READY) ## what settings of confluent-kafka are worth
	$(BIN)/python -m tests.bench.bench_clients

bench-partitions: $(READY) ## 10,000 partitions with 1 GB and 1,024 file handles: start, idle cost, all read and written
	$(BIN)/python -m tests.bench.bench_partitions

bench-families: $(READY) ## 1,000 partitions with queues and delays: start; 10,000,000 delayed messages: memory and restart
	$(BIN)/python -m tests.bench.bench_families

bench-before: $(READY) ## this tree against an earlier commit, in turns, on an idle machine; BASE=<commit>
	$(BIN)/python -m tests.bench.bench_before --base $(BASE)

bench-http: $(READY) ## the HTTP API and the Python client
	$(BIN)/python -m tests.bench.bench_http

bench-peers: $(READY) ## beside Apache Kafka, NATS, Redis and RabbitMQ, as far as installed; PEERS_ARGS="--resume --publish"
	$(BIN)/python -m tests.bench.peers $(PEERS_ARGS)

peers-install: $(READY) ## get the brokers and clients that bench-peers compares with
	tests/bench/peers/install.sh $(BIN)/python

bench-queue: $(READY) ## receipts, lanes and delay, from the machine alone to a client over HTTP
	$(BIN)/python -m tests.bench.bench_queue

bench-grpc: $(READY) ## the gRPC API beside HTTP: publish stream, work stream, unary latency
	$(BIN)/python -m tests.bench.bench_grpc

bench-share: $(READY) ## consumers of one share group against GoQueue and Apache Kafka, in turns
	$(BIN)/python -m tests.bench.bench_share_consumers

bench-cluster: $(READY) ## three nodes beside Apache Kafka's three: rates, faults, restarts, steady load; CLUSTER_ARGS="--only restarts"
	$(BIN)/python -m tests.bench.bench_cluster $(CLUSTER_ARGS)

bench-tracing: $(READY) ## what stories of messages cost, on the way and on the disk, and how fast one is found
	$(BIN)/python -m tests.bench.bench_tracing

bench-queue-clients: $(READY) ## the queue client beside redis-py and nats-py, in turns
	$(BIN)/python -m tests.bench.bench_queue_clients

bench-transactions: $(READY) ## what transactions cost, against the same client without them
	$(BIN)/python -m tests.bench.bench_transactions

bench-schemas: $(READY) ## what checking messages against schemas costs
	$(BIN)/python -m tests.bench.bench_schemas

bench-security: $(READY) ## what TLS, logins and access rules cost, against the same client without them
	$(BIN)/python -m tests.bench.bench_security
	$(BIN)/python -m tests.bench.security_tls

bench-spark: $(READY) ## Spark reads and writes topics and tables, as shares of what they are compared with
	@failed=0; for part in bench_spark bench_spark_jobs bench_spark_tables; do \
		$(BIN)/python -m tests.bench.$$part || failed=1; \
	done; exit $$failed

docs: $(READY) ## write the reference pages that are made from the code
	$(BIN)/python -m goqueue.node.config.settings_page > docs/reference/settings.md
	$(BIN)/python -m goqueue.servers.kafka.compatibility docs/reference/kafka-compatibility.md
	$(BIN)/python -m goqueue.servers.access.page > docs/reference/permissions.md
	$(BIN)/python tools/grpc_page.py

docs-release: $(TOOLS) ## the same, added to build/sites with the sites of other versions
	$(BIN)/python tools/build_site.py --release $(VERSION)

docs-plots: $(READY) ## pictures that are computed, not measured
	$(BIN)/python tools/plot_lanes.py docs/images/lanes.svg

docs-site: $(TOOLS) ## the documentation site in build/site: strict, links checked, nothing loaded from elsewhere; needs npm
	$(BIN)/python tools/build_site.py

constraints: $(TOOLS) ## write the lock again from what is installed
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean: ## remove what the verbs made, keep ./data
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis bench-results

# Every verb that says what it does is a verb and no file.
.PHONY: $(shell grep -hoE '^[a-z -]+:.*\#\# ' $(firstword $(MAKEFILE_LIST)) | cut -d: -f1)
