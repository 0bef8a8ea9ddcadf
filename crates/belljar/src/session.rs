//! One sandbox for one command: made from the options, cleared away on every
//! way out.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::{End, EndReason, Limits, SecurityProfile, Spec, Tier, User};
use belljar_engine::Enforcement;
use belljar_node::{
    Checkpoint, Command, Context, Language, NetworkNeed, NetworkSigns, Node, NodeError, Sandbox,
};
use belljar_template::{Lease, Template};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{self, Interpreters, Login};
use crate::config::Config;
use crate::network::{Network, Traffic, renew_tokens};
use crate::output::{Hint as _, Printer, hinted};
use crate::relay::{self, Sink};
use crate::templates::{chosen_tier, find_template};
use crate::{files, limits, warmth, weak};

/// The status after Ctrl-C, as shells show it.
const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) sandbox: Sandbox,
    pub(crate) template: Template,
    pub(crate) limits: Limits,
    pub(crate) tier: Tier,
    pub(crate) enforcement: Enforcement,
    /// The home directory of the code, inside.
    pub(crate) home: PathBuf,
    /// Its way out, if it has one.
    network: Option<Network>,
    _lease: Lease,
    node: Node,
}

/// Makes a sandbox, acts in it, and removes it, whether the act succeeds, fails
/// or is interrupted. Answers the exit status.
pub(crate) async fn within(
    options: &cli::Sandbox,
    defaults: Limits,
    config: &Config,
    printer: &Printer,
    act: impl AsyncFnOnce(&Session) -> anyhow::Result<u8>,
) -> anyhow::Result<u8> {
    Ok(within_traffic(options, defaults, config, printer, act).await?.0)
}

/// As [`within`]; answers also what went through the gateway, if there was one.
pub(crate) async fn within_traffic(
    options: &cli::Sandbox,
    defaults: Limits,
    config: &Config,
    printer: &Printer,
    act: impl AsyncFnOnce(&Session) -> anyhow::Result<u8>,
) -> anyhow::Result<(u8, Option<Traffic>)> {
    let mut interrupt = Interrupt::new()?;
    let session = tokio::select! {
        session = Box::pin(Session::open(options, defaults, config, printer)) => session?,
        () = interrupt.wait() => return Ok((INTERRUPTED, None)),
    };
    let acted = tokio::select! {
        status = act(&session) => status,
        () = interrupt.wait() => Ok(INTERRUPTED),
        never = renew_tokens(&session.sandbox), if session.network.is_some() => match never {},
    };
    tokio::select! {
        // What the code did is known; a failure here is a fact of its own.
        ended = session.end(printer) => {
            match acted {
                Ok(status) => ended.map(|traffic| (status, traffic)),
                Err(error) => Err(error),
            }
        }
        // Asked twice: the spawner clears away when we are gone.
        () = interrupt.wait() => Ok((INTERRUPTED, None)),
    }
}

impl Session {
    /// Removes the sandbox; then everything that it asked for is known.
    async fn end(self, printer: &Printer) -> anyhow::Result<Option<Traffic>> {
        let Self { sandbox, network, .. } = self;
        let ended = sandbox.destroy().await.context("cannot remove the sandbox");
        let traffic = match network {
            Some(network) => Some(network.close(printer).await?),
            None => None,
        };
        ended.map(|()| traffic)
    }

    async fn open(
        options: &cli::Sandbox,
        defaults: Limits,
        config: &Config,
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        if options.tier == Some(Tier::Process) {
            warn_of_process_tier(printer);
        }
        let asked = options.tier.unwrap_or(Tier::Jail);
        let template = find_template(&options.template, asked, config)?;
        let tier = chosen_tier(options.tier, &template);
        let lease = template.lease()?;
        let usual = defaults.clone();
        let limits = limits::from_options(options, template.limits.over(defaults));
        let (limits_of_spec, profile) = (limits.clone(), options.profile);
        let spec =
            Spec { limits: limits_of_spec, profile, ..Spec::new(tier, template.root.clone()) };
        let node = start_node(config).await?;
        let abi = node.engine().facts().landlock_abi;
        if tier == Tier::Process && abi < 6 {
            printer.always(format_args!(
                "WARNING: Landlock of this kernel (ABI {abi}) does not restrict signals: the code \
                 can signal other processes of its user. ABI 6 (Linux 6.12) does."
            ));
        }
        let enforcement = node.engine().enforcement();
        weak::check(node.engine(), &spec, &usual, options, printer)?;
        if options.interpreters == Interpreters::Warm && tier == Tier::Jail {
            node.warm_up(warmth::warmth(&template)?, None).await?;
        }
        let has_users = tier != Tier::Process && node.engine().facts().privileged;
        if options.user == Login::Root && !has_users {
            let error = anyhow::anyhow!("a sandbox has only one user here, who is not root");
            return Err(hinted(error, "run belljar as root, with a tier other than process"));
        }
        if options.profile == SecurityProfile::Full && !has_users {
            return Err(profile_needs_root(tier));
        }
        let sandbox = create(&node, &spec).await?;
        warn_of_forced_runtime(&node, tier, printer).await;
        let home = PathBuf::from(sandbox.home(User::User));
        let network = Network::open(&options.network, &sandbox, &template, config, printer).await?;
        Ok(Self {
            sandbox,
            template,
            limits,
            tier,
            enforcement,
            home,
            network,
            _lease: lease,
            node,
        })
    }

    /// A command with what the template and the options say about it.
    pub(crate) fn command<T: Into<Vec<u8>>>(
        &self,
        argv: impl IntoIterator<Item = T>,
        options: &cli::Sandbox,
    ) -> Command {
        let mut command = Command::new(argv);
        command.user = match options.user {
            Login::User => User::User,
            Login::Root => User::Root,
        };
        let env = self.environment(options).into_iter();
        command.env = env.map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
        let workdir = options.workdir.as_deref().map(|dir| self.inside(dir));
        command.cwd = workdir.map(|dir| dir.as_os_str().as_bytes().to_vec());
        command
    }

    /// The variables of the template, the network and the options; the last one wins.
    fn environment(&self, options: &cli::Sandbox) -> BTreeMap<String, String> {
        let ours = self.network.iter().flat_map(|network| &network.env).chain(&options.env);
        let ours = ours.map(|(name, value)| (name, value));
        let all = self.template.env.iter().chain(ours);
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Starts a context with the variables and the working directory of the options.
    pub(crate) async fn context(
        &self,
        language: Language,
        options: &cli::Sandbox,
    ) -> anyhow::Result<Context> {
        let mut wanted = warmth::context(&self.template, language)?;
        wanted.env = self.environment(options);
        let workdir = options.workdir.as_deref().map(|dir| self.inside(dir));
        wanted.cwd = workdir.map(|dir| dir.to_string_lossy().into_owned());
        Ok(self.sandbox.context(wanted).await?)
    }

    /// Forks a checkpoint of the sandbox. The fork has the same network access. Answers also the
    /// variables that its cells need for it.
    pub(crate) async fn fork(
        &self,
        checkpoint: &Checkpoint,
    ) -> anyhow::Result<(Sandbox, BTreeMap<String, String>)> {
        let fork = self.node.fork(checkpoint).await?;
        let mut variables = BTreeMap::new();
        if let Some(network) = &self.network {
            match network.connect(&fork).await {
                Ok(found) => variables.extend(found),
                Err(error) => {
                    fork.destroy().await?;
                    return Err(error);
                }
            }
        }
        Ok((fork, variables))
    }

    /// What to say of code that failed without a network and seems to have needed one.
    pub(crate) fn network_hint(&self, signs: &NetworkSigns) -> Option<&'static str> {
        if self.network.is_some() {
            return None;
        }
        Some(match signs.need()? {
            NetworkNeed::Packages => {
                "the sandbox has no network; --network packages lets pip, npm, cargo and apt reach \
                 their indexes"
            }
            NetworkNeed::Hosts => {
                "the sandbox has no network; --allow HOST allows a host, --network open all public \
                 addresses"
            }
        })
    }

    /// A path inside; what is not absolute starts at home.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        self.home.join(path)
    }

    /// Where the code may leave files.
    pub(crate) fn writable(&self) -> Vec<String> {
        match self.tier {
            Tier::Jail | Tier::Oci(_) | Tier::Microvm => {
                ["/home/user", "/tmp", "/var/tmp"].map(str::to_owned).into()
            }
            Tier::Process => {
                let work = self.home.parent().unwrap_or(&self.home);
                ["home", "tmp"].map(|name| work.join(name).display().to_string()).into()
            }
        }
    }

    /// Copies files in and runs what is to run before the code.
    pub(crate) async fn prepare(
        &self,
        options: &cli::Sandbox,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        for text in &options.copy_in {
            files::copy_in(self, text, printer).await?;
        }
        for script in &options.setup {
            let (end, signs) = self.set_up(script, options, printer).await?;
            if end.reason == EndReason::Done {
                continue;
            }
            let limits = Limits { wall: options.install_timeout, ..self.limits.clone() };
            let why = limits::explain(&end, &limits).map(|(what, _)| what);
            let why = why.unwrap_or_else(|| format!("it exited with status {}", end.status()));
            let error = anyhow::anyhow!("{why}").context(format!("setup failed: `{script}`"));
            return Err(match end.reason {
                EndReason::TimeoutWall => hinted(error, "raise its limit with --setup-timeout"),
                _ => match self.network_hint(&signs) {
                    Some(hint) => hinted(error, hint),
                    None => error,
                },
            });
        }
        Ok(())
    }

    async fn set_up(
        &self,
        script: &str,
        options: &cli::Sandbox,
        printer: &Printer,
    ) -> anyhow::Result<(End, NetworkSigns)> {
        let mut command = self.command(["/bin/sh", "-c", script], options);
        command.wall = Some(options.install_timeout);
        let mut call = self.sandbox.start(&command).await.context("cannot start the setup")?;
        // Its output is not the program's: it never goes to standard output.
        let mut sink = if printer.is_quiet() { Sink::nothing() } else { Sink::standard_error() };
        let mut signs = NetworkSigns::default();
        let end = relay::to_the_end(&mut call, &mut sink, &mut signs).await;
        sink.finish().await;
        Ok((end, signs))
    }

    /// Copies files out. A file that cannot be had is an error only if the code
    /// itself did well.
    pub(crate) async fn collect(
        &self,
        options: &cli::Sandbox,
        end: &End,
        printer: &Printer,
    ) -> anyhow::Result<()> {
        let mut budget = self.limits.disk_bytes;
        let mut failed = None;
        for text in &options.copy_out {
            if let Err(error) = files::copy_out(self, text, &mut budget, printer).await {
                if end.reason == EndReason::Done && failed.is_none() {
                    failed = Some(error);
                } else {
                    printer.report(&error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

pub(crate) async fn start_node(config: &Config) -> anyhow::Result<Node> {
    let node = Node::start(config.state.as_deref()).await;
    node.hint("`belljar doctor` shows what this host can run")
}

pub(crate) async fn create(node: &Node, spec: &Spec) -> anyhow::Result<Sandbox> {
    node.create(spec).await.map_err(|error| {
        let wrong_limits =
            matches!(&error, NodeError::Start(belljar_engine::StartError::Limits(_)));
        let is_unwatched = matches!(
            &error,
            NodeError::Start(
                belljar_engine::StartError::Unwatched(_) | belljar_engine::StartError::Weak(_)
            )
        );
        let hint = match spec.tier {
            _ if wrong_limits => "`belljar run --help` shows the limits and their defaults",
            _ if is_unwatched => weak::NEXT_STEP,
            Tier::Jail => {
                "`belljar doctor` shows what the jail needs; --tier process needs less and \
                 isolates less"
            }
            _ => "`belljar doctor` shows what this host can run",
        };
        hinted(error, hint)
    })
}

/// Says each time that a runtime with known holes is used because somebody
/// insisted.
async fn warn_of_forced_runtime(node: &Node, tier: Tier, printer: &Printer) {
    let Tier::Oci(runtime) = tier else { return };
    let Ok(judged) = node.engine().runtime(runtime).await else { return };
    if let Some(flaw) = judged.forgiven {
        printer.note(format_args!("warning: an unsafe runtime is used by force: {flaw}"));
    }
}

fn profile_needs_root(tier: Tier) -> anyhow::Error {
    let why = match tier {
        Tier::Process => "the tier process has one user id",
        _ => "without root on the host, a sandbox has one user id",
    };
    let error =
        anyhow::anyhow!("cannot give --profile full: {why}, and nothing for its root to own");
    hinted(error, "run belljar as root, with a tier other than process; or leave out --profile")
}

/// Said whatever was asked: somebody who types `--tier process` must know.
fn warn_of_process_tier(printer: &Printer) {
    printer.always(
        "\
WARNING: the process tier is weak. It is for trusted code and for hosts that forbid namespaces.
  The code gets NO process list, network, IPC, hostname or file system of its own:
  - it shares the host's kernel, and only a filter of system calls isolates it;
  - it can read the host's /usr, /lib, /bin and parts of /etc, as any local user can;
  - it can create only socket pairs, so it reaches neither the network nor servers of this host;
  - the size of each file is limited, but not their total.
Use the jail tier for untrusted code.",
    );
}

/// SIGINT, SIGTERM and SIGHUP, from now on.
#[derive(Debug)]
pub(crate) struct Interrupt([Signal; 3]);

impl Interrupt {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    pub(crate) async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// How long a terminal session may last when nobody says otherwise.
pub(crate) const SHELL_TIME: Duration = Duration::from_secs(24 * 3600);
