//! What is inside tunnels, and how long they last.

use std::time::{Duration, Instant};

use belljar_domain::network::{Decision, Kind, Policy, Reason, Row};

use super::{directly, served, works};
use crate::attack::Seen;
use crate::harness::files::HANG_LIMIT;
use crate::harness::findings::Findings;
use crate::harness::say::{Script, get, heard};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow};

const HELLO: &str = "GET /hello HTTP/1.1\r\nhost: denied.test\r\nconnection: close\r\n\r\n";

/// A greeting of TLS 1.2, written by hand, with these extensions.
pub(super) fn greeting(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let mut list = Vec::new();
    for (kind, data) in extensions {
        list.extend([&kind.to_be_bytes()[..], &short(data.len()), data].concat());
    }
    let body =
        [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 0x01], &[1, 0], &short(list.len()), &list]
            .concat();
    let length = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &short(message.len()), &message].concat()
}

/// The extension that names servers.
pub(super) fn names(list: &[&str]) -> (u16, Vec<u8>) {
    let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let entry = |name: &&str| [&[0][..], &short(name.len()), name.as_bytes()].concat();
    let list: Vec<u8> = list.iter().flat_map(entry).collect();
    (0, [&short(list.len())[..], &list].concat())
}

/// Another name in the greeting than in the request, none, two, or one in pieces.
pub(super) async fn greetings(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    if control {
        let direct =
            Script::to("another name", world.at(443)).tls(Some("denied.test"), 50).ask(HELLO);
        let said = directly(&stage, &[direct]).await?;
        return Ok(works(said[0].has("hello"), "the server serves both names", &said));
    }
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let tunnel = |name: &str| Script::gateway(name).tunnel("allowed.test:443");
    let encrypted = (0xfe0d, vec![0; 64]);
    let scripts = [
        tunnel("other").tls(Some("denied.test"), 1).ask(HELLO),
        tunnel("other, 50 pieces").tls(Some("denied.test"), 50).ask(HELLO),
        tunnel("below").tls(Some("sub.allowed.test"), 1).ask(HELLO),
        tunnel("none").tls(None, 1).ask(HELLO),
        tunnel("none, 50 pieces").tls(None, 50).ask(HELLO),
        tunnel("two").send(greeting(&[names(&["allowed.test", "denied.test"])])).rest(1.0),
        tunnel("twice")
            .send(greeting(&[names(&["allowed.test"]), names(&["denied.test"])]))
            .rest(1.0),
        tunnel("NUL").send(greeting(&[names(&["allowed.test\0denied.test"])])).rest(1.0),
        tunnel("encrypted").send(greeting(&[names(&["denied.test"]), encrypted.clone()])).rest(1.0),
        tunnel("encrypted, no name").send(greeting(&[encrypted])).rest(1.0),
        tunnel("no TLS").ask(HELLO),
        tunnel("SSH").send("SSH-2.0-x\r\n").rest(1.0),
    ];
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    for said in &said {
        // The tunnel was granted; what came after it was not.
        let cut = said.statuses() == [200] && !said.has("hello");
        findings.expect(cut, "cut before a byte of it passes", said.brief());
    }
    let heard_of = world.secure.record().total();
    findings.expect(heard_of == 0, "the server heard nothing", heard_of);
    let is_denied = |row: &Row| {
        let wrong = [Reason::NameMismatch, Reason::NoName, Reason::Malformed];
        row.decision == Decision::Denied
            && wrong.contains(&row.reason)
            && row.subject.call.as_ref().is_some_and(|found| found.number == call)
    };
    let rows = world.count(&sandbox, scripts.len(), is_denied).await;
    findings.expect(rows == scripts.len(), "each is written down", rows);
    let right = tunnel("right, 50 pieces").tls(Some("allowed.test"), 50).ask(HELLO);
    let (_, said) = stage.say(&sandbox, &[right]).await?;
    findings.expect(said[0].has("hello"), "the right name passes in 50 pieces", said[0].brief());
    Ok(findings.seen())
}

/// A policy that gets tighter, and a sandbox that ends, while connections stand.
pub(super) async fn changes(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let drip = "/drip?ms=50";
    let inner = format!("GET {drip} HTTP/1.1\r\nhost: allowed.test\r\n\r\n");
    // The control waits in vain for the cut.
    let patience = if control { 4.0 } else { 30.0 };
    let scripts = [
        Script::gateway("plain")
            .send(get("allowed.test", drip))
            .exactly(60)
            .mark("plain")
            .rest(patience),
        Script::gateway("tunnel")
            .tunnel("allowed.test:443")
            .tls(Some("allowed.test"), 1)
            .send(&inner)
            .exactly(60)
            .mark("tunnel")
            .rest(patience),
        Script::gateway("waiting").tunnel("allowed.test:80").mark("waiting").rest(patience),
    ];
    let marks = ["MARK plain", "MARK tunnel", "MARK waiting"];
    let mut running = stage.saying(&sandbox, &scripts, true).await?;
    for mark in marks {
        running.until(mark).await?;
    }
    let begin = Instant::now();
    if !control {
        sandbox.change_policy(Policy::default()).await?;
    }
    let (_, said) = heard(running).await?;
    if control {
        let goes_on = said.iter().all(|said| !said.closed);
        return Ok(works(goes_on, "nothing is cut that is still allowed", &said));
    }
    let mut findings = Findings::default();
    let took = begin.elapsed();
    for said in &said {
        findings.expect(said.closed, "cut", said.brief());
    }
    findings.in_time(took, "at once");
    let is_cut = |row: &Row| row.reason == Reason::PolicyChanged;
    let rows = world.count(&sandbox, 3, is_cut).await;
    findings.expect(
        rows == 3,
        "the rows say why",
        format!("{rows}: {:?}", world.rows(sandbox.id())),
    );
    // The same when the sandbox ends.
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let mut running = stage.saying(&sandbox, &scripts, true).await?;
    for mark in marks {
        running.until(mark).await?;
    }
    let id = sandbox.id().clone();
    let begin = Instant::now();
    drop(running);
    stage.destroy(sandbox).await?;
    // A connection has a row once it has ended. Its client, which dies with the
    // sandbox, may have hung up before the gateway cut it.
    let has_ended = |row: &&Row| row.kind != Kind::Lookup;
    let is_over = |rows: &[Row]| rows.iter().filter(has_ended).count() >= 3;
    while !is_over(&world.rows(&id)) && begin.elapsed() < HANG_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = begin.elapsed();
    let rows = world.rows(&id);
    let is_over = is_over(&rows);
    findings.expect_in_time(is_over, "and when the sandbox ends", format!("{took:?}: {rows:?}"));
    Ok(findings.seen())
}
