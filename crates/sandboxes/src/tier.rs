//! Which wall a sandbox gets.
//!
//! ```text
//!   session ─► template ─► server's default        the first that names one
//!                  │
//!                  ▼
//!   as strong as every floor? ── yes ─► that tier
//!                  │ no
//!                  ├─ somebody named it: refused, with both names
//!                  └─ nobody did: the weakest on offer that reaches the floor
//! ```
//!
//! Commands of template builds are sandboxes in this: they get the tier of
//! [`Tiers::for_builds`], or are refused.
//!
//! Choosing is pure: what this host can run is found out when a sandbox is made,
//! and what it cannot run is refused there. No answer is ever a weaker tier.

use belljar_domain::Tier;
use belljar_engine::StartError;
use belljar_node::NodeError;

use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::start::Actions;

/// What an operator says about tiers; made by [`Tiers::new`], which checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiers {
    default: Tier,
    floor: Tier,
    /// In the order in which they are preferred among equals.
    offered: Vec<Tier>,
    /// The tier of template builds; `None`: as for sandboxes.
    builds: Option<Tier>,
}

/// Why a server cannot work with such settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TiersError {
    #[error("the tier `{0}` has no root filesystem of its own, so sandboxes cannot use it")]
    Rootless(Tier),
    #[error("the default tier `{0}` is not offered")]
    DefaultNotOffered(Tier),
    #[error("no offered tier is as strong as the floor `{0}`")]
    FloorNotOffered(Tier),
    #[error("template builds cannot run in the tier `{0}`: the host never mounts its disk")]
    CannotBuild(Tier),
    #[error("the build tier `{builds}` is weaker than the floor `{floor}`")]
    BuildsBelowFloor { builds: Tier, floor: Tier },
}

/// Who named a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Session,
    Template,
    /// It is a copy, or comes back: it has what it had.
    Original,
    /// The operator, for template builds.
    Builds,
}

/// Why a sandbox gets no wall, and so is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    TooWeak {
        named: Tier,
        by: By,
        floor: Tier,
    },
    NotOffered {
        named: Tier,
    },
    NothingOffered {
        floor: Tier,
    },
    /// A command of a template build would run in a tier that cannot keep what it
    /// writes.
    CannotBuild {
        tier: Tier,
    },
    /// A copy was asked for with another wall than its original's.
    Fixed {
        asked: Tier,
        original: Tier,
    },
}

impl Default for Tiers {
    fn default() -> Self {
        Self { default: Tier::Jail, floor: Tier::Jail, offered: Self::all(), builds: None }
    }
}

impl Tiers {
    /// `offered`: `None` is everything that this host turns out to run.
    pub fn new(default: Tier, floor: Tier, offered: Option<Vec<Tier>>) -> Result<Self, TiersError> {
        let offered = offered.unwrap_or_else(Self::all);
        if let Some(rootless) = offered.iter().chain([&default]).find(|tier| is_rootless(**tier)) {
            return Err(TiersError::Rootless(*rootless));
        }
        if !offered.contains(&default) {
            return Err(TiersError::DefaultNotOffered(default));
        }
        if !offered.iter().any(|tier| tier.is_at_least(floor)) {
            return Err(TiersError::FloorNotOffered(floor));
        }
        Ok(Self { default, floor, offered, builds: None })
    }

    /// Sets the tier that commands of template builds run in.
    pub fn with_builds(self, builds: Option<Tier>) -> Result<Self, TiersError> {
        if let Some(builds) = builds {
            if !builds.keeps_directory() {
                return Err(TiersError::CannotBuild(builds));
            }
            if !builds.is_at_least(self.floor) {
                return Err(TiersError::BuildsBelowFloor { builds, floor: self.floor });
            }
        }
        Ok(Self { builds, ..self })
    }

    /// What a sandbox gets when nobody says anything.
    pub fn default_tier(&self) -> Tier {
        self.default
    }

    /// What may be asked for.
    pub fn offered(&self) -> Vec<Tier> {
        self.offered.clone()
    }

    /// Every tier that a server can have.
    fn all() -> Vec<Tier> {
        Tier::ALL.into_iter().filter(|tier| !is_rootless(*tier)).collect()
    }

    /// The tier of a new sandbox. `floor` is that of its tenant.
    pub(crate) fn choose(
        &self,
        asked: Option<Tier>,
        template: Option<Tier>,
        floor: Option<Tier>,
    ) -> Result<Tier, Refusal> {
        let by_template = template.map(|tier| (tier, By::Template));
        if let Some((named, by)) = asked.map(|tier| (tier, By::Session)).or(by_template) {
            return self.allow(named, by, floor);
        }
        let floor = self.strictest(floor);
        if self.default.is_at_least(floor) {
            return Ok(self.default);
        }
        let enough = self.offered.iter().filter(|tier| tier.is_at_least(floor));
        let weakest = enough.min_by_key(|tier| tier.strength()).copied();
        weakest.ok_or(Refusal::NothingOffered { floor })
    }

    /// The tier in which a command of a template build runs. `template` is that of
    /// the build's base, `floor` that of its tenant.
    pub(crate) fn for_builds(
        &self,
        template: Option<Tier>,
        floor: Option<Tier>,
    ) -> Result<Tier, Refusal> {
        let tier = match self.builds {
            Some(builds) => builds,
            None => self.choose(None, template, floor)?,
        };
        let floor = self.strictest(floor);
        if !tier.keeps_directory() {
            return Err(Refusal::CannotBuild { tier });
        }
        if !tier.is_at_least(floor) {
            return Err(Refusal::TooWeak { named: tier, by: By::Builds, floor });
        }
        Ok(tier)
    }

    /// Refuses commands of template builds where no base could make them allowed.
    pub(crate) fn check_builds(&self, floor: Option<Tier>) -> Result<(), Refusal> {
        let floor = self.strictest(floor);
        let allowed = |tier: &Tier| tier.is_at_least(floor) && tier.keeps_directory();
        if self.builds.is_some() {
            self.for_builds(None, Some(floor)).map(drop)
        } else if self.offered.iter().any(allowed) {
            Ok(())
        } else {
            Err(Refusal::CannotBuild { tier: floor })
        }
    }

    /// Returns true if a tier may be named by a tenant with this floor.
    fn can_be_named(&self, tier: Tier, floor: Option<Tier>) -> bool {
        self.allow(tier, By::Session, floor).is_ok()
    }

    /// The tier of a copy, or of what was on disk: that of its original, if one
    /// of that kind may be made now.
    pub(crate) fn copy(
        &self,
        asked: Option<Tier>,
        original: Tier,
        floor: Option<Tier>,
    ) -> Result<Tier, Refusal> {
        match asked {
            Some(asked) if asked != original => Err(Refusal::Fixed { asked, original }),
            _ => self.allow(original, By::Original, floor),
        }
    }

    fn allow(&self, named: Tier, by: By, floor: Option<Tier>) -> Result<Tier, Refusal> {
        let floor = self.strictest(floor);
        if !named.is_at_least(floor) {
            return Err(Refusal::TooWeak { named, by, floor });
        }
        if !self.offered.contains(&named) {
            return Err(Refusal::NotOffered { named });
        }
        Ok(named)
    }

    fn strictest(&self, floor: Option<Tier>) -> Tier {
        floor.filter(|floor| !self.floor.is_at_least(*floor)).unwrap_or(self.floor)
    }
}

fn is_rootless(tier: Tier) -> bool {
    tier == Tier::Process
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooWeak { named, by, floor } => {
                let who = match by {
                    By::Session => "of the request",
                    By::Template => "of the template",
                    By::Original => "of the original",
                    By::Builds => "of template builds",
                };
                let message =
                    format!("the tier `{named}` {who} is weaker than your floor `{floor}`");
                let problem = Self::new(Kind::Unsupported, "tier_too_weak", message);
                match by {
                    By::Original => problem.hint("create a new sandbox"),
                    By::Session | By::Template => problem.hint("ask for a stronger tier"),
                    By::Builds => problem.hint(WITHOUT_COMMANDS),
                }
            }
            Refusal::CannotBuild { tier } => {
                let message = format!(
                    "commands of a template build cannot run in the tier `{tier}`, and no weaker \
                     tier is allowed for them"
                );
                let problem = Self::new(Kind::Unsupported, "tier_too_weak", message);
                problem.hint(WITHOUT_COMMANDS)
            }
            Refusal::NotOffered { named } => {
                let message = format!("this server does not offer the tier `{named}`");
                Self::new(Kind::Unsupported, "tier_not_offered", message)
            }
            Refusal::NothingOffered { floor } => {
                let message =
                    format!("this server offers no tier that reaches your floor `{floor}`");
                Self::new(Kind::Unsupported, "tier_not_offered", message)
            }
            Refusal::Fixed { asked, original } => {
                let message = format!(
                    "the tier `{asked}` was requested, but a fork has the tier of its original, \
                     `{original}`"
                );
                Self::new(Kind::Unsupported, "tier_fixed", message)
            }
        }
    }
}

/// What to do where commands of template builds are refused.
const WITHOUT_COMMANDS: &str = "copy files instead of running commands, or ask the operator to \
    build the template (`belljar template build`) or to allow a tier for builds (`--build-tier`)";

/// What to do where a limit cannot be kept.
const WITH_WEAK_LIMITS: &str = "use whole cores in the request or the template, or ask the \
    operator to run the server with cgroups or with `--allow-weak-limits`";

/// What its owner is told of a machine that could not be made. Why a host cannot
/// run a tier names what is the host's: that is for the log.
pub(crate) fn not_made(error: &NodeError) -> Problem {
    if let NodeError::Start(StartError::Weak(weak)) = error {
        let name = weak.limit.as_str();
        let message = format!("this server cannot keep the limit `{name}`: {}", weak.why);
        return Problem::new(Kind::Unsupported, "limit_unenforceable", message)
            .hint(WITH_WEAK_LIMITS);
    }
    if let NodeError::Start(saved @ (StartError::SavedAsRoot | StartError::SavedWithoutRoot)) =
        error
    {
        return Problem::new(Kind::Conflict, "files_of_other_rights", saved.to_string())
            .hint("restore it on a server that runs with the same rights");
    }
    let NodeError::Start(StartError::Unsupported { tier, why }) = error else {
        return Problem::internal("create a sandbox", error);
    };
    tracing::error!(%tier, why, "tier unavailable on this host");
    let message = format!("this server cannot run the tier `{tier}`");
    Problem::new(Kind::Unsupported, "tier_unavailable", message)
        .hint("the server's log has the reason")
}

impl Actions {
    /// The tier of a new sandbox.
    pub(crate) fn choose_tier(
        &self,
        tenant: &Tenant,
        asked: Option<Tier>,
        template: Option<Tier>,
    ) -> Result<Tier, Problem> {
        Ok(self.config().tiers.choose(asked, template, self.keys().floor(tenant))?)
    }

    /// The tiers that a tenant may name.
    pub fn choosable_tiers(&self, tenant: &Tenant) -> Vec<Tier> {
        let floor = self.keys().floor(tenant);
        let mut tiers = self.startable_tiers();
        tiers.retain(|tier| self.config().tiers.can_be_named(*tier, floor));
        tiers
    }

    /// The tier in which a command of a template build runs.
    pub(crate) fn build_tier(
        &self,
        tenant: &Tenant,
        template: Option<Tier>,
    ) -> Result<Tier, Problem> {
        Ok(self.config().tiers.for_builds(template, self.keys().floor(tenant))?)
    }

    /// Refuses commands of template builds that could run in no tier.
    pub(crate) fn check_build_tier(&self, tenant: &Tenant) -> Result<(), Problem> {
        Ok(self.config().tiers.check_builds(self.keys().floor(tenant))?)
    }

    /// The tier of a copy of what has this one, or of its return.
    pub(crate) fn keep_tier(
        &self,
        tenant: &Tenant,
        asked: Option<Tier>,
        original: Tier,
    ) -> Result<Tier, Problem> {
        Ok(self.config().tiers.copy(asked, original, self.keys().floor(tenant))?)
    }
}

#[cfg(test)]
mod tests;
