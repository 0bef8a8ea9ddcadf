//! Runs every example in a sandbox and compares what it prints with the file
//! in `examples/expected/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Where the examples run.
#[derive(Debug)]
pub(crate) enum Runner {
    /// In a sandbox, by this executable.
    Belljar(PathBuf),
    /// Straight on the host: shows that the expected output is right, whatever
    /// the sandbox does.
    Bare,
}

pub(crate) fn run(root: &Path, runner: &Runner) -> Result<()> {
    if let Runner::Belljar(path) = runner
        && !path.is_file()
    {
        bail!("there is no {}; build it with `just suites`", path.display());
    }
    let folder = root.join("examples");
    let scripts = scripts(&folder)?;
    let mut failed = 0;
    for script in &scripts {
        let name = script.file_name().unwrap_or_default().to_string_lossy();
        match check(&folder, script, runner) {
            Ok(()) => println!("example {name} ... ok"),
            Err(error) => {
                failed += 1;
                println!("example {name} ... FAILED: {error:#}");
            }
        }
    }
    println!("examples: {} passed, {failed} failed", scripts.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} examples failed", scripts.len());
    }
    Ok(())
}

fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {folder:?}"))? {
        let path = entry?.path();
        if interpreter(&path).is_some() {
            scripts.push(path);
        }
    }
    if scripts.is_empty() {
        bail!("there are no examples in {}", folder.display());
    }
    scripts.sort();
    Ok(scripts)
}

fn interpreter(script: &Path) -> Option<&'static str> {
    match script.extension()?.to_str()? {
        "py" => Some("python3"),
        "js" => Some("node"),
        "sh" => Some("sh"),
        _ => None,
    }
}

fn check(folder: &Path, script: &Path, runner: &Runner) -> Result<()> {
    let name = script.file_name().context("the script has no name")?.to_string_lossy();
    let golden = folder.join("expected").join(format!("{name}.txt"));
    let want = fs::read_to_string(&golden).with_context(|| format!("cannot read {golden:?}"))?;
    let mut command = match runner {
        Runner::Belljar(path) => {
            let mut command = Command::new(path);
            command.arg("run");
            command
        }
        Runner::Bare => Command::new(interpreter(script).context("nothing runs this file")?),
    };
    let output = command.arg(script).output().with_context(|| format!("cannot run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{}; its standard error was:\n{errors}", output.status);
    }
    let got = String::from_utf8_lossy(&output.stdout);
    if got != want {
        bail!("it printed\n{got}\ninstead of\n{want}\nand on standard error\n{errors}");
    }
    Ok(())
}
