# The verbs of this repository: the same ones at a desk and in CI (.ci/run).

# Arguments reach the commands as they were quoted.
set positional-arguments

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

# Unit tests; those that need root say so and skip themselves without it.
test *args:
    cargo test --workspace --locked "$@"

# Black-box behaviour, on the tiers that are fast here; `--tier microvm` is slow without KVM, `--table` writes docs/tiers.md.
conformance *args:
    cargo run --profile suite --locked -p belljar-conformance -- "$@"

# 1,000 sandboxes, 8 at a time: is anything left behind?
churn count='1000' parallel='8':
    just conformance --churn {{ count }} --parallel {{ parallel }}

# SIGKILL at 50 random moments: does any code run on, is anything left behind?
kills count='50':
    just conformance --kill-test {{ count }}

# Random tiers, random acts, random kills: does anything end wrongly, is anything left behind?
fleet seconds='1800' *args='':
    just conformance --fleet {{ seconds }} --parallel 4 --tier jail,oci/crun,oci/runsc,microvm {{ args }}

# A 1 GiB random file in and out: is it the same, and how fast beside cp?
transfer:
    just conformance --transfer

# Escape attempts, each with a control run that must succeed.
attacks *args:
    cargo run --profile suite --locked -p belljar-attacks -- "$@"

# One session looks for another: strangers, siblings, successors, copies.
bleed *args:
    cargo run --profile suite --locked -p belljar-bleed -- "$@"

# Attacks on the API: tenants against each other and the server.
tenants *args:
    cargo run --profile suite --locked -p belljar-tenants -- "$@"

# Break one part of the platform at a time: faults F-01 to F-64; --list, --control, --random SECONDS --seed N.
faults *args:
    cargo build --profile suite --locked -p belljar --features faults
    cargo run --profile suite --locked -p belljar-faults -- "$@"

# The examples through the real command line, against their expected output.
e2e: build
    cargo xtask examples

# The published E2B packages, unmodified, against `belljar serve`: old versions, both suites, the examples; --tier gvisor.
sdk *args: build
    tests/sdk/run "$@"

# 200 clients of E2B's Python SDK at once: any error, and is anything left behind?
clients *args: build
    tests/sdk/load "$@"

# Kill the server under load, start it again: does every sandbox live or have its end on record?
crash *args: build
    tests/sdk/crash "$@"

# Requests that are made up from openapi.json, for ten minutes.
schemathesis *args: build
    tests/sdk/fuzz "$@"

# Who uses the way out unasked: pip, npm, cargo, go, apt, git, curl, Python, Node. Needs indexes that can be reached.
packages *args: build
    tests/packages/run "$@"

# The template that contexts are tested with; takes minutes, once.
templates: build
    cargo run --release --locked -p belljar -- template build python-data
    cargo run --release --locked -p belljar -- template build code-interpreter

# The programs inside contexts, without a sandbox around them.
runtimes: build
    runtimes/tests/run

# Planted mistakes in joins and dates: is each reported, and nothing else? Takes names of scripts.
guards *args: build
    runtimes/tests/guards/run "$@"

# Memory that loading takes by format, and what the guards cost; --write keeps it in runtimes/memory-factors.json.
measure-loading *args:
    runtimes/tests/measure_loading.py "$@"

# Claude Code and Codex, unmodified, through `belljar agent run` against a scripted model; where is the key?
agents *args: build
    cargo build --profile suite --locked -p belljar-scripted
    tests/agents/run "$@"

# 183 questions of DABench through `belljar ask`, with an oracle in the model's place: right, turns, overhead, cost, cached prefix.
eval *args: build
    cargo build --profile suite --locked -p belljar-scripted
    tests/eval/run "$@"

# How long a sandbox takes to start, on this machine.
bench *args:
    cargo run --release --locked -p belljar -- bench start "$@"

# Warm starts, briefly; `belljar bench --help` has the long ones.
bench-warm:
    cargo run --release --locked -p belljar -- bench first-result -n 30
    cargo run --release --locked -p belljar -- bench density --count 50

# The long versions: 10,000 sandboxes, 200 kills, 2,400 alive at once, 5 minutes of sessions.
soak:
    just churn 10000
    just kills 200
    cargo run --release --locked -p belljar -- bench density
    cargo run --release --locked -p belljar -- bench sessions --seconds 300 --concurrency 4

# The engine on real cgroup v2 kernels, in QEMU guests.
v2 *args:
    .ci/v2/run "$@"

# Feed the guest protocol's decoder with made-up bytes for ten minutes (needs a nightly toolchain).
fuzz target='decode' seconds='600':
    cargo +nightly fuzz run --fuzz-dir crates/guest-proto/fuzz {{ target }} -- -max_total_time={{ seconds }}

# The same for files that are described.
fuzz-datasets seconds='600':
    cargo +nightly fuzz run --fuzz-dir crates/dataset/fuzz describe -- -max_total_time={{ seconds }}

# How quickly data is described, beside DuckDB, and how rightly; `--large` adds 10 GB (in $BELLJAR_CACHE, deleted at the end).
measure-datasets *args: build
    cargo build --release --locked -p xtask
    crates/dataset/bench/measure --belljar "$(cargo xtask target)/release/belljar" --xtask "$(cargo xtask target)/release/xtask" "$@"

# Build the executable the way it is shipped; never with the tests, whose
# features (switching defences off) would come along.
build:
    cargo build --release --locked -p belljar

# A Debian package of that executable, installed into a directory and looked at.
deb: build
    packaging/deb/check "$(packaging/deb/build)"

# Run belljar from source: `just dev run -c 'print(1)'`.
dev *args:
    cargo run -p belljar -- "$@"

# The whole gate, as CI runs it.
ci *stages:
    .ci/run "$@"
