//! The warm-up of a server's templates, and who waits for it.
//!
//! A sandbox of a warm template gets interpreters that can be forked; one that is made
//! before its template is warm does not, for as long as it lives. So a create waits
//! for the template that it names, and the server is not ready before all that it warms at
//! its start are warm. All other templates are warmed up on demand, for their first sandbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_domain::{ChosenLimits, Data, SecurityProfile, Tier};
use belljar_node::{Node, NodeError, PoolSize, Warmth};
use belljar_template::Template;
use tokio::sync::watch;

use crate::problem::{Kind, Problem};
use crate::start::Actions;
use crate::template::{Known, Templates};
use crate::tier::Tiers;

/// The longest that a create waits for its template. A zygote may take longer on a host that is
/// overloaded; the sandbox then starts cold.
const MAX_WARM_UP_WAIT: Duration = Duration::from_secs(30);

/// Maximum number of templates that stay warm after a warm-up on demand. Each takes the memory of
/// an interpreter with its libraries.
const MAX_ON_DEMAND: usize = 4;

/// Templates that are warm, and those that will be.
#[derive(Debug, Default)]
pub(crate) struct Warming {
    /// Names of templates whose warm-up has not ended yet.
    pending: watch::Sender<BTreeMap<String, Occasion>>,
    /// Names by which warm ones are asked for.
    warm: Mutex<Vec<String>>,
    /// Templates that were warmed up for a sandbox, the last used one last.
    on_demand: Mutex<Vec<Demanded>>,
}

/// Why a template is warmed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// The server starts.
    Start,
    /// A sandbox of it was asked for.
    Demand,
}

/// A template after its warm-up on demand.
#[derive(Debug)]
struct Demanded {
    /// Holds the template's lease: the interpreter is restarted from its files now and then.
    known: Arc<Known>,
    /// False if the warm-up failed. It is not retried.
    is_warm: bool,
}

/// One template to warm up.
struct Planned {
    known: Arc<Known>,
    warmth: Warmth,
    tier: Tier,
}

impl Warming {
    /// Names by which sandboxes start at once.
    pub(crate) fn warm(&self) -> Vec<String> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true until everything is warm that the start of the server warms.
    fn is_starting(&self) -> bool {
        self.pending.borrow().values().any(|occasion| *occasion == Occasion::Start)
    }

    /// Waits until the warm-up of the template has ended, for a while.
    async fn ended(&self, name: &str) {
        let mut pending = self.pending.subscribe();
        let ended = pending.wait_for(|pending| !pending.contains_key(name));
        // A create that has waited for so long is worth more cold than never.
        let _ = tokio::time::timeout(MAX_WARM_UP_WAIT, ended).await;
    }

    fn end(&self, name: &str) {
        self.pending.send_modify(|pending| {
            pending.remove(name);
        });
    }

    fn begin(&self, names: impl Iterator<Item = String>) {
        let names = names.map(|name| (name, Occasion::Start));
        self.pending.send_modify(|pending| pending.extend(names));
    }

    /// Returns true if the caller must warm the template up: no warm-up is in progress, and none
    /// has ended.
    fn begin_on_demand(&self, known: &Arc<Known>) -> bool {
        if !self.use_again(known) {
            let name = known.template.name.clone();
            return self.pending.send_if_modified(|pending| {
                let is_new = !pending.contains_key(&name);
                pending.entry(name).or_insert(Occasion::Demand);
                is_new
            });
        }
        false
    }

    /// Marks a template as recently used. Returns false if it was never warmed up on demand.
    fn use_again(&self, known: &Known) -> bool {
        let mut demanded = self.demanded();
        let root = &known.template.root;
        match demanded.iter().position(|one| one.known.template.root == *root) {
            Some(place) => {
                let one = demanded.remove(place);
                demanded.push(one);
                true
            }
            None => false,
        }
    }

    /// Adds a template after its warm-up. Returns the least recently used one if it is evicted and
    /// warm.
    fn keep(&self, known: Arc<Known>, is_warm: bool) -> Option<Arc<Known>> {
        let mut demanded = self.demanded();
        demanded.push(Demanded { known, is_warm });
        if demanded.len() <= MAX_ON_DEMAND {
            return None;
        }
        let last = demanded.remove(0);
        last.is_warm.then_some(last.known)
    }

    fn demanded(&self) -> MutexGuard<'_, Vec<Demanded>> {
        self.on_demand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actions {
    /// Warms up the templates that have other names, and returns how many are warm. They count
    /// as warming up from the call on, before the future is polled.
    pub fn warm_up(&self) -> impl Future<Output = usize> + Send + use<> {
        let planned = self.templates().plan_warm_up(&self.config().tiers);
        let names = planned.iter().map(|planned| planned.known.template.name.clone());
        self.templates().warming().begin(names);
        let actions = self.clone();
        async move {
            let pool = actions.config().pool;
            let mut warmed = 0;
            for planned in planned {
                let is_warm = actions.templates().warm_up(actions.node(), &planned, pool).await;
                actions.templates().warming().end(&planned.known.template.name);
                warmed += usize::from(is_warm);
            }
            warmed
        }
    }

    /// Returns true until every template is warm, or has turned out not to become so.
    pub fn is_warming_up(&self) -> bool {
        self.templates().warming().is_starting()
    }

    /// Refuses while the server should not be sent new work.
    pub fn refuse_unless_ready(&self) -> Result<(), Problem> {
        self.refuse_when_draining()?;
        if self.is_warming_up() {
            let message = "the server warms up its templates";
            return Err(Problem::new(Kind::Busy, "warming_up", message)
                .hint("try again in a few seconds; a sandbox that is asked for now waits for it"));
        }
        Ok(())
    }

    /// Waits until interpreters of such a sandbox can be forked, if they ever can. Other tiers
    /// are copied as a whole, so that their sandboxes need not wait.
    pub(crate) async fn wait_until_warm(&self, template: &Arc<Known>, tier: Tier) {
        if tier == Tier::Jail {
            self.warm_on_demand(template);
            self.templates().warming().ended(&template.template.name).await;
        }
    }

    /// Begins to warm up a template of the operator's that is not warm. A tenant's own start
    /// cold: they would be warm at the cost of others.
    fn warm_on_demand(&self, template: &Arc<Known>) {
        if !self.config().warms_on_demand || template.template.defaults.owner.is_some() {
            return;
        }
        if self.node().is_warm(&template.template.root) {
            self.templates().warming().use_again(template);
            return;
        }
        let Some(warmth) = warmth(&template.template) else { return };
        if !self.templates().warming().begin_on_demand(template) {
            return;
        }
        let (actions, known) = (self.clone(), template.clone());
        tokio::spawn(async move {
            let name = known.template.name.clone();
            let warmed = actions.node().warm_up(warmth, None).await;
            if let Err(error) = &warmed {
                let error = error as &dyn std::error::Error;
                tracing::warn!(template = name, error, "cannot warm up `{name}`");
            }
            let warming = actions.templates().warming();
            if let Some(old) = warming.keep(known, warmed.is_ok()) {
                actions.node().cool_down(&old.template.root);
            }
            warming.end(&name);
        });
    }
}

impl Templates {
    /// Everybody's templates that have other names, each in the tier that its sandboxes have
    /// by default.
    fn plan_warm_up(&self, tiers: &Tiers) -> Vec<Planned> {
        let mut planned: Vec<Planned> = Vec::new();
        for alias in self.aliases().keys() {
            let Ok(Some(known)) = self.built_in(alias) else { continue };
            if planned.iter().any(|other| other.known.template.name == known.template.name) {
                continue;
            }
            let Some(warmth) = warmth(&known.template) else { continue };
            let Ok(tier) = tiers.choose(None, known.tier(), None) else { continue };
            planned.push(Planned { known, warmth, tier });
        }
        planned
    }

    /// Warms one template up; returns true if its sandboxes are warm from now on.
    async fn warm_up(&self, node: &Node, planned: &Planned, pool: PoolSize) -> bool {
        let Planned { known, warmth, tier } = planned;
        let name = &known.template.name;
        match warm(node, *tier, warmth.clone(), known, pool).await {
            Ok(true) => {
                self.note_warm(name);
                true
            }
            Ok(false) => false,
            // Sandboxes of it start all the same, only later, if the host can
            // run that tier at all.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(template = name, %tier, error, "cannot warm up `{name}`");
                false
            }
        }
    }

    /// Every name by which a template that is warm may be asked for.
    fn note_warm(&self, name: &str) {
        let aliases = self.aliases().keys().filter(
            |alias| matches!(self.built_in(alias), Ok(Some(known)) if known.template.name == name),
        );
        let names: Vec<_> = aliases.cloned().chain([name.to_owned()]).collect();
        self.warming().warm.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }
}

/// How the interpreter of a template is warmed, if it wants to be.
fn warmth(template: &Template) -> Option<Warmth> {
    Some(Warmth {
        root: template.root.clone(),
        interpreter: template.languages.get("python")?.clone(),
        code: template.warm.clone()?,
        env: template.env.clone(),
    })
}

/// The jail's sandboxes are forked from a zygote and wait in a pool; those with a
/// kernel of their own begin from one that was warmed up and put on disk. The
/// rest starts cold, which is answered with `false`.
async fn warm(
    node: &Node,
    tier: Tier,
    warmth: Warmth,
    known: &Known,
    pool: PoolSize,
) -> Result<bool, NodeError> {
    match tier {
        Tier::Jail => node.warm_up(warmth, Some((pool, known.limits.clone()))).await?,
        tier if tier.can_be_saved() => {
            // A return from disk takes rights away from root; it cannot add any.
            let (chosen, data) = (ChosenLimits::default(), Data::default());
            let spec = known.spec(tier, SecurityProfile::Full, &chosen, &data);
            node.warm_up_saved(warmth, spec).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    /// Polls a future once.
    async fn is_over(mut future: Pin<&mut impl Future<Output = ()>>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_create_waits_for_its_own_template_and_no_other() {
        let warming = Warming::default();
        assert!(!warming.is_starting());
        warming.begin(["a".to_owned(), "b".to_owned()].into_iter());
        warming.ended("c").await;
        let mut waiting = std::pin::pin!(warming.ended("a"));
        assert!(!is_over(waiting.as_mut()).await);
        warming.end("b");
        assert!(!is_over(waiting.as_mut()).await);
        warming.end("a");
        assert!(is_over(waiting.as_mut()).await);
        assert!(!warming.is_starting());
    }
}
