//! Data that is carried out in what is allowed, and what answers tell of the world.

use std::net::TcpListener;

use belljar_domain::network::{Decision, Policy, Reach, Reason, Rule, Throttle};
use belljar_node::Defence;

use super::{served, works};
use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::say::{Said, Script, connect, get, socks};
use crate::harness::stage::Stage;
use crate::harness::world::{Wish, World, addresses, allow, open};

/// Another host inside TLS than the greeting named. Only who reads the content can tell, so the
/// control, whose rule is about the host alone, lets it pass: SECURITY.md says so.
pub(super) async fn fronting(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let mut policy = allow(&["allowed.test"])?;
    if let Reach::Allow(rules) = &mut policy.reach
        && !control
    {
        rules[0].methods = vec!["GET".to_owned()];
    }
    let sandbox = served(&stage, &world, policy).await?;
    let within =
        |name| Script::gateway(name).tunnel("allowed.test:443").tls(Some("allowed.test"), 1);
    let hello = |host: &str| format!("GET /hello HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let scripts = [
        within("other host").ask(hello("denied.test")),
        within("below").ask(hello("sub.allowed.test")),
        within("other port").ask(hello("allowed.test:8443")),
        within("absolute").ask(get("denied.test", "/hello")),
    ];
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        return Ok(works(said[0].has("hello"), "an unread tunnel serves the other host", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        let refused = matches!(said.status(), 400 | 403) && !said.has("hello");
        findings.expect(refused, "refused where content is read", said.brief());
    }
    let total = world.secure.record().total();
    findings.expect(total == 0, "the server heard none", total);
    Ok(findings.seen())
}

/// Data in headers and in addresses, drop by drop, on a connection that stays open: the budget
/// counts all of it.
pub(super) async fn dripping(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    const BUDGET: u64 = 40_000;
    let world = World::start().await?;
    let throttle = match control {
        true => Throttle::default(),
        false => Throttle { bytes_out: BUDGET, ..Throttle::default() },
    };
    let data = "d".repeat(4000);
    let in_header = format!(
        "GET http://allowed.test/hello HTTP/1.1\r\nhost: allowed.test\r\nx-data: {data}\r\n\r\n"
    );
    let in_address = get("allowed.test", &format!("/hello?{data}"));
    let in_tunnel = format!("GET /hello HTTP/1.1\r\nhost: allowed.test\r\nx-data: {data}\r\n\r\n");
    let often = |script: Script, request: &str| {
        (0..16).fold(script, |script, _| script.ask(request).sleep(0.02))
    };
    let tunnel = Script::gateway("tunnel").tunnel("allowed.test:443").tls(Some("allowed.test"), 1);
    let scripts = [
        often(Script::gateway("headers"), &in_header),
        often(Script::gateway("addresses"), &in_address),
        often(tunnel, &in_tunnel),
    ];
    let mut findings = Findings::default();
    for script in scripts {
        let policy = Policy { throttle, ..allow(&["allowed.test"])? };
        let sandbox = served(&stage, &world, policy).await?;
        let (call, said) = stage.say(&sandbox, &[script]).await?;
        let answers = said[0].got.matches("hello").count();
        if control {
            if answers < 16 {
                return Ok(Seen::Held(format!("{answers} of 16 were answered")));
            }
            continue;
        }
        findings.expect(answers < 11, "it ends with the budget", said[0].brief());
        let rows = world.denied(&sandbox, call, 1, Reason::BytesSpent).await;
        findings.expect(rows.is_ok(), "written down", rows.err().unwrap_or_default());
        // Requests that were refused say how much was asked for; a tunnel is one row.
        let rows = world.rows(sandbox.id());
        let passed = rows.iter().filter(|row| row.decision == Decision::Allowed);
        let passed: u64 = passed.map(|row| row.bytes.out).sum();
        let told: u64 = rows.iter().map(|row| row.bytes.out).sum();
        let counted = told > BUDGET / 2 && passed < BUDGET + 1000;
        findings.expect(counted, "rows count headers and addresses", format!("{passed} {told}"));
        stage.destroy(sandbox).await?;
    }
    if control {
        return Ok(Seen::Breach("without a budget all of it is carried out".to_owned()));
    }
    Ok(findings.seen())
}

/// Names that are all denied, and differ in everything else.
const NAMES: [&str; 4] = ["denied.test", "absent.test", "intern.test", "router.test"];

/// Maps what there is by the differences between refusals.
pub(super) async fn mapping(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let names =
        vec![("intern.test", addresses(&["10.0.0.5"])), ("router.test", addresses(&["127.0.0.1"]))];
    let world = World::with(Wish { names, ..Wish::default() }).await?;
    let policy = if control { open() } else { allow(&["allowed.test"])? };
    let sandbox = served(&stage, &world, policy).await?;
    let scripts: Vec<Script> = NAMES
        .iter()
        .flat_map(|name| {
            [
                Script::gateway(*name).ask(get(name, "/hello")),
                Script::gateway(*name).ask(connect(&format!("{name}:443"))),
                Script::gateway(*name)
                    .send([5, 1, 0])
                    .exactly(2)
                    .send(socks(name.as_bytes(), 80))
                    .rest(1.0),
            ]
        })
        .collect();
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    let neutral = |said: &Said| {
        let lines = said.got.lines().filter(|line| {
            let line = line.to_ascii_lowercase();
            !line.starts_with("date:") && !line.starts_with("x-request-id:")
        });
        lines.collect::<Vec<_>>().join("\n").replace(said.name.as_str(), "NAME")
    };
    let kinds: Vec<usize> = (0..3)
        .map(|kind| {
            let all = said.iter().skip(kind).step_by(3).map(neutral);
            all.collect::<std::collections::BTreeSet<_>>().len()
        })
        .collect();
    if control {
        let differ = kinds.iter().any(|count| *count > 1);
        return Ok(works(differ, "where everything is open, answers differ", &said));
    }
    let mut findings = Findings::default();
    findings.expect(kinds == [1, 1, 1], "every refusal is the same", format!("{kinds:?}"));
    let asked = NAMES.iter().filter(|name| world.names.was_asked(name)).count();
    findings.expect(asked == 0, "no name is looked up, so no time tells", asked);
    Ok(findings.seen())
}

/// Places of IPv6 that are near: by sockets of one's own, and by way of the gateway.
pub(super) async fn near(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let listener = TcpListener::bind("[::1]:0");
    let port = listener.as_ref().ok().and_then(|one| Some(one.local_addr().ok()?.port()));
    if control {
        let Some(port) = port else {
            return Ok(Seen::NotHere("this host has no IPv6".to_owned()));
        };
        let stage = stage.without(&[Defence::NetNamespace]);
        let sandbox = stage.sandbox(|_| {}).await?;
        return verdict(&stage.run(&sandbox, "net/net_27.py", &[port.to_string()]).await?);
    }
    let mut findings = Findings::default();
    let world = World::start().await?;
    let sandbox = served(&stage, &world, open()).await?;
    let port = port.unwrap_or(9).to_string();
    findings.verdict(&stage.run(&sandbox, "net/net_27.py", &[port]).await?)?;
    let places = [
        "[fe80::1]",
        "[fe80::1%251]",
        "[fd00::1]",
        "[fc00::1]",
        "[ff02::1]",
        "[ff05::2]",
        "[::1]",
        "[::]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::]",
        "[fec0::1]",
    ];
    let scripts: Vec<Script> = places
        .iter()
        .flat_map(|place| {
            [
                Script::gateway(*place).ask(get(place, "/")),
                Script::gateway(*place).ask(connect(&format!("{place}:443"))),
            ]
        })
        .collect();
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    for said in &said {
        let refused = matches!(said.statuses()[..], [400 | 403]);
        findings.expect(refused, "the gateway goes to none of them", said.brief());
    }
    Ok(findings.seen())
}

/// A rule that has the content of a host read.
pub(super) fn read(host: &str) -> anyhow::Result<Policy> {
    let rule = Rule { methods: vec!["GET".to_owned()], ..Rule::of(host.parse()?) };
    Ok(Policy { reach: Reach::Allow(vec![rule]), ..Policy::default() })
}
