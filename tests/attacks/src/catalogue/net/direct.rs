//! Around the gateway instead of through it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use belljar_domain::Tier;
use belljar_domain::network::{Policy, Reason};
use belljar_node::{Command, Defence, Leftovers};

use super::{directly, served, works};
use crate::attack::{Seen, verdict};
use crate::harness::files::HANG_LIMIT;
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::say::{Script, get};
use crate::harness::stage::Stage;
use crate::harness::world::{World, allow, open};

/// Every protocol, to what listens on the host, to private and public places.
pub(super) async fn sockets(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let (web, dns) = (world.at(80), world.names.address());
    let mut args = vec![web.to_string(), dns.port().to_string()];
    let ran = if control {
        let off: &[Defence] = match stage.tier {
            Tier::Process => &[Defence::Seccomp, Defence::Landlock],
            _ => &[Defence::NetNamespace],
        };
        let stage = stage.without(off);
        let sandbox = stage.sandbox(|_| {}).await?;
        stage.run(&sandbox, "net/net_01.py", &args).await?
    } else {
        // Nobody's addresses: nothing listens there that could be disturbed.
        args.extend(["192.0.2.1:443", "10.255.255.1:80", "198.51.100.7:53"].map(str::to_owned));
        // One without any way out, and one whose gateway allows everything.
        let bare = stage.sandbox(|_| {}).await?;
        let first = verdict(&stage.run(&bare, "net/net_01.py", &args).await?)?;
        if matches!(first, Seen::Breach(_)) || stage.tier == Tier::Process {
            // That tier has no gateway.
            return Ok(first);
        }
        let sandbox = served(&stage, &world, open()).await?;
        stage.run(&sandbox, "net/net_01.py", &args).await?
    };
    let mut findings = Findings::default();
    findings.verdict(&ran)?;
    let asked = world.names.queries().len() as u64 + world.web.record().total();
    findings.expect(asked == 0, "no packet arrives", format!("{asked} did"));
    Ok(findings.seen())
}

/// All ports of loopback, neighbours, multicast, tables of the kernel.
pub(super) async fn scan(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let port = world.service.address().port();
    if control {
        let stage = stage.without(&[Defence::NetNamespace]);
        let sandbox = stage.sandbox(|_| {}).await?;
        let args = [port.to_string(), (u32::from(port) + 1).to_string()];
        return verdict(&stage.run(&sandbox, "net/net_18.py", &args).await?);
    }
    // Another sandbox that listens on everything it has.
    let other = served(&stage, &world, open()).await?;
    let listen = "import socket,time\ns=socket.create_server(('0.0.0.0',8080))\n\
                  print('ready',flush=True)\ntime.sleep(30)";
    let mut listening =
        stage.start(&other, &Command::new(["/usr/bin/python3", "-c", listen])).await?;
    listening.until("ready").await?;
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let mut command = stage.place(&sandbox, "net/net_18.py", &["1", "65536"]).await?;
    command.wall = Some(Duration::from_secs(40));
    let ran = stage.exec(&sandbox, &command).await?;
    listening.call.kill();
    listening.finish().await?;
    let mut findings = Findings::default();
    findings.verdict(&ran)?;
    let total = world.service.record().total();
    findings.expect(total == 0, "the host's service heard nothing", total);
    Ok(findings.seen())
}

/// A process of the sandbox passes on what another says.
pub(super) async fn relay(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let hosts: &[&str] = if control { &["denied.test"] } else { &["allowed.test"] };
    let sandbox = served(&stage, &world, allow(hosts)?).await?;
    let mut command = stage.place(&sandbox, "net/relay.py", &["4000"]).await?;
    command.leftovers = Leftovers::Keep;
    let started = stage.start(&sandbox, &command).await?;
    let number = started.call.number();
    let ran = started.finish().await?;
    ensure!(ran.text().contains("relaying"), "no relay: {}", ran.ending());
    let relay = std::net::SocketAddr::from(([127, 0, 0, 1], 4000));
    let scripts = [
        Script::to("plain", relay).ask(get("denied.test", "/hello")),
        Script::to("tunnel", relay).tunnel("denied.test:80").ask(get("denied.test", "/hello")),
    ];
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    if control {
        let reached = said.iter().all(|said| said.has("hello"));
        return Ok(works(reached, "an allowed host is reached through the relay", &said));
    }
    let mut findings = Findings::default();
    for said in &said {
        findings.expect(said.statuses() == [403], "refused as if asked directly", said.brief());
    }
    // The connection is the relay's, whoever spoke.
    let rows = world.denied(&sandbox, number, 2, Reason::NotAllowed).await;
    findings.expect(
        rows.is_ok(),
        "written down under the relay's call",
        rows.err().unwrap_or_default(),
    );
    findings.expect(!world.names.was_asked("denied.test"), "never looked up", "it was");
    Ok(findings.seen())
}

/// Without a gateway there is no way out, and with the next one there is again.
pub(super) async fn death(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let world = World::start().await?;
    let direct = [Script::to("direct", world.at(80)).ask(get("allowed.test", "/hello"))];
    if control {
        let pid = world.gateway.pid().unwrap_or(0);
        host::kill(pid)?;
        let said = directly(&stage, &direct).await?;
        return Ok(works(said[0].has("hello"), "on the host's network it is reached still", &said));
    }
    let sandbox = served(&stage, &world, allow(&["allowed.test"])?).await?;
    let ask = Script::gateway("proxy").ask(get("allowed.test", "/hello"));
    let (_, before) = stage.say(&sandbox, std::slice::from_ref(&ask)).await?;
    ensure!(before[0].has("hello"), "not served: {}", before[0].brief());
    let pid = world.gateway.pid().unwrap_or(0);
    // Everything is placed before, so that only the act is in the gap.
    let waiting =
        Script::gateway("open").send("GET http://allowed.test/hel").mark("open").rest(60.0);
    let mut running = stage.saying(&sandbox, &[waiting], false).await?;
    running.until("MARK open").await?;
    host::kill(pid)?;
    let begin = Instant::now();
    let (_, cut) = crate::harness::say::heard(running).await?;
    let mut findings = Findings::default();
    let cut = &cut[0];
    findings.in_time(begin.elapsed(), "at once");
    findings.expect(cut.closed && !cut.has("hello"), "what was open is cut", cut.brief());
    let (_, around) = stage.say(&sandbox, &direct).await?;
    findings.expect(!around[0].has("hello"), "there is no way around it", around[0].brief());
    let again = Instant::now();
    loop {
        let (_, said) = stage.say(&sandbox, std::slice::from_ref(&ask)).await?;
        if said[0].has("hello") {
            break;
        }
        ensure!(said[0].got.is_empty(), "something answered: {}", said[0].brief());
        ensure!(again.elapsed() < HANG_LIMIT, "it never came back");
    }
    findings.held(format!("served again after {} ms", begin.elapsed().as_millis()));
    let tight = sandbox.change_policy(Policy::default()).await;
    ensure!(tight.is_ok(), "the next gateway does not know the sandbox: {tight:?}");
    let (_, after) = stage.say(&sandbox, &[ask]).await?;
    findings.expect(after[0].status() == 403, "its policy can be changed again", after[0].brief());
    Ok(findings.seen())
}
