//! OCI: the runtime that makes the container, and images that attack it.

mod images;
mod inside;
mod runtimes;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use belljar_domain::{Tier, User};
use belljar_node::Command;
use belljar_testkit::Processes;

use crate::attack::{Act, Attack, Control, Seen, verdict};
use crate::harness::processes;
use crate::harness::stage::{Ran, Stage};

pub(crate) fn attacks() -> Vec<Attack> {
    let driven = |id, act, control| Attack::new(id, Act::Driven(act), control);
    vec![
        driven(
            "OCI-01",
            |stage| Box::pin(runtime_file(stage)),
            Control::Own(|stage| Box::pin(file_in_reach(stage))),
        ),
        driven(
            "OCI-02",
            |stage| Box::pin(descriptors(stage, false)),
            Control::Own(|stage| Box::pin(descriptors(stage, true))),
        ),
        driven(
            "OCI-03",
            |stage| Box::pin(images::null_is_a_link(stage)),
            Control::Own(|stage| Box::pin(images::detected(stage))),
        ),
        driven(
            "OCI-04",
            |stage| Box::pin(images::terminals_are_links(stage)),
            Control::Own(|stage| Box::pin(images::detected(stage))),
        ),
        driven(
            "OCI-05",
            |stage| Box::pin(images::procfs_is_a_link(stage)),
            Control::Own(|stage| Box::pin(images::detected(stage))),
        ),
        driven(
            "OCI-06",
            |stage| Box::pin(images::dev_is_a_link(stage)),
            Control::Own(|stage| Box::pin(images::detected(stage))),
        ),
        driven(
            "OCI-07",
            |stage| Box::pin(images::targets_are_swapped(stage)),
            Control::Own(|stage| Box::pin(images::swaps_are_met(stage))),
        ),
        driven(
            "OCI-08",
            |stage| Box::pin(runtimes::bundle(stage)),
            Control::Own(|stage| Box::pin(runtimes::other_bundle(stage))),
        ),
        driven(
            "OCI-09",
            |stage| Box::pin(environment(stage)),
            Control::Own(|stage| Box::pin(seen_environment(stage))),
        ),
        driven(
            "OCI-10",
            |stage| Box::pin(inside::joining(stage, false)),
            Control::Own(|stage| Box::pin(inside::joining(stage, true))),
        ),
        driven(
            "OCI-11",
            |stage| Box::pin(inside::libraries(stage, false)),
            Control::Own(|stage| Box::pin(inside::libraries(stage, true))),
        ),
        driven(
            "OCI-12",
            |stage| Box::pin(release_agent(stage)),
            Control::Because(
                "it takes rights over the host's own cgroups, which nothing in the engine can give",
            ),
        ),
        driven(
            "OCI-13",
            |stage| Box::pin(inside::flags(stage)),
            Control::Own(|stage| Box::pin(inside::sharing_flags(stage))),
        ),
        driven(
            "OCI-14",
            |stage| Box::pin(runtimes::unusable(stage)),
            Control::Own(|stage| Box::pin(runtimes::usable(stage))),
        ),
        driven(
            "OCI-16",
            |stage| Box::pin(inside::sockets(stage, false)),
            Control::Own(|stage| Box::pin(inside::sockets(stage, true))),
        ),
        driven(
            "OCI-17",
            |stage| Box::pin(inside::groups(stage)),
            Control::Own(|stage| Box::pin(inside::groups_in_reach(stage))),
        ),
    ]
}

/// The runtime that makes this stage's sandboxes.
pub(crate) async fn program(stage: &Stage) -> anyhow::Result<PathBuf> {
    let Tier::Oci(runtime) = stage.tier else { anyhow::bail!("no runtime makes {}", stage.tier) };
    Ok(stage.node.engine().runtime(runtime).await?.program)
}

/// Writes to whatever executable a process can name, itself executed by way of
/// `#!/proc/self/exe`; the runtime and the guest must be as they were.
async fn runtime_file(stage: Stage) -> anyhow::Result<Seen> {
    let runtime = program(&stage).await?;
    let before = std::fs::read(&runtime)?;
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut said = Vec::new();
    for user in [User::User, User::Root] {
        let mut command = stage.place(&sandbox, "oci/oci_01.py", &[""; 0]).await?;
        command.user = user;
        said.push(verdict(&stage.exec(&sandbox, &command).await?)?);
    }
    stage.destroy(sandbox).await?;
    ensure!(std::fs::read(&runtime)? == before, "{} was written to", runtime.display());
    // The next one is made by the same programs.
    let next = stage.sandbox(|_| {}).await?;
    let ran = stage.exec(&next, &Command::new(["/bin/echo", "alive"])).await?;
    ensure!(ran.text() == "alive\n", "the next sandbox: {}", ran.ending());
    Ok(worst(said))
}

/// The same act where a file that runs can be written to.
async fn file_in_reach(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    verdict(&stage.run(&sandbox, "oci/oci_01.py", &["own"]).await?)
}

/// Descriptors that were left open, and directories named by them.
async fn descriptors(stage: Stage, leak: bool) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let args: &[&str] = if leak { &["leak"] } else { &[] };
    let mut said = vec![verdict(&stage.run(&sandbox, "oci/oci_02.py", args).await?)?];
    for number in (0..40).map(|n| format!("/proc/self/fd/{n}")).chain(["/proc/1/cwd".to_owned()]) {
        let mut command = stage.place(&sandbox, "oci/oci_02.py", &["cwd"]).await?;
        command.cwd = Some(number.clone().into_bytes());
        // Refused, or at home in the sandbox's own root.
        if let Ok(call) = sandbox.start(&command).await {
            drop(call);
            let ran = stage.exec(&sandbox, &command).await?;
            said.push(verdict(&ran).with_context(|| number.clone())?);
        }
    }
    Ok(worst(said))
}

const HOSTILE: [(&str, &str); 6] = [
    ("LD_PRELOAD", "/tmp/oci09-marker.so"),
    ("BASH_ENV", "/tmp/oci09-marker"),
    ("GCONV_PATH", "/tmp/oci09-marker"),
    ("NODE_OPTIONS", "--require=/tmp/oci09-marker"),
    ("PATH", "/tmp/oci09-marker:/usr/bin:/bin"),
    ("IFS", "oci09-marker"),
];

const MARKER: &str = "oci09-marker";

fn hostile(script: &str) -> Command {
    let pair = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    Command { env: HOSTILE.map(pair).into(), ..Command::shell(script) }
}

fn below(pid: u32) -> Vec<u32> {
    Processes::now().below(pid).iter().map(|process| process.pid).collect()
}

/// A call's variables are that call's, and no process's of the host's.
async fn environment(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut call = stage.start(&sandbox, &hostile("echo ready $PATH; sleep 300")).await?;
    let ready = call.until("ready ").await?;
    ensure!(ready.contains(MARKER), "the call does not have its own variables: {ready}");
    // The code's processes are below the guest; all others are the host's. The guest's are
    // listed second: the shell may fork `sleep` at any moment.
    let marked: Vec<u32> = processes::with_environment(&stage.engines, MARKER);
    let inside = if stage.tier.shares_kernel() { below(sandbox.pid()) } else { Vec::new() };
    let outside: Vec<_> = marked.iter().filter(|pid| !inside.contains(pid)).collect();
    let another = stage.exec(&sandbox, &Command::shell("env")).await?;
    call.call.kill();
    call.finish().await?;
    if !outside.is_empty() || another.text().contains(MARKER) {
        return Ok(Seen::Breach(format!("processes {outside:?} have a call's variables")));
    }
    Ok(Seen::Held(format!("{} processes have them, all of the call", marked.len())))
}

/// The search finds what it looks for.
async fn seen_environment(stage: Stage) -> anyhow::Result<Seen> {
    let mut child = std::process::Command::new("sleep").arg("5").env("X", MARKER).spawn()?;
    let found = processes::with_environment(&stage.engines, MARKER).contains(&child.id());
    child.kill()?;
    child.wait()?;
    Ok(if found {
        Seen::Breach("a process of the host with such a variable is found".to_owned())
    } else {
        Seen::Held("it is not found".to_owned())
    })
}

/// Takes over a hierarchy of cgroups, whose agent the host would run.
async fn release_agent(stage: Stage) -> anyhow::Result<Seen> {
    let agents = || -> Vec<(PathBuf, String)> {
        let files = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let files = files.map(|entry| entry.path().join("release_agent"));
        files.filter_map(|file| Some((file.clone(), std::fs::read_to_string(file).ok()?))).collect()
    };
    let before = agents();
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut said = Vec::new();
    for user in [User::User, User::Root] {
        let mut command = stage.place(&sandbox, "oci/oci_12.py", &[""; 0]).await?;
        command.user = user;
        said.push(verdict(&stage.exec(&sandbox, &command).await?)?);
    }
    ensure!(agents() == before, "an agent of the host was changed: {:?}", agents());
    Ok(worst(said))
}

/// A breach if there is one, else the last.
fn worst(said: Vec<Seen>) -> Seen {
    let breach = said.iter().find(|seen| matches!(seen, Seen::Breach(_))).cloned();
    breach.or_else(|| said.last().cloned()).unwrap_or(Seen::Held("nothing was tried".to_owned()))
}

/// What a call must end with to be believed.
pub(crate) fn ended_well(ran: &Ran) -> anyhow::Result<()> {
    ensure!(ran.end.exit_code == Some(0), "{}", ran.ending());
    Ok(())
}
