//! What is done inside, the same everywhere: sums, and what system calls cost.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;

/// Does each kind of work a fixed number of times and prints how long each took,
/// by its own clock, so that no start of anything is in it.
pub(super) const SCRIPT: &str = "\
import json, os, subprocess, tempfile, time
def timed(work):
    start = time.perf_counter(); work(); return time.perf_counter() - start
def cpu():
    total = 0
    for n in range(1000000): total += n * n % 7
def getppid():
    for _ in range(20000): os.getppid()
def stat():
    for _ in range(5000): os.stat('/usr/bin/env')
def files():
    with tempfile.TemporaryDirectory(dir='/tmp') as place:
        for n in range(200):
            path = f'{place}/{n}'
            with open(path, 'w') as file: file.write('x' * 1000)
            with open(path) as file: file.read()
            os.unlink(path)
def spawn():
    for _ in range(20): subprocess.run(['/bin/true'], check=True)
works = [cpu, getppid, stat, files, spawn]
print(json.dumps({work.__name__: timed(work) for work in works}), flush=True)
";

/// The kinds, in the order of the table, with what each is.
pub(super) const KINDS: [(&str, &str); 5] = [
    ("cpu", "a loop of sums"),
    ("getppid", "the cheapest system call"),
    ("stat", "a look at a file"),
    ("files", "small files made, read, removed"),
    ("spawn", "`true` started and waited for"),
];

pub(super) const ECHO: [&str; 2] = ["/bin/echo", "1"];

pub(super) const PRINT: &str = "print(1)";

/// What the script printed.
pub(super) fn parse(line: &str) -> anyhow::Result<BTreeMap<String, Vec<Duration>>> {
    let seconds: BTreeMap<String, f64> =
        serde_json::from_str(line).with_context(|| format!("the work answers {line:?}"))?;
    let times = seconds.into_iter().map(|(kind, seconds)| {
        Ok((kind, vec![Duration::try_from_secs_f64(seconds).context("the clock went back")?]))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_every_kind() {
        let line = r#"{"cpu": 0.25, "spawn": 1.5}"#;
        let work = parse(line).unwrap();
        assert_eq!(work["cpu"], [Duration::from_millis(250)]);
        assert!(parse("Traceback").is_err());
        for (kind, _) in KINDS {
            assert!(SCRIPT.contains(&format!("def {kind}():")), "{kind}");
        }
    }
}
