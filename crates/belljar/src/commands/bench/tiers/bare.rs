//! The engines by themselves: a runtime that runs a bundle, a monitor that boots
//! a kernel, and no isolation at all.

mod oci;
mod qemu;
mod shell;

use std::fmt;
use std::path::Path;

use belljar_domain::{Runtime, Tier};
use belljar_template::Template;

use self::oci::Bundles;
pub(super) use self::qemu::Qemu;
use self::shell::Shell;
use super::Figures;

/// Something that runs programs on the template's root filesystem.
pub(super) enum Engine {
    /// Not started.
    Named(Name),
    /// `chroot` and nothing else.
    None(Bundles),
    Oci(Bundles),
    Qemu(Qemu),
    /// It did not start.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    None,
    Oci(Runtime),
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(Name::None) => f.write_str("bare"),
            Self::Named(Name::Oci(runtime)) => write!(f, "{} run", runtime.program()),
            Self::None(_) | Self::Oci(_) | Self::Qemu(_) | Self::Absent => f.write_str("an engine"),
        }
    }
}

impl Engine {
    /// Those that these tiers are built from, and none at all.
    pub(super) fn beside(tiers: &[Tier]) -> Vec<Self> {
        let engine = |tier: &Tier| match tier {
            Tier::Oci(runtime) => Some(Name::Oci(*runtime)),
            Tier::Process | Tier::Jail | Tier::Microvm => None,
        };
        let names = std::iter::once(Name::None).chain(tiers.iter().filter_map(engine));
        names.map(Self::Named).collect()
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Named(Name::Oci(_)) => {
                "by itself: same root, namespaces and limits; no guest".to_owned()
            }
            _ => "chroot, no isolation".to_owned(),
        }
    }

    pub(super) fn turn(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        match self {
            Self::None(bundles) | Self::Oci(bundles) => bundles.turn(figures),
            Self::Qemu(qemu) => qemu.turn(figures),
            Self::Named(_) | Self::Absent => anyhow::bail!("it was not started"),
        }
    }
}

/// Starts the named one.
pub(super) fn start(engine: Engine, template: &Template, scratch: &Path) -> anyhow::Result<Engine> {
    let Engine::Named(name) = engine else { return Ok(engine) };
    let dir = match name {
        Name::None => scratch.join("bare"),
        Name::Oci(runtime) => scratch.join(runtime.program()),
    };
    std::fs::create_dir_all(&dir)?;
    let shell = Shell::start(&template.root, &dir)?;
    match name {
        Name::None => Ok(Engine::None(Bundles::chroot(template, shell, &dir)?)),
        Name::Oci(runtime) => Ok(Engine::Oci(Bundles::new(runtime, template, shell, &dir)?)),
    }
}
