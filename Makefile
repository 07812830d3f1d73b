# Verbs of the project. `make` alone lists them.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
WORKERS ?= 2
# Byte code is kept: every test that starts a broker or a command would compile it all anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

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

install: $(READY) ## create the environment, with all that tests need

run: $(INSTALLED) ## start a broker with its data in ./data
	@$(BIN)/goqueue server --data-dir ./data

test: $(READY) lint ## lint, types and all tests but the slow suites and those on Spark
	$(BIN)/python -X dev -m pytest -n $(WORKERS) --dist loadfile -m 'not slow and not spark' tests

test-spark: $(READY) ## source, sink, pipelines and bulk jobs on a real Spark, in one session
	$(BIN)/python -m pytest -m 'spark and not slow' tests/e2e/spark

test-unit: $(READY) ## unit tests alone
	$(BIN)/python -X dev -m pytest -m 'not slow' tests/unit

test-cover: $(READY) ## tests with a coverage report
	$(BIN)/coverage run -m pytest -m 'not slow' tests && $(BIN)/coverage report

test-slow: $(READY) ## the long suites: kill -9, soak, deep search
	$(BIN)/python -m pytest -m slow tests

test-spark-crash: $(READY) ## kill -9 of driver, workers and broker at every step of the Spark sink
	$(BIN)/python -m pytest -s -m slow tests/e2e/spark/test_spark_crash.py

test-spark-cluster: $(READY) ## a standalone Spark cluster reads a topic and writes one exactly once
	$(BIN)/python -m pytest -m slow tests/e2e/spark/test_spark_cluster.py

lint: $(READY) ## ruff, mypy --strict, import contract, spelling
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs README.md CHANGELOG.md CONTRIBUTING.md

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

bench-http: $(READY) ## the HTTP API and the Python client
	$(BIN)/python -m tests.bench.bench_http

bench-peers: $(READY) ## beside Apache Kafka, NATS, Redis and RabbitMQ, as far as installed; PEERS_ARGS="--resume --publish"
	$(BIN)/python -m tests.bench.peers $(PEERS_ARGS)

peers-install: $(READY) ## get the brokers and clients that bench-peers compares with
	tests/bench/peers/install.sh $(BIN)/python

bench-queue: $(READY) ## receipts, lanes and delay, from the machine alone to a client over HTTP
	$(BIN)/python -m tests.bench.bench_queue

bench-transactions: $(READY) ## what transactions cost, against the same client without them
	$(BIN)/python -m tests.bench.bench_transactions

bench-spark: $(READY) ## Spark reads and writes topics, as shares of what any Python source can do
	@failed=0; for part in bench_spark bench_spark_jobs; do \
		$(BIN)/python -m tests.bench.$$part || failed=1; \
	done; exit $$failed

docs: $(READY) ## write the reference pages that are made from the code
	$(BIN)/python -m goqueue.node.settings_page > docs/reference/settings.md
	$(BIN)/python -m goqueue.servers.kafka.compatibility docs/reference/kafka-compatibility.md

constraints: $(READY) ## write the lock again from what is installed
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean: ## remove what the verbs made, keep ./data
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis bench-results

.PHONY: help install run test test-spark test-spark-crash test-spark-cluster bench-spark test-unit test-cover test-slow bench-log bench-kafka bench-consume bench-clients bench-http bench-peers peers-install bench-queue lint fmt docs constraints clean bench-transactions
