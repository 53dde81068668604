# Every target but clean and help makes what it needs first: a virtual environment in .venv with the project in it.

PYTHON ?= python3
# How many processes share the tests; with fewer than three for each processor, all of them wait at times.
JOBS ?= 6
# Where this is set, each of the thousand processes of the tests compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A JAVA_HOME of the tests, in which Spark starts in half the time.
JAVA := $(VENV)/java

# How often make flakes runs each test, and how long make soak goes on.
RUNS ?= 10
HOURS ?= 8
# How many seeds make simulate-replication tries.
SEEDS ?= 2000
# Where make bench-peers finds, or fetches, the systems that it measures beside logd.
SYSTEMS ?= build/systems
# Where make clients puts the clients of Kafka that it tries, and the records of each.
CLIENTS ?= /tmp/logd-clients
RECORDS ?= 1000000
# How many clients of Kafka make connections has at a time.
CONNECTIONS ?= 2000

.PHONY: help demo test suite coverage connections lint simulate-replication bench bench-peers bench-figures clients client-suites smoke sanitize flakes soak docs site wheel clean
.DEFAULT_GOAL := help

help:  ## Say what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## */|/' | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

# Installed again only when the metadata or the compiled loops have changed. Wheels alone, so that a package that would need a compiler fails
# here, early; but Spark has no wheel, and needs none: it is Python and jars. The pip of Debian 12 warns of what it will do
# otherwise in later versions; --use-pep517 and -W ignore spare a newcomer that.
$(STAMP): setup.cfg setup.py pyproject.toml logd/protocol/_compiled.c
	@echo "Installing logd and all that its tests and the demonstration need into $(VENV): 1 GB with Spark, a minute or more."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -W ignore -m pip install --quiet --disable-pip-version-check --use-pep517 \
		--only-binary :all: --no-binary pyspark --editable '.[test]'
	@touch $@
	@echo "Installed. The commands are in $(BIN)."

demo: $(STAMP)  ## Run a cluster, import with Spark, mirror and audit a pipeline, kill what runs; prove that nothing was lost (LOGS=DIR)
	$(BIN)/python -m demo $(LOGS)

test: lint suite  ## Lint, types, layering and the whole suite by trial

suite: $(STAMP) $(JAVA)/spark.jsa  ## The whole suite by trial, without lint and types; JOBS=6 processes share it
	JAVA_HOME=$(abspath $(JAVA)) LOGD_TESTING_FORK=1 $(BIN)/python -m tests.distribution --jobs $(JOBS)

# Not made where there is no Java or no Spark; the tests do without it.
$(JAVA)/spark.jsa: $(STAMP) tests/spark/quick_java.py
	@$(BIN)/python -m tests.spark.quick_java $(JAVA)

coverage: $(STAMP)  ## The whole suite under coverage, processes that it starts as well; half as long again
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m twisted.trial tests
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

lint: $(STAMP)  ## ruff (rules and format) and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

simulate-replication: $(STAMP)  ## Try SEEDS=2000 lives of replicated topics in the simulator
	$(BIN)/python -m tests.simulation.replication --seeds $(SEEDS)

bench: $(STAMP)  ## Measure produce, consume and latency against the limits of this machine
	$(BIN)/logd bench produce
	$(BIN)/logd bench consume
	$(BIN)/logd bench latency

bench-peers: $(STAMP)  ## Measure logd and what is used instead of it, fetched into SYSTEMS=build/systems; figures into build/peers
	mkdir -p build/peers
	$(BIN)/logd bench peers --systems-in $(SYSTEMS) --fetch --folder build/peers --out build/peers

bench-figures: $(STAMP)  ## Put the result of make bench-peers into README and docs: figures, numbers and tables
	mkdir -p docs/figures
	$(BIN)/logd bench peers --from build/peers/peers.json --systems-in $(SYSTEMS) --out docs/figures \
		--page README.md --page docs/benchmarks.md

clients: $(STAMP)  ## Try every client of Kafka that can be had, or ONLY=java, fetched into CLIENTS=/tmp/logd-clients, with RECORDS=1000000 each
	$(BIN)/python -m tests.kafka_clients --folder $(CLIENTS) --count $(RECORDS) $(addprefix --only ,$(ONLY))

connections: $(STAMP)  ## Fetches of CONNECTIONS=2000 of Kafka's clients at a time: those that take nothing, and those that wait
	LOGD_TEST_CONNECTIONS=$(CONNECTIONS) $(BIN)/python -m twisted.trial tests.integration.kafka.test_fetches

client-suites: $(STAMP)  ## The integration tests of Kafka's clients themselves, fetched into CLIENTS or cloned in AIOKAFKA, with the expected failures
	$(BIN)/python -m tests.kafka_clients.suites --folder $(CLIENTS)/suites $(if $(AIOKAFKA),--aiokafka $(AIOKAFKA))

smoke: $(STAMP)  ## The demonstration and a short run of the benches: does it all still go
	$(BIN)/python -m demo
	$(BIN)/logd bench produce --messages 200000 --rounds 1
	$(BIN)/logd bench consume --messages 200000 --rounds 1
	$(BIN)/logd bench latency --messages 200 --rounds 1
	$(BIN)/logd bench mirror --messages 200000 --latency-messages 100 --rounds 1
	$(BIN)/logd bench spark --messages 100000 --rounds 1
	$(BIN)/logd bench groups --simulate --consumers 10 --partitions 200
	$(BIN)/logd bench groups --consumers 3 --partitions 12 --rounds 1

sanitize: $(STAMP)  ## The tests of the loops, the compiled ones under AddressSanitizer and UndefinedBehaviorSanitizer (gcc)
	$(BIN)/python -m tests.protocol.loops.sanitized

flakes: $(STAMP) $(JAVA)/spark.jsa  ## Repeat every test that a busy machine could disturb, RUNS=10 times, every second time beside a load; goes on where it was
	JAVA_HOME=$(abspath $(JAVA)) LOGD_TESTING_FORK=1 $(BIN)/python -m tests.endurance.flakes --runs $(RUNS) --jobs $(JOBS)

soak: $(STAMP)  ## The random tests with new seeds for HOURS=8, and a report of what was done and found
	$(BIN)/python -m tests.endurance.soak --hours $(HOURS)

docs: $(STAMP)  ## Write the generated pages anew
	$(BIN)/python -m logd.config.reference > docs/configuration.md
	$(BIN)/python -m logd.broker.kafka.reference docs/kafka.md

site: $(STAMP)  ## Build the documents and the API reference as a site in build/site; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/site
	@echo "The site begins at build/site/index.html."

wheel: $(STAMP)  ## A wheel for this interpreter in dist, with the compiled loops where there is a C compiler
	$(BIN)/python -W ignore -m pip wheel --quiet --disable-pip-version-check --use-pep517 --no-deps --wheel-dir dist .
	@ls -1 dist/logd-*.whl

clean:  ## Remove everything that the other targets made
	rm -rf $(VENV) .flakes .soak .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* _trial_temp* build dist *.egg-info
	rm -f logd/protocol/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache
