//! Starting a process.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_domain::rows::CallKind;
use belljar_domain::{Attribution, User};
use belljar_node::{Call, CallError, Command, Input, Leftovers, PtySize};
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use super::{Following, Process, Processes, drain};
use crate::attribution::{BegunCall, EndedCall};
use crate::create::check_env;
use crate::events::EventKind;
use crate::observe::Watched;
use crate::problem::{Kind, Problem};
use crate::sandbox::{Live, Sandbox};
use crate::start::Actions;

/// A process that somebody wants.
#[derive(Debug, Clone, Default)]
pub struct StartProcess {
    pub cmd: String,
    pub args: Vec<String>,
    /// Added to the template's and the sandbox's own.
    pub envs: BTreeMap<String, String>,
    /// What a surface says about the sandbox, unless anyone says otherwise.
    pub surroundings: BTreeMap<String, String>,
    /// `None`: the template's directory, or else the user's home.
    pub cwd: Option<String>,
    pub user: User,
    pub pty: Option<PtySize>,
    /// Whether it gets input; otherwise its standard input is empty.
    pub stdin: bool,
    pub tag: Option<String>,
    /// When it is killed; `None`: it may run as long as its sandbox.
    pub timeout: Option<Duration>,
    /// CPU time after which it is killed, if its sandbox does not allow less.
    pub cpu: Option<Duration>,
    pub leaving: Leaving,
    /// The call of a run that starts it.
    pub attribution: Option<Attribution>,
}

/// What becomes of processes that outlive the one that was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Leaving {
    /// They stay until their sandbox ends.
    #[default]
    Stay,
    /// They end with it.
    End,
}

/// Longer than any sandbox lives.
const FOR_EVER: Duration = Duration::from_secs(366 * 86_400);

/// Orders that may wait for one process.
const ORDERS: usize = 16;

impl Actions {
    /// Starts a process and follows it from its first byte on.
    pub async fn start_process(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Arc<Live>,
        wish: StartProcess,
    ) -> Result<Following, Problem> {
        check_env(&wish.envs)?;
        if wish.cmd.is_empty() {
            return Err(Problem::invalid("the command is empty"));
        }
        let asked = wish.cwd.as_deref().or(sandbox.template().workdir()).unwrap_or_default();
        let cwd = live.files(wish.user).resolve(asked)?;
        let command = command(sandbox, &wish, &cwd);
        let watched = Watched::process(sandbox);
        // On a task of its own: a caller who goes away in the middle must not
        // leave a process behind that nobody knows of.
        let (actions, sandbox, live) = (self.clone(), sandbox.clone(), live.clone());
        let begun = sandbox.rows.attributor().begin(CallKind::Process, wish.attribution.clone());
        let started = tokio::spawn(async move {
            let call = live.machine.start(&command).await;
            let call = call.map_err(|error| match error {
                CallError::Group(_) => sandbox.failed(&live, "start the process", &error),
                error => not_started(&wish, &cwd, &error),
            })?;
            actions.look_after_process(&sandbox, &live, wish, call, (watched, begun))
        });
        started.await.map_err(|error| Problem::internal("start the process", &error))?
    }

    fn look_after_process(
        &self,
        sandbox: &Arc<Sandbox>,
        live: &Arc<Live>,
        wish: StartProcess,
        call: Call,
        (watched, begun): (Watched, BegunCall),
    ) -> Result<Following, Problem> {
        watched.begun(live, call.number(), 1);
        let span = watched.span();
        let (orders, inbox) = mpsc::channel(ORDERS);
        let takes_input = wish.stdin || wish.pty.is_some();
        let process = Arc::new(Process {
            pid: call.pid(),
            number: call.number(),
            cmd: wish.cmd,
            args: wish.args,
            envs: wish.envs,
            cwd: wish.cwd,
            tag: wish.tag,
            terminal: wish.pty.is_some(),
            stdin: Mutex::new(takes_input.then(|| call.writer())),
            orders,
            followers: Mutex::new(Some(Vec::new())),
            ending: watch::Sender::new(None),
        });
        let following = process.follow()?;
        live.processes.add(&process);
        let detail = |ending: &str| Some(format!("pid {}: {ending}", process.pid));
        span.in_scope(|| self.tell(sandbox, EventKind::ProcessStarted, detail(&process.cmd)));
        let (actions, sandbox) = (self.clone(), sandbox.clone());
        let (table, process) = (live.processes.table.clone(), process.clone());
        // A process does not keep its sandbox alive.
        let live = Arc::downgrade(live);
        let looked_after = async move {
            let ending = drain::drain(&process, call, inbox).await;
            watched.ended(ending.reason, &ending.end.usage);
            // Before the caller hears of the end, who may end the sandbox then.
            let ended = EndedCall {
                number: process.number,
                is_ok: ending.end.exit_code == Some(0),
                reason: ending.reason,
                exit_code: ending.end.exit_code,
                usage: &ending.end.usage,
            };
            let live = live.upgrade();
            sandbox.rows.attributor().end(&sandbox, live.as_deref(), &begun, ended).await;
            drop(live);
            let detail = format!("pid {}: {}", process.pid, ending.status);
            process.ending.send_replace(Some(ending));
            Processes::retire(&table, &process);
            // Followers hear of the end when nobody can write to them any more.
            super::lock(&process.followers).take();
            super::lock(&process.stdin).take();
            actions.tell(&sandbox, EventKind::ProcessEnded, Some(detail));
        };
        tokio::spawn(looked_after.instrument(span));
        Ok(following)
    }
}

fn command(sandbox: &Sandbox, wish: &StartProcess, cwd: &str) -> Command {
    let mut env = wish.surroundings.clone();
    env.extend(sandbox.template().template.env.clone());
    env.extend(sandbox.env());
    env.extend(wish.envs.clone());
    let argv = std::iter::once(&wish.cmd).chain(&wish.args);
    Command {
        env: env.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        cwd: Some(cwd.as_bytes().to_vec()),
        user: wish.user,
        input: if wish.stdin || wish.pty.is_some() { Input::Stream } else { Input::Empty },
        pty: wish.pty,
        wall: Some(wish.timeout.unwrap_or(FOR_EVER)),
        cpu: wish.cpu,
        output_bytes: match wish.leaving {
            // Nothing of it is kept; who follows it holds it up.
            Leaving::Stay => Some(u64::MAX),
            // Somebody waits for all of it, as for a cell's.
            Leaving::End => None,
        },
        leftovers: match wish.leaving {
            Leaving::Stay => Leftovers::Keep,
            Leaving::End => Leftovers::Kill,
        },
        tag: match &wish.attribution {
            Some(attribution) => attribution.into(),
            None => belljar_node::Tag { name: wish.tag.clone(), ..belljar_node::Tag::default() },
        },
        ..Command::new(argv.map(|word| word.as_bytes()))
    }
}

fn not_started(wish: &StartProcess, cwd: &str, error: &CallError) -> Problem {
    match error {
        CallError::Link(_) => Problem::gone(),
        CallError::Group(_) => Problem::internal("start the process", error),
        CallError::Refused { doing, source } => {
            let missing = matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            if doing.contains("working directory") && missing {
                return Problem::new(
                    Kind::Invalid,
                    "no_such_cwd",
                    format!("cwd '{cwd}' does not exist"),
                );
            }
            let line = std::iter::once(&wish.cmd).chain(&wish.args);
            let line = line.map(String::as_str).collect::<Vec<_>>().join(" ");
            Problem::invalid(format!("error starting process '{line}': cannot {doing}: {source}"))
        }
    }
}
