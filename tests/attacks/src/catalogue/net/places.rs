//! Places that no policy allows: metadata, the host, its services.

use belljar_domain::network::{Policy, Reach, Reason, Rule};
use belljar_scripted::{Hostile, Security};

use super::{served, works};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::say::{Said, Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::{Wish, World, addresses, allow, open};

/// The host by a plain request and by a tunnel.
fn both_ways(host: &str, port: u16) -> [Script; 2] {
    let place = format!("{host}:{port}");
    [
        Script::gateway(format!("GET {place}")).ask(get(&place, "/hello")),
        Script::gateway(format!("CONNECT {place}")).tunnel(&place).rest(0.2),
    ]
}

/// What is opened is reached: the control of every veto.
async fn opened(stage: &Stage, world: &World) -> anyhow::Result<Seen> {
    let sandbox = served(stage, world, open()).await?;
    let port = world.service.address().port();
    let (_, said) = stage.say(&sandbox, &both_ways("127.0.0.1", port)).await?;
    let reached = said[0].has("hello") && said[1].status() == 200;
    Ok(works(reached, "where the operator opened it, a private place is reached", &said))
}

fn refused(findings: &mut Findings, said: &[Said], statuses: &[u16], what: &str) {
    for said in said {
        let is_refused = said.statuses().len() == 1 && statuses.contains(&said.status());
        findings.expect(is_refused && !said.has("hello"), what, said.brief());
    }
}

pub(super) async fn metadata(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let mut wish = Wish { opens_service: control, ..Wish::default() };
    wish.names.push(("meta.test", addresses(&["169.254.169.254"])));
    wish.names.push(("meta6.test", addresses(&["fd00:ec2::254"])));
    let world = World::with(wish).await?;
    if control {
        return opened(&stage, &world).await;
    }
    let sandbox = served(&stage, &world, open()).await?;
    let hosts = [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "metadata.google.internal",
        "metadata.goog",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "meta.test",
        "meta6.test",
    ];
    let scripts: Vec<Script> = hosts.iter().flat_map(|host| both_ways(host, 80)).collect();
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    refused(&mut findings, &said, &[403], "403, with an open policy too");
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::Private).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    for name in ["metadata.google.internal", "metadata.goog"] {
        findings.expect(!world.names.was_asked(name), "their names are not looked up", name);
    }
    Ok(findings.seen())
}

/// Other ways to write 127.0.0.1, and other addresses that mean it.
pub(super) async fn spellings(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::with(Wish { opens_service: control, ..Wish::default() }).await?;
    if control {
        return opened(&stage, &world).await;
    }
    let sandbox = served(&stage, &world, open()).await?;
    let port = world.service.address().port();
    let hosts = [
        "127.0.0.1",
        "127.0.0.1.",
        "0x7f.1",
        "0x7f000001",
        "0x7F.0x0.0x0.0x1",
        "2130706433",
        "0177.0.0.1",
        "0177.1",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "127.000.000.001",
        "0.0.0.0",
        "0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1%lo]",
        "[fe80::1%25lo]",
        "[::1%lo]",
        "::1",
        "127.0.0.1%00",
        "127.0.0.1%2e",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "LOCALHOST",
        "localhost.",
        "localhost",
        "user@127.0.0.1",
        "[127.0.0.1]",
    ];
    let scripts: Vec<Script> = hosts.iter().flat_map(|host| both_ways(host, port)).collect();
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    // Names that are no numbers are looked up, and the resolver does not know them.
    refused(&mut findings, &said, &[400, 403, 502], "refused in every spelling");
    let reached = world.service.record().total();
    findings.expect(reached == 0, "the host's service heard nothing", reached);
    let private = said.iter().filter(|said| said.reason() == "private").count();
    let malformed = said.iter().filter(|said| said.reason() == "malformed").count();
    for (many, reason) in [(private, Reason::Private), (malformed, Reason::Malformed)] {
        let rows = world.denied(&sandbox, call, many, reason).await;
        findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    }
    findings.held(format!("{malformed} have no reading, {private} are seen through"));
    Ok(findings.seen())
}

/// Ports that no rule names.
pub(super) async fn ports(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let mut wish = Wish { opens_service: control, ..Wish::default() };
    wish.names.push(("ported.test", addresses(&["127.0.0.1"])));
    let world = World::with(wish).await?;
    let port = world.service.address().port();
    let mut policy = allow(&["allowed.test"])?;
    if control {
        let rule = Rule { ports: vec![port], ..Rule::of("ported.test".parse()?) };
        policy = Policy { reach: Reach::Allow(vec![rule]), ..Policy::default() };
    }
    let sandbox = served(&stage, &world, policy).await?;
    if control {
        let (_, said) = stage.say(&sandbox, &both_ways("ported.test", port)).await?;
        let reached = said[0].has("hello") && said[1].status() == 200;
        return Ok(works(reached, "a port that a rule lists is reached", &said));
    }
    let list = [22, 25, 53, 81, 444, 2375, 3128, 5432, 6379, 8080, 65535];
    let scripts: Vec<Script> =
        list.iter().flat_map(|port| both_ways("allowed.test", *port)).collect();
    let (call, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    refused(&mut findings, &said, &[403], "80 and 443 unless listed");
    let rows = world.denied(&sandbox, call, scripts.len(), Reason::Port).await;
    findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
    let odd = ["0", "65536", "443x", "+80", "0x50", "080", " 80", ""].map(|port| {
        Script::gateway(format!("port {port:?}")).tunnel(&format!("allowed.test:{port}")).rest(0.1)
    });
    let (_, said) = stage.say(&sandbox, &odd).await?;
    refused(&mut findings, &said, &[400, 403], "a port has one spelling");
    findings.expect(world.names.queries().is_empty(), "nothing is looked up for it", "a name was");
    Ok(findings.seen())
}

/// The gateway itself, the host's services, by names that lead there and by the
/// host's own address, with a policy that allows all of them.
pub(super) async fn host(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let mut wish = Wish { opens_service: control, ..Wish::default() };
    let own = own_address()?;
    wish.names.push(("inner.test", addresses(&["127.0.0.1"])));
    wish.names.push(("own.test", addresses(&[&own.to_string()])));
    let world = World::with(wish).await?;
    if control {
        return opened(&stage, &world).await;
    }
    let outer = Hostile::start((own, 0).into(), Security::Plain, Vec::new()).await?;
    let (inner, outer_port) = (world.service.address().port(), outer.address().port());
    // Another sandbox, whose listener is at the same address in its own network.
    let other = served(&stage, &world, open()).await?;
    let mut findings = Findings::default();
    let listed = ["inner.test", "own.test", "127.0.0.1", &own.to_string()].map(|host| {
        let rule = host.parse().map(Rule::of);
        rule.map(|rule| Rule { ports: vec![inner, outer_port, 3128, 53], ..rule })
    });
    let listed: Result<Vec<Rule>, _> = listed.into_iter().collect();
    let listed = Policy { reach: Reach::Allow(listed?), ..Policy::default() };
    for (name, policy) in [("open", open()), ("listed", listed)] {
        let sandbox = served(&stage, &world, policy).await?;
        let mut scripts = Vec::new();
        for (host, port) in [
            ("127.0.0.1", inner),
            ("inner.test", inner),
            (&*own.to_string(), outer_port),
            ("own.test", outer_port),
            ("127.0.0.1", world.names.address().port()),
        ] {
            scripts.extend(both_ways(host, port));
        }
        scripts.push(Script::gateway("itself").tunnel("127.0.0.1:3128").rest(0.2));
        scripts.push(Script::gateway("by name").tunnel("inner.test:3128").rest(0.2));
        let (call, said) = stage.say(&sandbox, &scripts).await?;
        refused(&mut findings, &said, &[403], &format!("403, although the policy is {name}"));
        let is_ours = |said: &&Said| said.reason() == "private";
        let private = said.iter().filter(is_ours).count();
        let rows = world.denied(&sandbox, call, private, Reason::Private).await;
        findings.expect(rows.is_ok(), "each is written down", rows.err().unwrap_or_default());
        let itself = [
            Script::gateway("its name").tunnel("gateway.belljar.internal:443").rest(0.2),
            Script::gateway("below it").ask(get("admin.belljar.internal", "/")),
            Script::gateway("admin").ask("GET /admin HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
            Script::gateway("metrics").ask("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
            Script::gateway("mint").ask("POST /mint HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        ];
        let (_, said) = stage.say(&sandbox, &itself).await?;
        refused(&mut findings, &said, &[401, 403, 404], "the gateway serves no desk inside");
    }
    let total = world.service.record().total() + outer.record().total();
    findings.expect(total == 0, "the host's services heard nothing", total);
    findings.expect(world.rows(other.id()).is_empty(), "nor another sandbox's listener", "it did");
    Ok(findings.seen())
}

/// An address of this host that is not loopback; loopback where there is none.
fn own_address() -> anyhow::Result<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // Nothing is sent: the kernel only chooses an address.
    let chosen = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    Ok(chosen.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip()))
}
