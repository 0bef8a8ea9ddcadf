//! Answers that are an attack themselves.

use belljar_domain::network::{Policy, Reason, Row, Throttle};

use super::{directly, served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::say::{Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow};

const ENDLESS: [&str; 7] = [
    "/endless-headers",
    "/huge-header?kb=1024",
    "/flood",
    "/trailers?kb=0",
    "/chunk-extensions?kb=0",
    "/endless-body",
    "/endless-body?length=1",
];

/// Bodies and heads without end, floods, bombs, and framing that is a lie.
pub(super) async fn bombs(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    if control {
        let script = |path: &&str| Script::to(*path, world.at(80)).send(get("x", path)).rest(1.0);
        let scripts: Vec<Script> = ENDLESS.iter().map(script).collect();
        let said = directly(&stage, &scripts).await?;
        let endless = said
            .iter()
            .all(|said| said.total > 1 << 20 && (!said.closed || said.name.contains("huge")));
        return Ok(works(endless, "taken directly, they never end", &said));
    }
    let limit = 8 << 20;
    let throttle = Throttle { bytes_in: limit, ..Throttle::default() };
    let pid = world.gateway.pid().unwrap_or(0);
    let before = host::resident(pid);
    let mut findings = Findings::default();
    for path in ENDLESS {
        let policy = Policy { throttle, ..allow(&["allowed.test"])? };
        let sandbox = served(&stage, &world, policy).await?;
        let refused = ["HTTP/1.1 429", "HTTP/1.1 502"];
        let script = Script::gateway(path).send(get("allowed.test", path));
        let script = script.rest_until(30.0, &refused).rest(0.5);
        let (_, said) = stage.say(&sandbox, &[script]).await?;
        let said = &said[0];
        // A body may be as long as the sandbox has bytes for; a head may not.
        let most = if path.contains("body") { limit + (1 << 20) } else { 256 << 10 };
        let ended = said.closed || [429, 502].contains(&said.status());
        findings.expect(ended && said.total <= most, "it has an end", said.brief());
        let is_one = |row: &Row| {
            [Reason::BytesSpent, Reason::BadAnswer, Reason::Upstream].contains(&row.reason)
        };
        let rows = world.count(&sandbox, 1, is_one).await;
        let all: Vec<Reason> = world.rows(sandbox.id()).iter().map(|row| row.reason).collect();
        findings.expect(rows >= 1, "and is written down", format!("{path}: {all:?}"));
        stage.destroy(sandbox).await?;
    }
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let bomb = Script::gateway("bomb").ask(get("allowed.test", "/gzip-bomb?mb=512"));
    let (_, said) = stage.say(&sandbox, &[bomb]).await?;
    let packed = said[0].total < 8 << 20 && said[0].has("content-encoding: gzip");
    findings.expect(packed, "what is compressed stays so", said[0].brief());
    let lies = [
        "both",
        "two-lengths",
        "length-list",
        "signed-length",
        "negative-length",
        "long",
        "bad-chunk",
        "huge-chunk",
        "chunked-twice",
        "folded",
        "nul-in-header",
        "upgrade",
        "wrong-version",
        "old",
        "no-last-chunk",
        "short",
    ];
    let script = |kind: &&str| {
        let first = Script::gateway(*kind).send(get("allowed.test", &format!("/framing/{kind}")));
        first.rest(0.5).send(get("allowed.test", "/bytes?n=3")).rest(0.5)
    };
    let scripts: Vec<Script> = lies.iter().map(script).collect();
    let (_, said) = stage.say_at_once(&sandbox, &scripts).await?;
    for said in &said {
        findings.expect(!said.has("smuggled"), "no answer that nobody asked for", said.brief());
        // After it: an answer of its own, or the end. Never the rest of the lie.
        let clean = said.closed || said.error.is_some() || said.got.ends_with("bbb");
        findings.expect(clean, "a lie about the length ends the connection", said.brief());
    }
    let grown = host::resident(pid).saturating_sub(before) >> 20;
    findings.expect(grown < 64, "the gateway's memory stays", format!("{grown} MiB more"));
    findings.expect(world.gateway.pid() == Some(pid), "and it lives", "it died");
    findings.held(format!("{grown} MiB more"));
    Ok(findings.seen())
}
