//! SYS: what proc, sys, devices and names give away or let be changed.

use anyhow::ensure;
use belljar_domain::{Owners, Spec, User};
use belljar_node::Command;
use belljar_node::Defence::{
    Landlock, MinimalDev, NetNamespace, NeutralNames, NoDev, ProcHiding, ReadOnlyProc, Rlimits,
    Seccomp, UidSplit,
};

use crate::attack::{Act, Attack, Control, Payload, Seen, payload, verdict};
use crate::harness::smuggled::{PLACES, ROOTS_OWN};
use crate::harness::stage::Stage;

pub(crate) fn attacks() -> Vec<Attack> {
    let one = |id, payload: Payload, control| Attack::new(id, Act::Payload(payload), control);
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    vec![
        one("SYS-01", payload("sys/sys_01.c"), Control::Without(&[Rlimits])),
        // Only the sandbox's root owns sysctls, those of its own namespaces.
        one(
            "SYS-02",
            payload("sys/sys_02.c"),
            Control::Own(|stage| {
                Box::pin(async move {
                    let root = payload("sys/sys_02.c").call(|call| call.user = User::Root);
                    root.run(&stage.without(&[ProcHiding, ReadOnlyProc, Landlock])).await
                })
            }),
        ),
        one("SYS-03", payload("sys/sys_03.c"), Control::Without(&[ProcHiding])),
        one("SYS-04", payload("sys/sys_04.c"), Control::Without(&[ProcHiding])),
        one(
            "SYS-05",
            payload("sys/sys_05.c").args_from(forbidden),
            Control::Each(&[&[ProcHiding], &[ProcHiding, UidSplit, Landlock]]),
        ),
        driven("SYS-06", |stage| Box::pin(names(stage)), Control::Without(&[NeutralNames])),
        one(
            "SYS-07",
            payload("sys/sys_07.c").args_from(|_| machine()),
            Control::Without(&[ProcHiding]),
        ),
        driven(
            "SYS-08",
            |stage| Box::pin(devices(stage)),
            Control::Each(&[&[Seccomp, Landlock], &[NoDev]]),
        ),
        one("SYS-09", payload("sys/sys_09.c"), Control::Without(&[MinimalDev])),
        one(
            "SYS-10",
            payload("sys/sys_10.c").args_from(sockets),
            Control::Without(&[NetNamespace, Landlock]),
        ),
        one(
            "SYS-11",
            payload("sys/sys_11.c").args_from(|_| vec![processors().to_string()]),
            // The kernel wants capabilities for the rest; only the OOM score is
            // ours to guard.
            Control::Without(&[Landlock, ReadOnlyProc]),
        ),
        one(
            "SYS-12",
            payload("sys/sys_12.c"),
            // Root of the sandbox may become what it already is.
            Control::Own(|stage| {
                Box::pin(async move {
                    payload("sys/sys_12.c").call(|call| call.user = User::Root).run(&stage).await
                })
            }),
        ),
        one("SYS-13", payload("sys/sys_13.c"), Control::Without(&[Seccomp])),
        driven(
            "SYS-14",
            |stage| Box::pin(two_sandboxes(stage)),
            Control::Own(|stage| Box::pin(one_sandbox(stage))),
        ),
        one("SYS-15", payload("sys/sys_15.c"), Control::Each(&[&[ProcHiding], &[NetNamespace]])),
        one(
            "SYS-16",
            payload("sys/sys_16.c"),
            Control::Because("a documented residue: nothing of ours stands in the way of timing"),
        ),
        one(
            "SYS-17",
            payload("sys/sys_17.c").args_from(datagrams),
            Control::Without(&[NetNamespace, Landlock]),
        ),
    ]
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Texts that only the host knows. Secrets themselves are not given away: a
/// process can always read its own arguments.
fn forbidden(stage: &Stage) -> Vec<String> {
    vec![stage.engines.state().display().to_string(), "CANARY_PROVIDER_KEY".to_owned()]
}

fn machine() -> Vec<String> {
    let uptime = read("/proc/uptime");
    let seconds = uptime.split('.').next().unwrap_or("0").to_owned();
    let mut texts = vec![read("/proc/sys/kernel/random/boot_id"), seconds];
    texts.extend(host_figures());
    texts
}

/// What the host's own `/proc` says of its memory, processor and time of boot.
fn host_figures() -> Vec<String> {
    let line = |path: &str, key: &str| {
        let text = read(path);
        let found = text.lines().find_map(|line| line.strip_prefix(key));
        found.unwrap_or("").trim_matches([' ', '\t', ':']).to_owned()
    };
    let memory = line("/proc/meminfo", "MemTotal");
    vec![memory, line("/proc/cpuinfo", "model name"), line("/proc/stat", "btime")]
}

fn sockets(stage: &Stage) -> Vec<String> {
    let canaries = stage.canaries();
    let mut args = Vec::new();
    if stage.is_control() {
        args.push("only".to_owned());
    }
    args.push(canaries.socket().display().to_string());
    args.push(format!("@{}", canaries.abstract_name()));
    args
}

fn datagrams(stage: &Stage) -> Vec<String> {
    let canaries = stage.canaries();
    let path = canaries.datagram_socket().display().to_string();
    vec![path, format!("@{}", canaries.abstract_datagram_name())]
}

/// Looks for the sandbox's id and for names of the host.
async fn names(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let layer = stage.root.layers[0].display().to_string();
    let id = sandbox.id().to_string();
    let hostname = read("/proc/sys/kernel/hostname");
    let state = stage.engines.state().display().to_string();
    let args = [&*id, &*layer, &*state, &*hostname];
    let ran = stage.run(&sandbox, "sys/sys_06.c", &args).await?;
    // The namespaces must not be the host's.
    let inside = ran.after("NOTE namespaces:").join(" ");
    ensure!(!inside.is_empty(), "no namespaces: {}", ran.ending());
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let host = std::fs::read_link(format!("/proc/self/ns/{name}"))?;
        let host = host.to_string_lossy().into_owned();
        let number = host.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(']');
        let shared = inside.contains(number);
        ensure!(!shared || stage.is_control(), "the {name} namespace is the host's: {inside}");
    }
    verdict(&ran)
}

/// Device nodes that an image brought along.
async fn devices(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|spec| stage.smuggled.add_to(spec)).await?;
    let nodes = PLACES.map(|place| format!("{place}/node"));
    verdict(&stage.run(&sandbox, "sys/sys_08.c", &nodes).await?)
}

/// Two sandboxes at once: other ids on the host, and no way to each other.
async fn two_sandboxes(stage: Stage) -> anyhow::Result<Seen> {
    let first = stage.sandbox(|_| {}).await?;
    let second = stage.sandbox(|_| {}).await?;
    let leaked = [first.pid().to_string(), stage.canaries().pid().to_string()];
    let in_first = stage.run(&first, "sys/sys_14.c", &[second.pid().to_string()]).await?;
    let in_second = stage.run(&second, "sys/sys_14.c", &leaked).await?;
    let ids = |ran: &crate::harness::stage::Ran| ran.after("NOTE /proc/self/uid_map:").join(" ");
    ensure!(!ids(&in_first).is_empty(), "no ids: {}", in_first.ending());
    if ids(&in_first) == ids(&in_second) {
        return Ok(Seen::Breach(format!("two sandboxes share ids: {}", ids(&in_first))));
    }
    Ok(match (verdict(&in_first)?, roots_own(&stage, PLACES[0]).await?) {
        (Seen::Held(_), Seen::Held(text)) => match verdict(&in_second)? {
            Seen::Held(second) => Seen::Held(format!("{second}; {text}")),
            breach => breach,
        },
        (Seen::Held(_), breach) | (breach, _) => breach,
    })
}

/// A file that the host's root alone may read, below a directory that is shown inside: root
/// of a sandbox is another user. What is in a layer belongs to the sandbox's root.
async fn roots_own(stage: &Stage, place: &str) -> anyhow::Result<Seen> {
    let add = |spec: &mut Spec| stage.smuggled.add_owned_to(spec, Owners::Host);
    let sandbox = stage.sandbox(add).await?;
    let mut read = Command::new(["/bin/cat", &format!("{place}/secret")]);
    read.user = User::Root;
    let ran = stage.exec(&sandbox, &read).await?;
    if ran.text().contains(ROOTS_OWN) {
        return Ok(Seen::Breach(format!("root inside reads {place}/secret")));
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(said.contains("Permission denied"), "it was not tried: {}", ran.ending());
    Ok(Seen::Held("a file of the host's root alone is closed to root inside".to_owned()))
}

/// The same attack on a process that is in reach: of the same sandbox and user,
/// and with nothing between two calls.
async fn one_sandbox(stage: Stage) -> anyhow::Result<Seen> {
    let stage = stage.without(&[Landlock]);
    let sandbox = stage.sandbox(|_| {}).await?;
    let victim = Command::shell("echo ready $$; exec sleep 30");
    let mut victim = stage.start(&sandbox, &victim).await?;
    let ready = victim.until("ready ").await?;
    let pid = ready.trim_start_matches("ready ").trim();
    let ran = stage.run(&sandbox, "sys/sys_14.c", &[pid]).await?;
    victim.call.kill();
    victim.finish().await?;
    // The same file in a layer, whose ids are mapped.
    match roots_own(&stage, PLACES[1]).await? {
        Seen::Breach(_) => verdict(&ran),
        other => Ok(other),
    }
}
