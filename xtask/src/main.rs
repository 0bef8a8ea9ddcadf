//! House rules and chores that are longer than a line. See `cargo xtask help`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people at a terminal")]

mod attacks;
mod datasets;
mod examples;
mod gate;
mod layers;
mod planted;
mod requirements;
mod size;
mod unsafety;
mod words;
mod workspace;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use examples::Runner;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask layers            check every import against the layer table, and where unsafe is
cargo xtask layers --table    print the table as ARCHITECTURE.md holds it
cargo xtask attacks           check that each attack of the catalogue has a test, or a reason to have none
cargo xtask requirements      print each requirement with its tests, and check that tests name only those
cargo xtask examples          run every example in a sandbox and compare its output
cargo xtask examples --bare   the same without a sandbox, to check the expected output
cargo xtask gate [STAGE...]   run the gate's stages; .ci/run prepares the machine first
cargo xtask gate --list       print the names of the gate's stages
cargo xtask gate --plan       print which stages the gate would run now, and why
cargo xtask gate-times        print the stages' seconds of the last five gates side by side
cargo xtask nightly [STAGE...]  run the nightly's stages; .ci/nightly prepares the machine first
cargo xtask nightly --list    print the names of the nightly's stages
cargo xtask planted [CRATE...]  break a line in each crate and check that the gate catches it
cargo xtask target            print the folder that cargo builds into
cargo xtask size              print the size of the guest binary
cargo xtask words             count wording that users should not meet, and where it is
cargo xtask words --all       print each of them
cargo xtask datasets DIR      write made-up data for `just measure-datasets` (0.6 GB)
cargo xtask datasets DIR --large  and a file of 10 GB";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().context("xtask stands at the top of the file system")?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["layers"] => check_layers(root),
        ["layers", "--table"] => {
            print!("{}", layers::markdown());
            Ok(())
        }
        ["attacks"] => attacks::check(root),
        ["requirements"] => requirements::check(root),
        ["examples"] => {
            let belljar = target_folder()?.join("suite/belljar");
            examples::run(root, &Runner::Belljar(belljar))
        }
        ["examples", "--bare"] => examples::run(root, &Runner::Bare),
        ["datasets", directory] => datasets::generate(Path::new(directory), false),
        ["datasets", directory, "--large"] => datasets::generate(Path::new(directory), true),
        ["gate", "--list"] => {
            gate::print_names(gate::List::Gate);
            Ok(())
        }
        ["gate", "--plan"] => gate::print_plan(root),
        ["gate", ..] => gate::gate(root, &arguments[1..]),
        ["gate-times"] => gate::times(),
        ["nightly", "--list"] => {
            gate::print_names(gate::List::Nightly);
            Ok(())
        }
        ["nightly", ..] => gate::nightly(root, &arguments[1..]),
        ["planted", ..] => planted::run(root, &target_folder()?, &arguments[1..]),
        ["words"] => words::print(root, false),
        ["words", "--all"] => words::print(root, true),
        ["target"] => {
            println!("{}", target_folder()?.display());
            Ok(())
        }
        ["size"] => size::print(&target_folder()?),
        ["help" | "--help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("xtask knows these commands:\n{HELP}"),
    }
}

fn check_layers(root: &Path) -> Result<()> {
    let workspace = Workspace::read(root)?;
    let mut broken = layers::check(&workspace);
    broken.extend(unsafety::check(root, &workspace)?);
    for sentence in &broken {
        eprintln!("{sentence}");
    }
    if !broken.is_empty() {
        bail!("{} house rules are broken", broken.len());
    }
    println!("layers: {} crates follow the table; unsafe is in sys only", workspace.members.len());
    Ok(())
}

/// Cargo put this program at `<target>/<profile>/xtask`.
fn target_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find this program's own path")?;
    let folder = program.parent().and_then(Path::parent);
    Ok(folder.context("this program is not in a target folder")?.to_owned())
}
