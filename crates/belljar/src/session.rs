//! One sandbox for one command: made from the options, cleared away on every
//! way out.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use belljar_model::{End, EndReason, Limits, Spec, Tier, User};
use belljar_node::{Command, Node, NodeError, Sandbox};
use belljar_sandbox::Enforcement;
use belljar_template::store::StoreError;
use belljar_template::{Lease, Store, Template, catalog, host};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli;
use crate::config::Config;
use crate::network::{Network, Traffic};
use crate::output::{Hint as _, Printer, hinted};
use crate::relay::{self, Sink};
use crate::{files, limits, weak};

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
    _node: Node,
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
        session = Session::open(options, defaults, config, printer) => session?,
        () = interrupt.wait() => return Ok((INTERRUPTED, None)),
    };
    let acted = tokio::select! {
        status = act(&session) => status,
        () = interrupt.wait() => Ok(INTERRUPTED),
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
        let spec = Spec { limits: limits.clone(), ..Spec::new(tier, template.root.clone()) };
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
            _node: node,
        })
    }

    /// A command with what the template and the options say about it.
    pub(crate) fn command<T: Into<Vec<u8>>>(
        &self,
        argv: impl IntoIterator<Item = T>,
        options: &cli::Sandbox,
    ) -> Command {
        let mut command = Command::new(argv);
        let ours = self.network.iter().flat_map(|network| &network.env);
        let pairs = self.template.env.iter();
        let pairs = pairs.chain(ours.chain(&options.env).map(|(name, value)| (name, value)));
        command.env = pairs.map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
        let workdir = options.workdir.as_deref().map(|dir| self.inside(dir));
        command.cwd = workdir.map(|dir| dir.as_os_str().as_bytes().to_vec());
        command
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
            let end = self.set_up(script, options, printer).await?;
            if end.reason == EndReason::Done {
                continue;
            }
            let limits = Limits { wall: options.install_timeout, ..self.limits.clone() };
            let why = limits::explain(&end, &limits).map(|(what, _)| what);
            let why = why.unwrap_or_else(|| format!("it exited with status {}", end.status()));
            let error = anyhow::anyhow!("{why}").context(format!("setup failed: `{script}`"));
            return Err(match end.reason {
                EndReason::TimeoutWall => hinted(error, "raise its limit with --setup-timeout"),
                _ => error,
            });
        }
        Ok(())
    }

    async fn set_up(
        &self,
        script: &str,
        options: &cli::Sandbox,
        printer: &Printer,
    ) -> anyhow::Result<End> {
        let mut command = self.command(["/bin/sh", "-c", script], options);
        command.wall = Some(options.install_timeout);
        let mut call = self.sandbox.start(&command).await.context("cannot start the setup")?;
        // Its output is not the program's: it never goes to standard output.
        let mut sink = if printer.is_quiet() { Sink::nothing() } else { Sink::standard_error() };
        let end = relay::to_the_end(&mut call, &mut sink).await;
        sink.finish().await;
        Ok(end)
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
            matches!(&error, NodeError::Start(belljar_sandbox::StartError::Limits(_)));
        let is_unwatched = matches!(
            &error,
            NodeError::Start(
                belljar_sandbox::StartError::Unwatched(_) | belljar_sandbox::StartError::Weak(_)
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

/// Finds `host`, or a template of the store.
pub(crate) fn find_template(
    reference: &str,
    tier: Tier,
    config: &Config,
) -> anyhow::Result<Template> {
    if reference == host::NAME {
        let prepared = host::prepare(&config.store).context("cannot prepare the host template");
        return prepared.hint("choose a writable directory with --store");
    }
    if tier == Tier::Process {
        let error =
            anyhow::anyhow!("the process tier has no root filesystem, so it can use no template");
        return Err(hinted(error, "omit --template, or choose another --tier"));
    }
    let unknown = || {
        if catalog::text(reference).is_some() {
            format!("build it with `belljar template build {reference}`")
        } else {
            "`belljar template list` shows built templates, `belljar template recipes` the recipes"
                .to_owned()
        }
    };
    let shared = config.shared_store.as_ref().filter(|store| store.join("templates").is_dir());
    let found = |store: &Path| Store::open(store).and_then(|store| store.resolve(reference));
    let missing = |error: &StoreError| matches!(error, StoreError::Unknown(_));
    let own = config.store.exists().then(|| found(&config.store));
    let resolved = match (own, shared) {
        (Some(Err(error)), Some(shared)) if missing(&error) => found(shared),
        (Some(resolved), _) => resolved,
        (None, Some(shared)) => found(shared),
        (None, None) => {
            bail!(hinted(anyhow::anyhow!("there is no template `{reference}`"), unknown()))
        }
    };
    resolved.map_err(|error| match error {
        StoreError::Unknown(_) | StoreError::Reference(_) => hinted(error, unknown()),
        other => other.into(),
    })
}

/// What a sandbox is kept in: what was asked for, or what its template says.
pub(crate) fn chosen_tier(asked: Option<Tier>, template: &Template) -> Tier {
    asked.or(template.defaults.tier).unwrap_or(Tier::Jail)
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
