//! What a case runs on, and what each tier promises.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use belljar_model::limits::MIB;
use belljar_model::{Limits, Spec, Tier};
use belljar_node::{ContextOptions, Node, Sandbox};
use belljar_template::Template;

/// Something that a case needs and that not every tier, host or template has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Feature {
    /// A root file system of its own: the same paths everywhere.
    OwnRoot,
    /// Calls may be uid 0 of the sandbox.
    RootUser,
    /// Sees and reaps its own processes and no others.
    OwnProcesses,
    /// Calls can signal what earlier calls left running.
    CallsMeet,
    /// Calls see it too, with `ps`.
    CallsSeeEachOther,
    /// A loopback of its own.
    OwnNetwork,
    /// System V and POSIX IPC of its own.
    OwnIpc,
    /// Abstract sockets of its own.
    OwnAbstractSockets,
    /// A bound on the bytes of all files together.
    SizedDisk,
    /// A bound on the number of files.
    SizedInodes,
    /// Files that take extended attributes of users.
    UserXattrs,
    /// A bound on the memory of all processes together, and its peak.
    MemoryLimit,
    PidsLimit,
    /// A share of the CPU, and CPU time counted over all processes of a call.
    CpuLimit,
    /// Whatever a call started ends with it, daemons too.
    WholeCalls,
    Pause,
    /// The guest is a process that the host can look at.
    GuestProcess,
    /// The test carries machine code for this.
    X86,
    Python,
    JavaScript,
    /// The template with a warm interpreter.
    Warm,
    Compiler,
    Git,
}

/// Why a feature is not there.
pub(crate) type Lack = &'static str;

#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) node: Node,
    pub(crate) tier: Tier,
    pub(crate) template: Template,
    /// A node and a template for contexts. A node of its own, because a zygote
    /// outlives the sandboxes that it serves.
    warm: Option<(Node, Template)>,
}

impl Fixture {
    pub(crate) fn new(node: Node, tier: Tier, store: &Path) -> anyhow::Result<Self> {
        let template = belljar_template::host::prepare(store).context("prepare the template")?;
        Ok(Self { node, tier, template, warm: None })
    }

    /// Has an interpreter warmed up, for contexts.
    pub(crate) async fn warm_up(&mut self, template: Template) -> anyhow::Result<()> {
        let node = Node::start(None).await.context("start the engine for contexts")?;
        let warmth = belljar_warmed::warmth(&template)?;
        node.warm_up(warmth, None).await.context("warm the template up")?;
        self.warm = Some((node, template));
        Ok(())
    }

    /// Ends everything that is warm.
    pub(crate) async fn cool_down(&mut self) {
        if let Some((node, _)) = self.warm.take() {
            node.stop().await;
        }
    }

    fn warmed(&self) -> anyhow::Result<&(Node, Template)> {
        self.warm.as_ref().context("there is no warm template")
    }

    pub(crate) fn warm_node(&self) -> anyhow::Result<&Node> {
        self.warmed().map(|(node, _)| node)
    }

    pub(crate) fn warm_template(&self) -> anyhow::Result<&Template> {
        self.warmed().map(|(_, template)| template)
    }

    /// A sandbox of the warm template.
    pub(crate) async fn warm(&self, change: impl FnOnce(&mut Limits)) -> anyhow::Result<Sandbox> {
        let (node, template) = self.warmed()?;
        let mut spec = Spec { root: template.root.clone(), ..self.spec() };
        change(&mut spec.limits);
        node.create(&spec).await.context("make a sandbox")
    }

    /// A Python context as the warm template has it.
    pub(crate) fn python(&self) -> anyhow::Result<ContextOptions> {
        belljar_warmed::python(&self.warmed()?.1)
    }

    /// The expectation table. A new tier adds its column here and nothing else.
    pub(crate) fn has(&self, feature: Feature) -> Result<(), Lack> {
        let own = |lack| if self.tier == Tier::Jail { Ok(()) } else { Err(lack) };
        let groups = |lack| if self.node.engine().has_groups() { Ok(()) } else { Err(lack) };
        match feature {
            Feature::OwnRoot => own("uses the host's files, by Landlock"),
            Feature::RootUser if !self.node.engine().facts().privileged => {
                Err("the engine is not root, so there is one user id")
            }
            Feature::RootUser => own("has one user id and no namespace for it"),
            Feature::OwnProcesses => own("has no pid namespace"),
            Feature::CallsMeet => own("Landlock keeps calls off the guest, and so off each other"),
            Feature::CallsSeeEachOther => own("procfs hides what Landlock lets no call trace"),
            Feature::OwnNetwork => own("has no network namespace; Landlock denies TCP"),
            Feature::OwnIpc => own("has no IPC namespace"),
            Feature::OwnAbstractSockets if self.tier == Tier::Process => {
                let scoped = self.node.engine().facts().landlock_abi >= 6;
                if scoped { Ok(()) } else { Err("this kernel's Landlock has no scopes") }
            }
            Feature::OwnAbstractSockets => Ok(()),
            Feature::SizedDisk | Feature::SizedInodes => own("writes to a plain directory"),
            Feature::MemoryLimit
            | Feature::PidsLimit
            | Feature::CpuLimit
            | Feature::WholeCalls
            | Feature::Pause => groups("cgroups cannot be written on this host"),
            Feature::UserXattrs => {
                let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
                let release = release.unwrap_or_default();
                let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
                let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                if version >= (6, 6) { Ok(()) } else { Err("this kernel's tmpfs has none") }
            }
            Feature::GuestProcess => Ok(()),
            Feature::X86 if cfg!(target_arch = "x86_64") => Ok(()),
            Feature::X86 => Err("this machine is not x86-64"),
            Feature::Python => self.language("python", "the template has no Python"),
            Feature::JavaScript => self.language("node", "the template has no Node.js"),
            Feature::Warm if self.tier != Tier::Jail => Err("has no root of its own to warm"),
            Feature::Warm if self.warm.is_none() => Err("the warm template is not built"),
            Feature::Warm => Ok(()),
            Feature::Compiler => on_host("/usr/bin/cc", "the host has no C compiler"),
            Feature::Git => on_host("/usr/bin/git", "the host has no git"),
        }
    }

    fn language(&self, name: &str, lack: Lack) -> Result<(), Lack> {
        if self.template.languages.contains_key(name) { Ok(()) } else { Err(lack) }
    }

    pub(crate) fn spec(&self) -> Spec {
        let mut spec = Spec::new(self.tier, self.template.root.clone());
        spec.limits.memory_bytes = 512 * MIB;
        spec.limits.disk_bytes = 128 * MIB;
        spec.limits.cpu_millis = 2000;
        spec.limits.wall = Duration::from_secs(10);
        spec
    }

    /// A sandbox with limits that no honest case runs into.
    pub(crate) async fn sandbox(&self) -> anyhow::Result<Sandbox> {
        self.limited(|_| {}).await
    }

    pub(crate) async fn limited(
        &self,
        change: impl FnOnce(&mut Limits),
    ) -> anyhow::Result<Sandbox> {
        let mut spec = self.spec();
        change(&mut spec.limits);
        self.node.create(&spec).await.context("make a sandbox")
    }
}

fn on_host(path: &str, lack: Lack) -> Result<(), Lack> {
    if Path::new(path).exists() { Ok(()) } else { Err(lack) }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
