//! Other names inside an allowed tunnel.

use belljar_domain::network::{Decision, Reason, Row};

use super::tunnels::{greeting, names};
use super::{served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Script, connect, get, socks};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow, open};

fn hello(host: &str) -> String {
    format!("GET /hello HTTP/1.1\r\nhost: {host}\r\n\r\n")
}

/// Names another host in a plain request than the tunnel's. The control runs under an open policy,
/// which has no name to compare with.
pub(super) async fn hosts(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let policy = if control { open() } else { allow(&["allowed.test"])? };
    let sandbox = served(&stage, &world, policy).await?;
    let tunnel = |name: &str| Script::gateway(name).tunnel("allowed.test:80");
    let by_socks = |name: &str| {
        let greeted = Script::gateway(name).send([5, 1, 0]).exactly(2);
        greeted.send(socks(b"allowed.test", 80)).exactly(10)
    };
    let scripts = [
        tunnel("other host").ask(hello("denied.test")),
        tunnel("second").ask(hello("allowed.test")).ask(hello("denied.test")),
        tunnel("absolute").ask(get("denied.test", "/hello")),
        tunnel("other port").ask(hello("allowed.test:8080")),
        tunnel("two hosts")
            .ask("GET /hello HTTP/1.1\r\nhost: allowed.test\r\nhost: denied.test\r\n\r\n"),
        tunnel("tunnel inside").ask(connect("denied.test:80")),
        by_socks("SOCKS").ask(hello("denied.test")),
    ];
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let reached = said[0].has("hello") && said[6].has("hello");
        return Ok(works(reached, "the server serves the other host through the tunnel", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let answers = said.got.matches("hello").count();
        let allowed = usize::from(said.name == "second");
        let refused = matches!(said.status(), 400 | 403) && answers == allowed;
        findings.expect(refused, "refused before it reaches the server", said.brief());
    }
    let total = world.web.record().total();
    findings.expect(total == 1, "the server heard the one that is allowed", total);
    let right = [
        tunnel("right").ask(hello("allowed.test")).ask(hello("allowed.test:80")),
        by_socks("SOCKS, right").ask(hello("allowed.test")),
    ];
    let (_, said) = stage.say(&sandbox, &right).await?;
    let reached = said[0].got.matches("hello").count() == 2 && said[1].has("hello");
    findings.expect(reached, "the right host is reached", said[0].brief());
    Ok(findings.seen())
}

/// Sends a second ClientHello for another name, as after a HelloRetryRequest. The control has the
/// same name in both.
pub(super) async fn greetings(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let first = greeting(&[names(&["allowed.test"])]);
    let announced = greeting(&[names(&["allowed.test"]), (42, vec![])]);
    let name = if control { "allowed.test" } else { "denied.test" };
    let second = greeting(&[names(&[name])]);
    let spec = [20, 3, 3, 0, 1, 1];
    let warning = [21, 3, 3, 0, 2, 1, 90];
    let early = [23, 3, 3, 0, 3, 9, 9, 9];
    let tunnel = |name: &str| Script::gateway(name).tunnel("allowed.test:443");
    let (begin, end) = second.split_at(20);
    let scripts = [
        tunnel("at once").send([&first[..], &second].concat()).rest(1.0),
        tunnel("after a change of keys").send([&first[..], &spec, &second].concat()).rest(1.0),
        tunnel("after a warning").send([&first[..], &warning, &second].concat()).rest(1.0),
        tunnel("after early data").send([&announced[..], &early, &second].concat()).rest(1.0),
        tunnel("in pieces").send([&first[..], begin].concat()).send(end).rest(1.0),
    ];
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let is_of_call =
        |row: &Row| row.subject.call.as_ref().is_some_and(|found| found.number == call);
    let both = first.len() + second.len();
    if control {
        let passed = |row: &Row| {
            is_of_call(row) && row.decision == Decision::Allowed && row.bytes.out >= both as u64
        };
        // The server may close before the last pieces pass.
        let rows = world.count(&sandbox, 2, passed).await;
        return Ok(works(rows >= 2, "the same name passes in both greetings", &said));
    }
    let mut findings = Findings::default();
    let is_cut = |row: &Row| {
        is_of_call(row)
            && row.decision == Decision::Denied
            && row.reason == Reason::NameMismatch
            && row.bytes.out < both as u64
    };
    let rows = world.count(&sandbox, scripts.len(), is_cut).await;
    let all = world.rows(sandbox.id());
    findings.expect(
        rows == scripts.len(),
        "cut before the other name passes",
        format!("{rows}: {all:?}"),
    );
    Ok(findings.seen())
}
