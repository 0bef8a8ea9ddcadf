# The verbs of this repository: the same ones at a desk and in CI (.ci/run).

# Arguments reach the commands as they were quoted.
set positional-arguments

# Where `just suites` puts the executable and the suites.
suite := env("CARGO_TARGET_DIR", justfile_directory() / "target") / "suite"

# Show these verbs.
[private]
default:
    @just --list --unsorted

# Everything that needs no root and no run: format, lints, layers, dependencies.
check: format clippy layers deny machete

# Is the source formatted?
format:
    cargo fmt --all --check

# Does the compiler or clippy have anything to say?
clippy:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Does every import follow the layer table, and is unsafe only in crates/sys?
layers:
    cargo xtask layers

# May we use what we depend on? (`just deny advisories` where that database can be reached.)
deny *checks='bans licenses sources':
    cargo deny --locked check {{ checks }}

# Is every dependency used?
machete:
    cargo machete

# Unit tests, by cargo nextest; those that need root say so and skip themselves without it.
test *args:
    cargo nextest run --workspace --locked "$@"

# Compile the unit tests, and run none.
test-build:
    cargo nextest run --workspace --locked --no-run

# Build the executable and every suite, in one go and with one set of features. The
# executable can be told to die at chosen points and to switch defences off, so it is
# only for tests: `just build` makes the one that is shipped.
suites: (console "--optional")
    cargo build --locked --profile suite --features belljar/faults -p belljar -p belljar-attacks -p belljar-bleed -p belljar-conformance -p belljar-faults -p belljar-scripted -p belljar-tenants

# Black-box behaviour, on the tiers that are fast here; `--tier microvm` is slow without KVM, `--table` writes docs/tiers.md.
conformance *args: suites
    {{ suite }}/belljar-conformance "$@"

# The same as an ordinary user to whom no cgroup is delegated: limits are watched by the engine. Needs root, to become that user.
conformance-user *args: suites
    tests/conformance/as-user {{ suite }}/belljar-conformance --tier process,jail "$@"

# 1,000 sandboxes, 8 at a time: is anything left behind?
churn count='1000' parallel='8':
    just conformance --churn {{ count }} --parallel {{ parallel }}

# SIGKILL at 50 random moments: does any code run on, is anything left behind?
kills count='50':
    just conformance --kill-test {{ count }}

# Random tiers, random acts, random kills: does anything end wrongly, is anything left behind?
fleet seconds='1800' *args='':
    just conformance --fleet {{ seconds }} --parallel 4 --tier jail,oci/crun,oci/runsc,microvm {{ args }}

# A random file in and out (1 GiB unless given in MiB): is it the same, and how fast beside cp?
transfer mib='1024':
    just conformance --transfer --transfer-size {{ mib }}

# Escape attempts, each with a control run that must succeed; two at a time, `--jobs N`.
attacks *args: suites
    {{ suite }}/belljar-attacks "$@"

# The suites beside a busy `belljar serve` on the same host: nothing of it may be taken for theirs.
beside-server *args: suites
    tests/attacks/beside-server "$@"

# One session looks for another: strangers, siblings, successors, copies.
bleed *args: suites
    {{ suite }}/belljar-bleed "$@"

# Attacks on the API: tenants against each other and the server.
tenants *args: suites
    {{ suite }}/belljar-tenants "$@"

# 1,008 model requests for one tenant's budget of 400, over 3 nodes, while gateways and control are killed; one line for each round.
budgets rounds="20": suites
    #!/usr/bin/env bash
    set -euo pipefail
    for seed in $(seq {{ rounds }}); do BELLJAR_FAULTS_SEED=$seed {{ suite }}/belljar-faults F-47; done

# Break one part of the platform at a time: faults F-01 to F-84; --list, --control, --random SECONDS --seed N.
faults *args: suites
    {{ suite }}/belljar-faults "$@"

# The examples through the real command line, against their expected output.
e2e: suites
    cargo xtask examples

# The first hour of an app developer (a), a data analyst (b) and a platform engineer (c), step by step; `just tryout a`, `--jobs N` users at a time.
tryout *args: suites
    tests/tryout/run "$@"

# Every command of README.md and of six pages, against the output that they show; `--jobs N` pages at a time.
docs *args: suites
    tests/docs/run "$@"

# The published E2B packages, unmodified, against `belljar serve`: old versions, both suites, the examples; --tier gvisor.
sdk *args: suites
    tests/sdk/run "$@"

# Example reports in Chromium, light and dark: any message, request or violation of the policy? Screenshots stay.
reports *args:
    tests/reports/run "$@"

# 200 clients of E2B's Python SDK at once: any error, and is anything left behind?
clients *args: suites
    tests/sdk/load "$@"

# Kill the server under load, start it again: does every sandbox live or have its end on record?
crash *args: suites
    tests/sdk/crash "$@"

# Requests that are made up from openapi.json, for ten minutes.
schemathesis *args: suites
    tests/sdk/fuzz "$@"

# Who uses the way out unasked: pip, npm, cargo, go, apt, git, curl, Python, Node. Needs indexes that can be reached.
packages *args: suites
    tests/packages/run "$@"

# The template that contexts are tested with; takes minutes, once.
templates: suites
    {{ suite }}/belljar template build python-data
    {{ suite }}/belljar template build code-interpreter

# The programs inside contexts, without a sandbox around them.
runtimes: suites
    runtimes/tests/run

# Planted mistakes in joins and dates: is each reported, and nothing else? Takes names of scripts.
guards *args: suites
    runtimes/tests/guards/run "$@"

# Memory that loading takes by format, and what the guards cost; --write keeps it in runtimes/memory-factors.json.
measure-loading *args:
    runtimes/tests/measure_loading.py "$@"

# Claude Code and Codex, unmodified, through `belljar agent run` against a scripted model; where is the key?
agents *args: suites
    tests/agents/run "$@"

# A coding agent clones, fixes, pushes after an approval and opens a merge request, on a real git server.
git *args: suites
    tests/git/run "$@"

# Frameworks that keep sandboxes at E2B, unmodified, with their own defaults: openai-agents, verifiers, Harbor, Inspect, smolagents. Takes names.
frameworks *args: suites
    tests/frameworks/run "$@"

# The programs of pages below docs/how-to, with the real packages that they join. Takes names of pages.
how-to *args: suites
    tests/how-to/run "$@"

# docs/how-to/temporal.md on Temporal's own server: workers are killed and stopped, runs and charges are counted.
temporal: suites
    tests/how-to/run temporal

# 183 questions of DABench through `belljar ask`, with an oracle in the model's place: right, turns, overhead, cost, cached prefix.
eval *args: suites
    tests/eval/run "$@"

# Six tasks of the agent `pipeline`: five heal, one asks a human; by `belljar ask`, `belljar serve` and a platform. `--surface local` is brief.
pipelines *args: suites
    tests/pipelines/run "$@"

# `belljar eval` against scripted models: 60 questions of DABench with two models, three times; planted mistakes before and after guards.
eval-grid *args: suites
    tests/eval/grid "$@"

# 373 questions over 12 datasets to `belljar ask` without a model, judged by SQLite: right, refused and wrong by dataset.
questions:
    cargo nextest run --locked -p belljar-provider --no-capture heuristic::tests::questions::

# How long a sandbox takes to start, on this machine.
bench *args:
    cargo run --release --locked -p belljar -- bench start "$@"

# Warm starts, briefly; `belljar bench --help` has the long ones.
bench-warm:
    cargo run --release --locked -p belljar -- bench first-result -n 30
    cargo run --release --locked -p belljar -- bench density --count 50

# Time of a turn outside of model and code, of react and of each stage of a pipeline; `--json-file` and `--svg` keep the figures.
bench-turns *args:
    cargo run --release --locked -p belljar -- bench turns "$@"

# 2,400 runs alive at once on a platform, with a replica and a node killed meanwhile: does each end once? `just runs-alive --alive 100` is brief.
runs-alive *args:
    cargo run --release --locked -p belljar -- bench runs "$@"

# The long versions: 10,000 sandboxes, 200 kills, 2,400 alive at once, 5 minutes of sessions.
soak:
    just churn 10000
    just kills 200
    cargo run --release --locked -p belljar -- bench density
    cargo run --release --locked -p belljar -- bench sessions --seconds 300 --concurrency 4

# The engine on real cgroup v2 kernels, in QEMU guests.
v2 *args:
    .ci/v2/run "$@"

# Feed a fuzz target with made-up bytes, from its seeds on: `just fuzz egress http1` (needs a nightly toolchain).
fuzz crate target seconds='600':
    .ci/fuzz {{ crate }} {{ target }} {{ seconds }}

# How quickly data is described, beside DuckDB, and how rightly; `--large` adds 10 GB (in $BELLJAR_CACHE, deleted at the end).
measure-datasets *args: build
    cargo build --release --locked -p xtask
    crates/dataset/bench/measure --belljar "$(cargo xtask target)/release/belljar" --xtask "$(cargo xtask target)/release/xtask" "$@"

# Build the console into console/dist if its sources changed, for the next build of the executable; `--check` also tests it. Needs npm.
console *args:
    .ci/console "$@"

# Build the executable the way it is shipped; never with the tests, whose
# features (switching defences off) would come along.
build: (console "--optional")
    cargo build --release --locked -p belljar

# A Debian package of that executable, installed into a directory and looked at.
deb: build
    packaging/deb/check "$(packaging/deb/build)"

# Both container images of that executable, built without a container engine and started. Needs root and a Debian mirror.
images: build
    packaging/docker/check "$(cargo xtask target)/release/belljar"

# Run belljar from source: `just dev run -c 'print(1)'`.
dev *args:
    cargo run -p belljar -- "$@"

# The whole gate, as CI runs it.
ci *stages:
    .ci/run "$@"

# Seconds of each stage in the last five gates, side by side, and the slowest cases.
gate-times:
    @cargo xtask gate-times

# Everything that is too slow for the gate; rows go to docs/quality.md.
nightly *stages:
    .ci/nightly "$@"
