//! OUT: what a sandbox says, and what others make of it.

mod streams;
mod twins;

use belljar_domain::EndReason;
use belljar_node::Command;
use belljar_node::Defence::OutputCap;

use crate::attack::{Act, Attack, Control, Run, Seen};
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::golden;
use crate::harness::host;
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act: fn(Stage) -> Run, control| Attack::new(id, Act::Driven(act), control);
    let framed = Control::Because("output is framed by its length; it has no other form");
    let data = Control::Because("the host never looks into what it moves");
    let fixed = Control::Because("the end of a call has fixed fields; output is in none of them");
    vec![
        driven("OUT-01", |stage| Box::pin(streams::endless(stage)), Control::Without(&[OutputCap]))
            .alone("a flood of output"),
        driven("OUT-02", |stage| Box::pin(twins::bytes(stage)), framed),
        driven("OUT-03", |stage| Box::pin(twins::escapes(stage)), framed),
        driven("OUT-04", |stage| Box::pin(twins::frames(stage)), framed),
        driven("OUT-05", |stage| Box::pin(code_bearing(stage)), data),
        driven("OUT-06", |stage| Box::pin(twins::json(stage)), framed),
        driven(
            "OUT-07",
            |stage| Box::pin(streams::unread(stage)),
            Control::Because("output waits inside until it is taken; it has no other form"),
        )
        .alone("a flood of output that nothing reads"),
        driven(
            "OUT-08",
            |stage| Box::pin(secrets(stage, Given::No)),
            Control::Own(|stage| Box::pin(secrets(stage, Given::Yes))),
        ),
        driven("OUT-09", |stage| Box::pin(streams::records(stage)), fixed),
        driven("OUT-10", |stage| Box::pin(twins::documents(stage)), data),
        driven("OUT-11", |stage| Box::pin(media(stage)), data),
        driven("OUT-12", |stage| Box::pin(streams::labels(stage)), fixed),
        driven("OUT-13", |stage| Box::pin(twins::instructions(stage)), fixed),
    ]
}

async fn code_bearing(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let marker = stage.canaries().dir().join("own-out05");
    let sandbox = stage.sandbox(|_| {}).await?;
    let path = marker.display().to_string();
    let ran = stage.run(&sandbox, "out/out_05.py", &[path]).await?;
    findings.expect(ran.end.reason == EndReason::Done, "it is done", ran.ending());
    let listing = files::list(&sandbox, b"/tmp/out05").await??;
    for entry in &listing.entries {
        let bytes = files::download(&sandbox, &entry.path, LIMIT).await??;
        let whole = ran.stdout.windows(bytes.len()).any(|part| part == bytes);
        findings.expect(whole, "moved as bytes", entry.path.escape_ascii());
    }
    findings.expect(listing.entries.len() == 6, "all are there", listing.entries.len());
    // Shown the ways in which the host shows things.
    let _ = (ran.ending(), twins::document(&ran).to_string());
    findings.expect(!marker.exists(), "nothing ran on the host", "the marker is there");
    Ok(findings.seen())
}

/// Whether the call is given a secret on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    No,
    Yes,
}

async fn secrets(stage: Stage, given: Given) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let secrets = stage.canaries().secrets.clone();
    // Reversed: the search would else find its own arguments.
    let args = secrets.all().map(|secret| secret.chars().rev().collect::<String>());
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, "out/out_08.c", &args).await?;
    if given == Given::Yes {
        command.env.push((b"GIVEN".to_vec(), secrets.all()[0].as_bytes().to_vec()));
    }
    let ran = stage.exec(&sandbox, &command).await?;
    findings.verdict(&ran)?;
    if given == Given::No {
        let mut names = ran.after("NOTE ENV ");
        names.sort();
        findings.add(golden::compare("environment.txt", &names, stage.bless)?);
        let debug = format!("{:?} {sandbox:?}", ran.end);
        let told = secrets.all().iter().any(|secret| debug.contains(secret));
        findings.expect(!told, "nothing that is logged holds one", "it does");
    }
    Ok(findings.seen())
}

async fn media(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.run(&sandbox, "out/out_11.py", &[""; 0]).await?;
    findings.verdict(&ran)?;
    let before = host::own_resident();
    for line in ran.after("NOTE FILE ") {
        let (path, size) = line.rsplit_once(' ').unwrap_or_default();
        let got = files::download(&sandbox, path.as_bytes(), LIMIT).await??;
        findings.expect(got.len().to_string() == size, "moved as bytes", path);
    }
    let grown = host::own_resident().saturating_sub(before);
    findings.expect(grown < 16 << 20, "nothing is decoded", grown);
    let ran = stage.exec(&sandbox, &Command::new(["/bin/true"])).await?;
    findings.expect(ran.end.reason == EndReason::Done, "the sandbox still serves", ran.ending());
    Ok(findings.seen())
}
