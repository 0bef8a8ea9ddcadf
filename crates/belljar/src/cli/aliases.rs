//! Flags that were renamed keep their old names as hidden aliases.

use clap::Parser as _;

use super::Cli;

#[test]
fn old_flag_names_are_accepted() {
    for line in [
        "exec --install-timeout 1s -- true",
        "runs list --most 5",
        "runs stats --most 5",
        "serve --network-most allow --snapshot-memory 1G --run-data 1G --run-file 1G",
        "control --control-key FILE --at-once 2 --certificate-life 1h",
        "admin audit --most 3",
        "admin tenant put acme --longest-life 1h",
        "admin key add acme --lives 1h",
        "admin node add node-1 --lives 1h",
        "bench first-result --slow 1",
        "bench tiers --slow 1",
        "bench platform --most 4 --alive 3 --at-once 2",
    ] {
        let words = std::iter::once("belljar").chain(line.split(' '));
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("belljar {line}\n{error}");
        }
    }
}
