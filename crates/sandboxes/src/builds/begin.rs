//! The command that a template's sandboxes start with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_domain::{EndReason, User};
use belljar_node::{Call, Command, Event, Leftovers};
use belljar_template::Defaults;

use super::sandboxed;
use crate::logs::Level;
use crate::processes::StartProcess;
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// Between two questions whether it is ready.
const ASK: Duration = Duration::from_millis(250);
/// A command that cannot work fails at once.
const FIRST: Duration = Duration::from_millis(300);
/// No bound of its own: it ends with the sandbox.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// Under which tag the command is found among a sandbox's processes.
const TAG: &str = "startCmd";

impl Actions {
    /// Starts what the template of a new sandbox starts with, and waits until it
    /// is ready, or for as long as anyone would. A sandbox is handed out either
    /// way: its log says what went wrong.
    pub(crate) async fn begin(&self, sandbox: &Arc<Sandbox>) {
        let template = sandbox.template().template.clone();
        let defaults = &template.defaults;
        let (Some(start), Ok(live)) = (&defaults.start, sandbox.live()) else { return };
        let wish = StartProcess {
            cmd: "/bin/bash".to_owned(),
            args: ["-l", "-c", start].map(str::to_owned).into(),
            user: defaults.user,
            cwd: defaults.workdir.clone(),
            tag: Some(TAG.to_owned()),
            ..StartProcess::default()
        };
        let note = |message: String| sandbox.log.add(Level::Warn, &message, BTreeMap::new());
        if let Err(problem) = self.start_process(sandbox, &live, wish).await {
            return note(format!("the template's start command did not start: {problem}"));
        }
        let Some(ready) = &defaults.ready else { return };
        let mut env = template.env.clone();
        env.extend(sandbox.env());
        let patience = self.config().builds.ready;
        if !is_ready(&live.machine, ready, defaults, &env, patience).await {
            note(format!("the template was not ready after {patience:?}"));
        }
    }
}

/// Tries out how sandboxes begin; says what is wrong with it.
pub(super) async fn rehearse(
    machine: &belljar_node::Sandbox,
    defaults: &Defaults,
    env: &BTreeMap<String, String>,
    patience: Duration,
) -> Result<(), String> {
    let mut started = None;
    if let Some(start) = &defaults.start {
        let mut command = shell(start, defaults, env);
        command.wall = Some(LONG);
        command.leftovers = Leftovers::Keep;
        let call = machine.start(&command).await;
        started = Some(call.map_err(|error| format!("error running start command: {error}"))?);
    }
    let ready = async {
        match &defaults.ready {
            None if defaults.start.is_some() => {
                tokio::time::sleep(FIRST).await;
                true
            }
            None => true,
            Some(ready) => is_ready(machine, ready, defaults, env, patience).await,
        }
    };
    tokio::select! {
        ready = ready => match ready {
            true => Ok(()),
            false => Err(format!("ready command timed out after {patience:?}")),
        },
        why = failed(&mut started) => Err(format!("error running start command: {why}")),
    }
}

/// Waits until the command fails; for ever if it does not.
async fn failed(started: &mut Option<Call>) -> String {
    if let Some(call) = started {
        loop {
            match call.next().await {
                Event::End(end) if end.reason != EndReason::Done => return sandboxed::shown(&end),
                Event::End(_) => break,
                Event::Stdout(_) | Event::Stderr(_) => {}
            }
        }
    }
    std::future::pending().await
}

async fn is_ready(
    machine: &belljar_node::Sandbox,
    ready: &str,
    defaults: &Defaults,
    env: &BTreeMap<String, String>,
    patience: Duration,
) -> bool {
    let until = Instant::now() + patience;
    let port = port_of(ready);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ready = match port {
            Some(port) => {
                let dialled = tokio::time::timeout(left, machine.dial(port)).await;
                dialled.is_ok_and(|dialled| dialled.is_ok())
            }
            None => {
                let mut command = shell(ready, defaults, env);
                command.wall = Some(left.max(Duration::from_millis(1)));
                let answered = machine.execute(&command).await;
                answered.is_ok_and(|answered| answered.end.reason == EndReason::Done)
            }
        };
        if ready {
            return true;
        }
        if left <= ASK {
            return false;
        }
        tokio::time::sleep(ASK).await;
    }
}

/// The port that the SDKs' own command waits for. It asks the kernel for all
/// sockets, which code in a sandbox may not; here the port is simply tried.
fn port_of(ready: &str) -> Option<u16> {
    let port = ready.trim().strip_prefix("[ -n \"$(ss -Htuln sport = :")?;
    port.strip_suffix(")\" ]")?.parse().ok()
}

/// A line of shell as the template's user would type it.
fn shell(line: &str, defaults: &Defaults, env: &BTreeMap<String, String>) -> Command {
    command(line, defaults.user, defaults.workdir.as_deref(), env)
}

pub(super) fn command(
    line: &str,
    user: User,
    workdir: Option<&str>,
    env: &BTreeMap<String, String>,
) -> Command {
    let mut command = Command::new(["/bin/bash", "-l", "-c", line]);
    command.user = user;
    command.cwd = workdir.map(|directory| directory.as_bytes().to_vec());
    let pairs = env.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    command.env = pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdks_question_about_a_port_is_understood() {
        assert_eq!(port_of("[ -n \"$(ss -Htuln sport = :3000)\" ]"), Some(3000));
        for other in ["sleep 3", "[ -n \"$(ss -Htuln sport = :x)\" ]", "[ -f /x ]"] {
            assert_eq!(port_of(other), None, "{other}");
        }
    }
}
