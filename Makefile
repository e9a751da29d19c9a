# Everything runs from .venv, made from requirements.lock. An interrupted set-up is repeated on the next run.
UV_VERSION := 0.13.9
PY ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
SCENARIO ?= scenarios/rubin-vs-gb300.toml
export PYTHONDONTWRITEBYTECODE ?= 1
export JUPYTER_PLATFORM_DIRS = 1

.PHONY: pythons report test lab store browser bench soak env lock outputs queueing chromium lint unit nbval

report: .venv/.ok
	@$(BIN)/planner report $(SCENARIO) -o reports

test: .venv/.ok chromium lint unit nbval
	@echo "all tests ended well"

lint: .venv/.ok
	@echo "== lint" && $(BIN)/ruff check .

unit: .venv/.ok chromium
	@echo "== unit, property, reference, architecture and browser tests"
	@$(BIN)/python -m pytest tests -n 2 --dist loadfile

nbval: .venv/.ok
	@echo "== notebooks against their stored outputs"
	@$(BIN)/python -m pytest --nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg --nbval-cell-timeout 120 \
		notebooks -n 2 --dist loadfile

lab: .venv/.ok
	@$(BIN)/jupyter lab --ip=127.0.0.1 --notebook-dir=notebooks

store: .venv/.ok
	@$(BIN)/python tools/store_notebooks.py

outputs: .venv/.ok
	@$(BIN)/python tools/write_outputs.py
	@$(BIN)/python tools/check_queueing.py --models

queueing: .venv/.ok
	@$(BIN)/python tools/check_queueing.py

browser: .venv/.ok chromium
	@$(BIN)/python tools/browser_check.py

bench: .venv/.ok
	@$(BIN)/python benchmarks/run.py

pythons: .venv/.ok
	@$(BIN)/python tools/test_pythons.py

soak: .venv/.ok
	@$(BIN)/python tools/soak.py

chromium:
	@sh tools/chromium.sh

env: .venv/.ok
	@$(BIN)/python tools/write_environment.py

lock: .venv/.ok
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 --all-extras --group dev \
		pyproject.toml -o requirements.lock
	@$(BIN)/python tools/write_environment.py

.venv/.ok: requirements.lock pyproject.toml
	@test -n "$(PY)" || { echo "planner needs Python 3.11, 3.12 or 3.13 on PATH (or make PY=/path/to/python3.11)"; exit 2; }
	@echo "== 1/4 environment with $(PY)" && $(PY) -m venv --clear .venv
	@echo "== 2/4 installer" && { $(BIN)/pip install -q --disable-pip-version-check uv==$(UV_VERSION) \
		|| echo "uv cannot be had here: using pip, which is slower"; }
	@echo "== 3/4 packages from requirements.lock (about 1 GB, half a minute with uv)"
	@if [ -x $(BIN)/uv ]; then \
		$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes --compile-bytecode -r requirements.lock && \
		$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		$(BIN)/pip install -q --require-hashes -r requirements.lock && \
		$(BIN)/pip install -q --no-deps --no-build-isolation -e . ; fi
	@echo "== 4/4 ready" && touch $@
