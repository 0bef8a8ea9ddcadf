//! The stages of the gate and of the nightly, in the order in which they run.
//!
//! Commands are the same `just` verbs that a developer uses. A stage of the gate
//! either always runs, or runs when a path that it depends on has changed since
//! the last commit that passed.

/// One stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    pub(crate) when: When,
    pub(crate) pace: Pace,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// Commands, split at spaces, each run to its end. The first that fails ends the stage.
    Run(&'static [&'static str]),
    /// All unit tests, by `cargo nextest`, with retries by case.
    UnitTests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// When a file below one of these paths has changed.
    Changed(&'static [&'static str]),
}

/// How a stage shares the machine with its successors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Ends before the next one begins, and begins after everything before it.
    InOrder,
    /// Compiles or looks at sources, so it may run beside a background stage.
    BesideBackground,
    /// Downloads more than it computes: runs beside the stages that compile.
    Background,
}

const fn stage(name: &'static str, when: When, commands: &'static [&'static str]) -> Stage {
    Stage { name, action: Action::Run(commands), when, pace: Pace::InOrder }
}

const fn always(name: &'static str, commands: &'static [&'static str]) -> Stage {
    stage(name, When::Always, commands)
}

const fn compiling(name: &'static str, commands: &'static [&'static str]) -> Stage {
    Stage { pace: Pace::BesideBackground, ..always(name, commands) }
}

const fn background(name: &'static str, commands: &'static [&'static str]) -> Stage {
    Stage { pace: Pace::Background, ..always(name, commands) }
}

/// A change here can break any stage.
pub(crate) const EVERYTHING: &[&str] = &[
    ".cargo/",
    ".ci/packages",
    ".ci/prepare",
    ".ci/run",
    "Cargo.lock",
    "Cargo.toml",
    "justfile",
    "rust-toolchain.toml",
    "xtask/src/gate",
];

/// The crates that build a sandbox in every tier. `crates/domain` is not here: it has no I/O, and
/// what it decides is tested by the stages that always run.
macro_rules! tiers {
    ($($more:literal),*) => {
        &[
            "crates/confine/",
            "crates/guest-proto/",
            "crates/guest/",
            "crates/node/",
            "crates/engine/",
            "crates/sys/",
            "crates/template/",
            "tests/testkit/",
            $($more),*
        ]
    };
}

/// Twelve questions about twelve tables: awkward file names, wrong values, the largest
/// table, several cells that share state, a model that is trained. The nightly asks all.
const EVAL: &str = "just eval --jobs 2 0 64 114 216 254 408 425 542 549 649 657 710";

/// A node is killed, control is killed before and after the node answers, the
/// database goes away, NATS goes away, a daemon is killed while it creates.
const FAULTS: &str = "just faults F-01 F-08 F-09 F-12 F-14 F-21";

/// The gate.
pub(crate) const GATE: &[Stage] = &[
    always("format", &["just format"]),
    always("layers", &["just layers", "cargo xtask attacks", "cargo xtask requirements"]),
    always("deny", &["just deny"]),
    stage("machete", When::Changed(&["crates/", "tests/", "xtask/"]), &["just machete"]),
    always("build", &["just suites"]),
    background("templates", &["just templates", "tests/sdk/prepare"]),
    compiling("clippy", &["just clippy"]),
    compiling("unit-build", &["just test-build"]),
    Stage { name: "unit", action: Action::UnitTests, when: When::Always, pace: Pace::InOrder },
    stage(
        "runtimes",
        When::Changed(tiers!["crates/zygote/", "recipes/", "runtimes/"]),
        &["just runtimes"],
    ),
    always("conformance", &["just conformance --jobs 2 --tier process,jail --check"]),
    always("leftovers", &["just churn 100", "just kills 10", "just transfer 64"]),
    always("bleed", &["just bleed"]),
    always("attacks", &["just attacks --jobs 3"]),
    always("tenants", &["just tenants -j 3"]),
    always("e2e", &["just e2e", "just tryout --jobs 2"]),
    always("docs", &["just docs --jobs 2"]),
    always(
        "sdk",
        &["just sdk --check --skip installs", "just sdk --cluster --only across --only versions"],
    ),
    always("eval", &[EVAL]),
    always("faults", &[FAULTS]),
    stage(
        "conformance-oci",
        When::Changed(tiers!["tests/conformance/"]),
        &["just conformance --jobs 2 --tier oci/crun,oci/runsc --check"],
    ),
    stage(
        "conformance-microvm",
        When::Changed(tiers!["tests/conformance/"]),
        &["just conformance --jobs 2 --tier microvm --subset quick --check"],
    ),
    stage(
        "attacks-oci",
        When::Changed(tiers!["tests/attacks/"]),
        &["just attacks OCI --tier oci/crun", "just attacks OCI --tier oci/runsc"],
    ),
    stage(
        "attacks-microvm",
        When::Changed(tiers!["tests/attacks/"]),
        &["just attacks VM --tier microvm"],
    ),
    stage(
        "attacks-warm",
        When::Changed(tiers![
            "crates/transplant/",
            "crates/zygote/",
            "runtimes/python/",
            "tests/attacks/",
            "tests/warmed/"
        ]),
        &[
            "just attacks RES --stage pooled",
            "just attacks RES --stage forked",
            "just attacks RES --stage copied",
        ],
    ),
    stage("guards", When::Changed(&["crates/dataset/", "runtimes/"]), &["just guards"]),
    stage(
        "eval-all",
        When::Changed(&[
            "crates/agent/",
            "crates/dataset/",
            "crates/journal/",
            "crates/provider/",
            "crates/runs/",
            "runtimes/python/",
            "tests/eval/",
            "tests/scripted/",
        ]),
        &["just eval --jobs 2"],
    ),
    stage(
        "sdk-installs",
        When::Changed(&[
            "crates/sandboxes/src/builds/",
            "crates/e2b/",
            "crates/egress/",
            "crates/gateway/",
            "crates/guest/",
            "crates/packages/",
            "recipes/",
            "tests/sdk/",
        ]),
        &["just sdk --only installs"],
    ),
    stage(
        "packages",
        When::Changed(&[
            "crates/egress/",
            "crates/gateway/",
            "crates/packages/",
            "tests/packages/",
        ]),
        &["just packages"],
    ),
    stage(
        "agents",
        When::Changed(&[
            "crates/cassette/",
            "crates/gateway/",
            "crates/llm/",
            "tests/agents/",
            "tests/scripted/",
        ]),
        &["just agents"],
    ),
    stage("git", When::Changed(&["crates/gateway/", "tests/git/"]), &["just git"]),
    stage(
        "pipelines",
        When::Changed(&[
            "crates/agent/",
            "crates/journal/",
            "crates/pipeline/",
            "tests/pipelines/",
            "tests/scripted/",
        ]),
        &["just pipelines"],
    ),
    stage(
        "console",
        When::Changed(&[
            ".ci/console",
            "console/",
            "crates/api/",
            "crates/console/",
            "openapi.json",
            "tests/console/",
        ]),
        &["just console --check"],
    ),
];

/// Everything that is too slow for the gate. Each stage can be run alone, and each
/// appends its own row to `docs/quality.md`.
pub(crate) const NIGHTLY: &[Stage] = &[
    always("release", &["just build", "cargo xtask size", "just deb", "just images"]),
    always("build", &["just suites"]),
    background("templates", &["just templates", "tests/sdk/prepare"]),
    compiling("unit-build", &["just test-build"]),
    always(
        "conformance",
        &["just conformance --jobs 2 --tier process,jail,oci/crun,oci/runsc --check"],
    ),
    always("conformance-user", &["just conformance-user"]),
    always("conformance-microvm", &["just conformance --jobs 2 --tier microvm --check"]),
    always("leftovers", &["just churn", "just kills", "just transfer"]),
    always("attacks", &["just attacks --jobs 3"]),
    always(
        "attacks-oci",
        &["just attacks OCI --tier oci/crun", "just attacks OCI --tier oci/runsc"],
    ),
    always("attacks-microvm", &["just attacks VM --tier microvm"]),
    always(
        "attacks-warm",
        &[
            "just attacks RES --stage pooled",
            "just attacks RES --stage forked",
            "just attacks RES --stage copied",
        ],
    ),
    always("beside-server", &["just beside-server"]),
    always("tenants", &["just tenants -j 3"]),
    always("bleed", &["just bleed"]),
    always("sdk", &["just sdk --check"]),
    always("sdk-cluster", &["just sdk --cluster"]),
    always("sdk-gvisor", &["just sdk --tier gvisor"]),
    always("clients", &["just clients", "just crash"]),
    always("eval", &["just eval"]),
    always("eval-grid", &["just eval-grid"]),
    always("pipelines", &["just pipelines"]),
    always("guards", &["just guards"]),
    always("packages", &["just packages"]),
    always("agents", &["just agents"]),
    always("git", &["just git"]),
    always("console", &["env BELLJAR_REQUIRE_CHROMIUM=1 just console --check"]),
    always("frameworks", &["just frameworks"]),
    always("how-to", &["just how-to"]),
    always("faults", &["just faults"]),
    always("faults-random", &["just faults --random 1800 --seed 19"]),
    always("schemathesis", &["just schemathesis"]),
    always(
        "fuzz",
        &[
            "just fuzz guest-proto decode 240",
            "just fuzz guest-proto bodies 240",
            "just fuzz dataset describe 240",
            "just fuzz dataset parquet 240",
            "just fuzz egress http1 240",
            "just fuzz egress chunked 120",
            "just fuzz egress hello 120",
            "just fuzz egress socks5 60",
            "just fuzz llm views 240",
            "just fuzz llm answers 240",
            "just fuzz llm events 60",
            "just fuzz template unpack 240",
            "just fuzz cassette import 240",
            "just fuzz peer-proto messages 120",
        ],
    ),
    always("runs-alive", &["just runs-alive --alive 200 --rate 8 --commits-of-run 16"]),
    always("bench", &["just bench", "just bench-warm", "just bench-turns -n 30"]),
    always("v2-sdk", &["just v2 --part probe --part sdk --part ask"]),
    always("v2-user", &["just v2 --part user"]),
    always("v2-stages", &["just v2 --part stages"]),
    always("v2-attacks", &["just v2 --part attacks"]),
    always("v2-conformance", &["just v2 --part conformance"]),
    always("planted", &[".ci/planted"]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_unique() {
        for stages in [GATE, NIGHTLY] {
            let names: BTreeSet<_> = stages.iter().map(|stage| stage.name).collect();
            assert_eq!(names.len(), stages.len());
        }
    }

    /// A target that no stage runs would be found broken by nobody.
    #[test]
    fn every_fuzz_target_is_run_by_the_nightly() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
        let stage = NIGHTLY.iter().find(|stage| stage.name == "fuzz").unwrap();
        let Action::Run(commands) = stage.action else { panic!("it runs commands") };
        let mut targets = 0;
        for entry in std::fs::read_dir(crates).unwrap() {
            let entry = entry.unwrap();
            let Ok(text) = std::fs::read_to_string(entry.path().join("fuzz/Cargo.toml")) else {
                continue;
            };
            let manifest: toml::Table = text.parse().unwrap();
            for bin in manifest["bin"].as_array().unwrap() {
                let name = bin["name"].as_str().unwrap();
                let begin = format!("just fuzz {} {name} ", entry.file_name().display());
                assert!(commands.iter().any(|line| line.starts_with(&begin)), "{begin}");
                targets += 1;
            }
        }
        assert_eq!(targets, commands.len());
    }

    #[test]
    fn every_watched_path_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut watched: Vec<&str> = EVERYTHING.to_vec();
        for stage in GATE {
            if let When::Changed(paths) = stage.when {
                watched.extend(paths);
            }
        }
        for path in watched {
            assert!(root.join(path).exists(), "{path} is watched, but does not exist");
        }
    }

    #[test]
    fn every_verb_of_a_stage_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let justfile = std::fs::read_to_string(root.join("justfile")).unwrap();
        for stage in GATE.iter().chain(NIGHTLY) {
            let Action::Run(commands) = stage.action else { continue };
            // Variables for the verb may come first.
            for (_, verb) in commands.iter().filter_map(|command| command.split_once("just ")) {
                let verb = verb.split(' ').next().unwrap();
                let defined = |line: &str| {
                    line.strip_prefix(verb).is_some_and(|rest| rest.starts_with([' ', ':']))
                };
                assert!(justfile.lines().any(defined), "{}: no verb {verb}", stage.name);
            }
        }
    }
}
