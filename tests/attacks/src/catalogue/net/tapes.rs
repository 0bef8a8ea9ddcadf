//! Cassettes: what is played goes nowhere, and nobody else's is played.

use std::path::Path;

use belljar_domain::network::{Miss, Policy, Reach, Reason, Tape};
use belljar_node::Sandbox;

use super::{served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Said, Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow};

fn recording() -> anyhow::Result<Policy> {
    Ok(Policy { tape: Tape::Record { cassette: "tape".parse()? }, ..allow(&["allowed.test"])? })
}

fn playing(miss: Miss) -> anyhow::Result<Policy> {
    let tape = Tape::Replay { cassette: "tape".parse()?, miss };
    Ok(Policy { tape, ..allow(&["allowed.test"])? })
}

fn post(body: &str) -> Script {
    Script::gateway(body).ask(format!(
        "POST http://allowed.test/echo HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: {}\r\n\
         authorization: Bearer secret-of-the-client\r\n\r\n{body}",
        body.len()
    ))
}

fn hello() -> Script {
    Script::gateway("hello").ask(get("allowed.test", "/hello"))
}

/// Records two exchanges, and ends the sandbox so that the cassette is whole.
async fn record(stage: &Stage, world: &World) -> anyhow::Result<()> {
    let sandbox = served(stage, world, recording()?).await?;
    let (_, said) = stage.say(&sandbox, &[hello(), post("body-of-a")]).await?;
    let fine = said.iter().all(|said| said.status() == 200);
    anyhow::ensure!(fine, "not recorded: {:?}", said.iter().map(Said::brief).collect::<Vec<_>>());
    stage.destroy(sandbox).await?;
    Ok(())
}

/// Requests that are not on the cassette, one of them by a single byte.
pub(super) async fn misses(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    record(&stage, &world).await?;
    let before = world.web.record().total();
    let questions = world.names.queries().len();
    let miss = if control { Miss::Fallthrough } else { Miss::Strict };
    let mut policy = playing(miss)?;
    if !control {
        // Not even an open policy is a reason to go out.
        policy.reach = Reach::Open;
    }
    let sandbox = served(&stage, &world, policy).await?;
    let other =
        "PUT http://allowed.test/hello HTTP/1.1\r\nhost: allowed.test\r\ncontent-length: 0\r\n\r\n";
    let missing = [
        post("body-of-b"),
        post("body-of-a\n"),
        Script::gateway("another path").ask(get("allowed.test", "/bytes?n=3")),
        Script::gateway("a query").ask(get("allowed.test", "/hello?x")),
        Script::gateway("another method").ask(other),
        Script::gateway("another host").ask(get("sub.allowed.test", "/hello")),
    ];
    let (call, said) = stage.say(&sandbox, &missing).await?;
    let went = world.web.record().total() - before;
    if control {
        return Ok(works(went > 0, "told to fall through, it goes out", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let refused = said.status() == 502 && said.reason() == "not_recorded";
        findings.expect(refused, "refused", said.brief());
    }
    let rows = world.denied(&sandbox, call, missing.len(), Reason::NotRecorded).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    let (_, said) = stage.say(&sandbox, &[hello(), post("body-of-a")]).await?;
    let played = said.iter().all(|said| said.status() == 200);
    findings.expect(played, "what is on it is played", said[1].brief());
    let went = world.web.record().total() - before;
    findings.expect(went == 0, "nothing went out", went);
    let asked = world.names.queries().len() - questions;
    findings.expect(asked == 0, "and nothing was looked up", asked);
    Ok(findings.seen())
}

/// The same name of a cassette at another tenant's, and secrets on one's own.
pub(super) async fn others(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    record(&stage, &world).await?;
    let play = async |tenant: &str| -> anyhow::Result<(Said, std::sync::Arc<Sandbox>)> {
        let sandbox = stage.sandbox(|_| {}).await?;
        if tenant == "tenant" {
            world.connect_as(tenant, &sandbox, playing(Miss::Strict)?).await?;
        } else {
            // One of its own, of the same name and empty.
            world.connect_as(tenant, &sandbox, recording()?).await?;
            sandbox.change_policy(playing(Miss::Strict)?).await?;
        }
        let (_, mut said) = stage.say(&sandbox, &[hello()]).await?;
        Ok((said.remove(0), sandbox))
    };
    let cassettes = world.folder().join("cassettes");
    if control {
        let (said, _) = play("tenant").await?;
        let found = search(&cassettes, b"allowed.test")?;
        let both = said.has("hello") && found > 0;
        return Ok(works(
            both,
            "its own tenant plays it, and the search finds what is on it",
            &[said],
        ));
    }
    let mut findings = Findings::default();
    for tenant in ["another", "tenant2", "Tenant", "../tenant", "tenant/", "tenant\0"] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let opened = world.connect_as(tenant, &sandbox, playing(Miss::Strict)?).await;
        let said = opened.err().map(|error| format!("{error:#}")).unwrap_or_default();
        findings.expect(said.contains("no cassette"), "another tenant's is not found", said);
        let (said, sandbox) = play(tenant).await?;
        let refused = said.status() == 502 && said.reason() == "not_recorded";
        findings.expect(refused, "nothing of another tenant's is played", said.brief());
        let rows = world.count(&sandbox, 1, |row| row.reason == Reason::NotRecorded).await;
        findings.expect(rows == 1, "written down", rows);
    }
    let secrets = search(&cassettes, b"secret-of-the-client")?;
    findings.expect(secrets == 0, "the client's credential is not on the cassette", secrets);
    let files = search(&cassettes, b"")?;
    findings.expect(files > 0, "there is a cassette", "nothing was written");
    Ok(findings.seen())
}

/// How many files hold these bytes, compressed ones unpacked.
fn search(directory: &Path, bytes: &[u8]) -> anyhow::Result<usize> {
    let mut found = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found += search(&path, bytes)?;
            continue;
        }
        let raw = std::fs::read(&path)?;
        let unpacked = std::process::Command::new("zstd").args(["-dcq"]).arg(&path).output();
        let unpacked = unpacked.map(|output| output.stdout).unwrap_or_default();
        let has =
            |text: &[u8]| bytes.is_empty() || text.windows(bytes.len()).any(|part| part == bytes);
        found += usize::from(has(&raw) || has(&unpacked));
    }
    Ok(found)
}
