//! Datasets whose shelf somebody rearranges while sandboxes are made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::Bind;
use belljar_node::Command;
use belljar_objects::{Kept, Shelf};

use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::stage::Stage;

/// By what a sandbox is given its dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// As the product does it.
    ByIdentity,
    /// The directory that has the name now, whatever it is.
    ByName,
}

const MEANT: &[u8] = b"meant-for-this-sandbox\n";
/// As long as the other.
const SECRET: &[u8] = b"somebody-elses-secret!\n";

/// How long it may take until both were seen: a file that is shown, and a refusal.
const LONGEST: Duration = Duration::from_secs(20);

/// Three ways to have another file under the name of a dataset.
fn decoys(beside: &Path, content: &str) -> anyhow::Result<Vec<PathBuf>> {
    let names = ["other", "link", "way"].map(|name| beside.join(name));
    let [other, link, way] = &names;
    let secret = beside.join("secret");
    for dir in [other, link, &secret] {
        fs::create_dir(dir)?;
    }
    for dir in [other, &secret] {
        fs::write(dir.join(content), SECRET)?;
    }
    std::os::unix::fs::symlink(secret.join(content), link.join(content))?;
    std::os::unix::fs::symlink(&secret, way)?;
    Ok(names.into())
}

/// Puts each decoy in the dataset's place in turn, until it is told to stop.
fn swap(place: &Path, decoys: &[PathBuf], stop: &Receiver<()>) -> std::io::Result<u32> {
    let aside = place.with_extension("aside");
    let mut rounds = 0;
    let goes_on = || stop.recv_timeout(Duration::from_millis(2)) == Err(RecvTimeoutError::Timeout);
    while goes_on() {
        for decoy in decoys {
            fs::rename(place, &aside)?;
            fs::rename(decoy, place)?;
            let again = goes_on();
            fs::rename(place, decoy)?;
            fs::rename(&aside, place)?;
            rounds += 1;
            if !again {
                return Ok(rounds);
            }
        }
    }
    Ok(rounds)
}

pub(super) async fn swapped(stage: Stage, bound: Bound) -> anyhow::Result<Seen> {
    if !stage.spec().tier.shows_files() {
        return Ok(Seen::NotHere("datasets are copied into this tier".into()));
    }
    let dir = tempfile::tempdir()?;
    let source = dir.path().join("source");
    fs::write(&source, MEANT)?;
    let shelf = Shelf::new(dir.path().join("shelf"));
    let kept = shelf.put_file(&source)?;
    let data = shelf.show(&[("a.csv".to_owned(), kept.digest)])?;
    let place = kept.path.parent().context("a dataset has a directory")?.to_owned();
    let decoys = decoys(dir.path(), &kept.digest.to_string())?;
    let (stop, stopped) = channel();
    let swapping = std::thread::spawn({
        let place = place.clone();
        move || swap(&place, &decoys, &stopped)
    });
    let mut spec = stage.spec();
    match bound {
        Bound::ByIdentity => spec.data = data,
        Bound::ByName => spec.root.binds.push(Bind::of_sandboxes(place, "/mnt")),
    }
    let seen = make_and_read(&stage, &spec, bound, &kept).await;
    drop(stop);
    let rounds = swapping.join().ok().context("the swapping broke off")??;
    ensure!(rounds > 0, "it was never swapped");
    seen
}

async fn make_and_read(
    stage: &Stage,
    spec: &belljar_domain::Spec,
    bound: Bound,
    kept: &Kept,
) -> anyhow::Result<Seen> {
    let path = match bound {
        Bound::ByIdentity => "/mnt/data/a.csv".to_owned(),
        Bound::ByName => format!("/mnt/{}", kept.digest),
    };
    let mut findings = Findings::default();
    let (mut shown, mut refused, begin) = (0, 0, Instant::now());
    while (shown < 10 || refused < 10) && begin.elapsed() < LONGEST && !findings.is_breached() {
        let sandbox = match stage.sandbox_of(spec).await {
            Ok(sandbox) => sandbox,
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        // Twice: what is shown stays, whatever has its name by now.
        let read = Command::new(["/bin/cat", &path, &path]);
        let ran = stage.exec(&sandbox, &read).await?;
        let is_meant = ran.stdout == [MEANT, MEANT].concat();
        findings.expect(is_meant, "it is shown what is meant for it", ran.text());
        shown += 1;
        stage.destroy(sandbox).await?;
    }
    if !findings.is_breached() {
        ensure!(shown > 0 && refused > 0, "{shown} were shown it, {refused} were not made");
    }
    findings.held(format!("{shown} were shown it, {refused} were not made"));
    Ok(findings.seen())
}
