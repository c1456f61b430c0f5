# The front door. CMake does the work (CMakePresets.json); `make help` lists what there is.

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 30
TORTURE_SECONDS ?= 1200

.PHONY: help run build check check-asan check-matrix check-python check-tsan check-long fuzz torture bench lint format install setup clean wheel docs r

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: build ## set up, build, and show what circe does
	build/circe demo

build: setup ## the release preset; the command is build/circe
	cmake --preset release > /dev/null
	cmake --build --preset release -j $(JOBS)

check: setup ## every test (CIRCE_CHECK_TORCH=0: without installing PyTorch; CIRCE_CHECK_R=0: without R)
	@scripts/setup.sh check
	@$(MAKE) build
	@scripts/check.sh release -j $(JOBS)

check-asan: setup ## every test under the address and undefined-behaviour sanitizers
	@scripts/setup.sh check
	cmake --preset asan > /dev/null
	cmake --build --preset asan -j $(JOBS)
	@scripts/check.sh asan -j $(JOBS)

check-matrix: build ## the tests with other compilers, BLAS libraries, instruction sets and threads, and on 64-bit ARM under qemu
	scripts/setup.sh matrix
	scripts/matrix.sh

check-tsan: setup ## the tests of the library under the thread sanitizer
	scripts/setup.sh tsan
	cmake --preset tsan > /dev/null
	cmake --build --preset tsan -j $(JOBS)
	@scripts/check.sh tsan -L 'unit|golden|property' -E '^(rff|io|npy|csv|safetensors)$$'

check-python: ## the Python package on PyPI's current PyTorch, pandas, polars and scikit-learn, and its wheel
	scripts/setup.sh python
	$(MAKE) build
	@scripts/check.sh release -R '^python' -V
	.venv/bin/python python/tests/wheel.py

wheel: setup ## Python wheels for x86_64 and 64-bit ARM, in dist/, tried in clean environments; CUDA=1: with the code for GPUs
	scripts/setup.sh wheel
	$(if $(CUDA),scripts/setup.sh cuda)
	rm -rf dist
	.venv/bin/python python/release.py -w dist $(if $(CUDA),--cuda --arch x86_64)
	.venv/bin/python python/tests/wheel.py $$(printf ' --wheel %s' dist/*.whl)

r: build ## the R package, checked, in build/r/circe_*.tar.gz; installed into R_LIBRARY= where that is given
	scripts/setup.sh r
	tests/r/check.sh $(CURDIR) $(CURDIR)/build
	$(if $(R_LIBRARY),CIRCE_PREFIX=$(or $(PREFIX),/usr/local) R CMD INSTALL --library=$(R_LIBRARY) r)

check-long: build ## statistical tests with many more draws
	@CIRCE_LONG=1 scripts/check.sh release -L statistics

fuzz: setup ## fuzz the file readers, FUZZ_SECONDS (30) each
	scripts/setup.sh fuzz
	cmake --preset fuzz > /dev/null
	cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run.sh $(FUZZ_SECONDS)

torture: build ## the command against mutated inputs, kills, full disks, little memory, locales: TORTURE_SECONDS (1200)
	cmake --preset asan > /dev/null
	cmake --build --preset asan -j $(JOBS) --target circe_cli
	tests/torture/torture.py --sanitized build-asan/circe --plain build/circe --seconds $(TORTURE_SECONDS)

bench: build ## compare with PyTorch on this machine (installs it into .venv)
	scripts/setup.sh bench
	.venv/bin/python bench/compare.py --circe build/circe --json build/bench.json
	.venv/bin/python bench/plot.py build/bench.json
	.venv/bin/python bench/million.py --circe build/circe
	.venv/bin/python bench/measures.py --circe build/circe
	.venv/bin/python bench/train.py --circe build/circe
	.venv/bin/python bench/python.py --library build/libcirce.so

lint: setup ## warnings as errors, clang-tidy, cppcheck, formatting
	scripts/setup.sh lint
	scripts/lint.sh

format: ## clang-format over the whole tree
	git ls-files '*.c' '*.h' '*.inc' '*.cpp' | xargs clang-format -i

docs: build ## the site, in build/docs/html
	scripts/setup.sh docs
	scripts/docs.sh

install: build ## into /usr/local, or PREFIX=
	cmake --install build --prefix $(or $(PREFIX),/usr/local)

setup: ## install what is missing, with the system's package manager
	@scripts/setup.sh build

clean: ## remove everything that was built
	rm -rf build build-* dist .venv
