//! The reach of root with the profile `full`: its own sandbox, and nothing that others see.

use anyhow::ensure;
use belljar_domain::{Owners, Spec, User};
use belljar_node::{Command, Sandbox};

use crate::attack::{Seen, full};
use crate::harness::findings::Findings;
use crate::harness::smuggled::PLACES;
use crate::harness::stage::Stage;

/// Attacks a file of the host's root in a directory that is shown with these owners, and files
/// that all sandboxes share. Another sandbox must see those as before.
pub(super) async fn by_root(stage: Stage, owners: Owners) -> anyhow::Result<Seen> {
    let add = |spec: &mut Spec| stage.smuggled.add_owned_to(spec, owners);
    let other = stage.sandbox(add).await?;
    let before = seen_by(&stage, &other).await?;
    let sandbox = stage
        .sandbox(|spec| {
            add(spec);
            full(spec);
        })
        .await?;
    let [of_host, of_layer] = secrets();
    let mut command = stage.place(&sandbox, "fs/fs_22.c", &[of_host, of_layer]).await?;
    command.user = User::Root;
    let ran = stage.exec(&sandbox, &command).await?;
    let mut findings = Findings::default();
    findings.verdict(&ran)?;
    let after = seen_by(&stage, &other).await?;
    let instead = format!("{before} became {after}");
    findings.expect(before == after, "others see the same owners and modes", instead);
    Ok(findings.seen())
}

/// The same file, by bind and by layer.
fn secrets() -> [String; 2] {
    PLACES.map(|place| format!("{place}/secret"))
}

/// Owners and modes of what all sandboxes share.
async fn seen_by(stage: &Stage, sandbox: &Sandbox) -> anyhow::Result<String> {
    let shared = ["/dev/null", "/dev/urandom", "/dev", "/usr/bin/env"].map(str::to_owned);
    let mut argv = vec!["/usr/bin/stat".to_owned(), "-c".to_owned(), "%n %u %g %a".to_owned()];
    argv.extend(shared.into_iter().chain(secrets()));
    let ran = stage.exec(sandbox, &Command::new(argv)).await?;
    ensure!(ran.end.exit_code == Some(0), "cannot look at shared files: {}", ran.ending());
    Ok(ran.text())
}
