//! AGT: the guest inside a sandbox, against the engine. It is an attacker's own program here.

mod floods;
mod guest;
mod words;

use std::time::Duration;

use anyhow::Context as _;
use belljar_node::{Command, Defence, Sandbox};
use tokio::time::timeout;

use crate::attack::{Act, Attack, Control, Seen, payload};
use crate::harness::files::HANG_LIMIT;
use crate::harness::stage::{Ran, Stage};

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    let window = Control::Without(&[Defence::GuestWindow]);
    vec![
        Attack::new(
            "AGT-01",
            Act::Payload(payload("agt/agt_01.py").tune(|spec| spec.limits.wall = SEARCH)),
            Control::Own(|stage| Box::pin(found(stage))),
        ),
        driven("AGT-03", |stage| Box::pin(floods::frames(stage)), window),
        driven(
            "AGT-04",
            |stage| Box::pin(words::silence(stage)),
            Control::Own(|stage| Box::pin(words::no_silence(stage))),
        ),
        driven(
            "AGT-05",
            |stage| Box::pin(words::lies(stage)),
            Control::Own(|stage| Box::pin(words::truth(stage))),
        ),
        driven(
            "AGT-06",
            |stage| Box::pin(floods::descriptors(stage)),
            Control::Own(|stage| Box::pin(floods::descriptors_kept(stage))),
        ),
        driven(
            "AGT-07",
            |stage| Box::pin(words::hellos(stage)),
            Control::Own(|stage| Box::pin(words::right_hello(stage))),
        ),
        driven("AGT-08", |stage| Box::pin(floods::events(stage)), window),
        driven(
            "AGT-09",
            |stage| Box::pin(words::replays(stage)),
            Control::Own(|stage| Box::pin(words::own_call(stage))),
        ),
        driven(
            "AGT-10",
            |stage| Box::pin(words::others(stage)),
            Control::Own(|stage| Box::pin(words::own_call(stage))),
        ),
    ]
}

/// Every port of a loopback takes its time on a busy host.
const SEARCH: Duration = Duration::from_secs(120);

/// The same search beside a process that listens.
async fn found(stage: Stage) -> anyhow::Result<Seen> {
    payload("agt/agt_01.py")
        .args(&["listen"])
        .tune(|spec| spec.limits.wall = SEARCH)
        .run(&stage)
        .await
}

/// A call that the guest answers by itself; the inner error is told to whoever called.
async fn call(stage: &Stage, sandbox: &Sandbox) -> anyhow::Result<Result<Ran, String>> {
    let command = Command::new(["/bin/true"]);
    let ran = async { stage.start(sandbox, &command).await?.finish().await };
    let ran = timeout(2 * HANG_LIMIT, ran).await.context("a call does not end")?;
    Ok(ran.map_err(|error| format!("{error:#}")))
}

/// Whether a call had what an obedient guest answers.
fn is_own(ran: &Result<Ran, String>) -> bool {
    ran.as_ref().is_ok_and(|ran| ran.text() == "own" && ran.end.exit_code == Some(5))
}

fn told(ran: &Result<Ran, String>) -> String {
    ran.as_ref().map_or_else(Clone::clone, Ran::ending)
}

/// An honest sandbox of the same process answers.
async fn neighbour_serves(stage: &Stage) -> anyhow::Result<bool> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let ran = stage.exec(&sandbox, &Command::new(["/bin/echo", "alive"])).await?;
    stage.destroy(sandbox).await?;
    Ok(ran.text() == "alive\n")
}
