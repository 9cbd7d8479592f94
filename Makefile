# Everything here sets itself up in .venv from a fresh clone: it needs Python 3.11 or newer and nothing else.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
ROUNDS ?= 5000

.PHONY: help demo test check format proto bench bench-peers campaign clean

help:  ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY)  ## A minute's look at ottla: a durable log in a folder, written, read, killed and recovered
	@$(BIN)/python examples/demo.py

test: $(READY)  ## All tests, with what was skipped and why
	@$(BIN)/pytest -n $(WORKERS) $(PYTEST_ARGS)

check: $(READY)  ## Lint, formatting, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)  ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

proto: $(READY)  ## Generate the messages of the protocol from proto/
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group proto
	@$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=src --pyi_out=src proto/ottla/v1/log.proto proto/ottla/minikafka/minikafka.proto

bench: $(READY)  ## The benchmarks: a table here, and build/bench.json
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-peers: $(READY)  ## ottla beside Redis, NATS, RabbitMQ and Kafka, those that are installed: a table here, and build/peers.json
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group peers
	@$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

campaign: $(READY)  ## Thousands of kills and fuzzing rounds; ROUNDS=n says how many
	@OTTLA_ROUNDS=$(ROUNDS) $(BIN)/pytest -m campaign --timeout=0 $(PYTEST_ARGS)

clean:  ## Remove what was made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt dev/make-venv
	@sh dev/make-venv $(VENV)
	@touch $(READY)
