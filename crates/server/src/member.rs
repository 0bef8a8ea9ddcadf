//! A node's part in a platform: it registers, says what it has, and lets go of
//! everything when nobody believes any more that it is there.
//!
//! ```text
//!   register ──► serve ──► sync, every 2 s and after each change
//!      ▲                     │ renewed: goes on
//!      │                     │ stale, or nobody answers for a lease
//!      └── end everything ◄──┘
//! ```
//!
//! The lease counts from the moment at which its renewal was asked for, on the
//! monotonic clock: control cannot give the node up before the node knows.

mod ask;
mod budgets;
mod rows;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::EndReason;
use belljar_peer_proto::enrolment::Trust;
use belljar_peer_proto::member::{Load, PROTOCOL, Register, Registered, Sync, Synced};
use belljar_sandboxes::Actions;
use tokio::time::Instant;

use crate::behind::Cluster;

pub use ask::AskError;
use ask::Control;
pub use budgets::PlatformBudgets;

/// What a node says of itself.
#[derive(Debug, Clone)]
pub struct Me {
    pub name: String,
    /// Where control reaches it.
    pub address: String,
    pub slots: u32,
}

/// How often everything is said.
const WHOLE: Duration = Duration::from_secs(2);
/// How long a change waits for others.
const GATHER: Duration = Duration::from_millis(100);
/// How long a node goes on when control answers and its database does not.
const ALONE: Duration = Duration::from_secs(60);
/// How long one question may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long to wait before registration is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// How often the certificate is looked at, and how long a renewal that failed waits.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
const RENEWAL_RETRY: Duration = Duration::from_secs(5);

/// A node that belongs to a platform.
#[derive(Debug)]
pub struct Member {
    actions: Actions,
    cluster: Cluster,
    me: Me,
    control: Arc<Control>,
    registered: Registered,
    /// When the lease ends, unless it is renewed.
    until: Instant,
    /// When it was renewed last.
    renewed: Instant,
}

impl Member {
    /// Registers, however long that takes, and ends what control knows nothing of.
    pub async fn join(
        actions: Actions,
        cluster: Cluster,
        me: Me,
        control: &[String],
        budgets: &PlatformBudgets,
    ) -> Result<Self, AskError> {
        let control = Arc::new(Control::new(control, cluster.clone())?);
        budgets.connect(cluster.clone(), control.clone());
        let (registered, renewed) = register(&actions, &cluster, &me, &control).await;
        let until = renewed + Duration::from_millis(registered.lease_ms);
        Ok(Self { actions, cluster, me, control, registered, until, renewed })
    }

    /// Stays a member for good.
    pub async fn stay(mut self) {
        let (cluster, control) = (self.cluster.clone(), self.control.clone());
        let sending = self.actions.config().rows.clone().map(|queue| {
            AbortOnDrop(tokio::spawn(rows::send(cluster.clone(), control.clone(), queue)))
        });
        let sampling = stored::send(cluster.clone(), control.clone(), self.actions.clone());
        let sampling = AbortOnDrop(tokio::spawn(sampling));
        let _tasks = (AbortOnDrop(tokio::spawn(renew(cluster, control))), sending, sampling);
        let mut whole_at = Instant::now();
        loop {
            let is_whole = tokio::select! {
                () = tokio::time::sleep_until(whole_at) => true,
                () = self.actions.some_news() => false,
            };
            if !is_whole {
                // What happens at the same time is said together.
                tokio::time::sleep(GATHER).await;
            }
            if is_whole {
                whole_at = Instant::now() + WHOLE;
            }
            if !self.say(is_whole).await {
                // Nobody may have heard of what changed.
                whole_at = whole_at.min(Instant::now() + Duration::from_millis(200));
            }
            if Instant::now() >= self.until {
                self.begin_anew().await;
                whole_at = Instant::now();
            }
        }
    }

    /// Says for the last time what became of everything.
    pub async fn leave(actions: &Actions, cluster: &Cluster, me: &Me, control: &[String]) {
        // A node that stops frees its places at once if control hears of it.
        let Ok(control) = Control::new(control, cluster.clone()) else { return };
        let Some(registered) = cluster.registered() else { return };
        let sync = word(actions, cluster, me, &registered, true);
        let _ = tokio::time::timeout(PATIENCE, control.sync(&sync)).await;
        if let Some(queue) = &actions.config().rows {
            rows::send_rest(cluster, &control, queue).await;
        }
    }

    /// Whether control heard.
    async fn say(&mut self, is_whole: bool) -> bool {
        let sync = word(&self.actions, &self.cluster, &self.me, &self.registered, is_whole);
        let asked = Instant::now();
        let left = self.until.saturating_duration_since(asked).max(Duration::from_millis(100));
        let answer = tokio::time::timeout(left, self.control.sync(&sync)).await;
        match answer {
            Ok(Ok(Synced::Renewed { lease_ms, end, drain, trust, now })) => {
                self.cluster.identity().clock().set(now);
                if let Some(trust) = trust {
                    set_trust(&self.cluster, trust);
                }
                self.renewed = asked;
                self.until = asked + Duration::from_millis(lease_ms);
                self.actions.heard(&sync.ended);
                self.actions.set_draining(drain || self.cluster.is_leaving());
                for id in end {
                    tracing::warn!(sandbox.id = %id, "ending sandbox that control does not know");
                    let actions = self.actions.clone();
                    tokio::spawn(async move {
                        actions.end_by_order(&id, EndReason::Lost).await;
                    });
                }
                true
            }
            Ok(Ok(Synced::Away { now })) => {
                self.cluster.identity().clock().set(now);
                self.until = (asked + WHOLE * 3).min(self.renewed + ALONE);
                false
            }
            Ok(Ok(Synced::Stale { now })) => {
                self.cluster.identity().clock().set(now);
                self.until = asked;
                false
            }
            Ok(Err(error)) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "sync with control failed"
                );
                false
            }
            Err(_) => false,
        }
    }

    /// Nobody believes any more that this node is there: neither does it.
    async fn begin_anew(&mut self) {
        tracing::error!("lease expired: ending all sandboxes and registering again");
        self.cluster.set_serving(None);
        self.actions.end_everything(EndReason::Lost).await;
        let (registered, renewed) =
            register(&self.actions, &self.cluster, &self.me, &self.control).await;
        // What ended was ended by control as well.
        self.actions.heard(&self.actions.unheard_ends());
        self.until = renewed + Duration::from_millis(registered.lease_ms);
        (self.registered, self.renewed) = (registered, renewed);
    }
}

async fn register(
    actions: &Actions,
    cluster: &Cluster,
    me: &Me,
    control: &Control,
) -> (Registered, Instant) {
    let mut said = false;
    loop {
        let register = Register {
            name: me.name.clone(),
            address: me.address.clone(),
            tiers: actions.startable_tiers(),
            slots: me.slots,
            max_limits: Some(actions.max_limits()),
            has: actions.roster().into_iter().map(|has| has.id).collect(),
            protocol: PROTOCOL,
        };
        let asked = Instant::now();
        match tokio::time::timeout(PATIENCE * 2, control.register(&register)).await {
            Ok(Ok(registered)) => {
                if registered.is_older() {
                    let (control, node) = (registered.protocol, PROTOCOL);
                    tracing::warn!(
                        control,
                        node,
                        "control is older than this node: upgrade it first"
                    );
                }
                cluster.identity().clock().set(registered.now);
                set_trust(cluster, registered.trust.clone());
                belljar_sandboxes::mark(registered.number);
                for id in &registered.end {
                    actions.end_by_order(id, EndReason::Lost).await;
                }
                cluster.set_serving(Some(registered.clone()));
                return (registered, asked);
            }
            Ok(Err(error)) if !said => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "node registration failed; retrying"
                );
                said = true;
            }
            Ok(Err(_)) | Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Trusts what control says that its authorities are now.
fn set_trust(cluster: &Cluster, trust: Trust) {
    if trust == cluster.identity().trust() {
        return;
    }
    let current = trust.current;
    match cluster.identity().set_trust(trust) {
        Ok(()) => tracing::info!(current, "trusted authorities changed"),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot change trusted authorities");
        }
    }
}

/// Renews the node's certificate whenever it is time to.
async fn renew(cluster: Cluster, control: Arc<Control>) {
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        let identity = cluster.identity();
        if !identity.needs_renewal() {
            continue;
        }
        let renewed = match control.renew().await {
            Ok(certificate) => identity.renew(certificate).map_err(AskError::Identity),
            Err(error) => Err(error),
        };
        match renewed {
            Ok(()) => tracing::info!(left = ?identity.certificate_left(), "certificate renewed"),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "certificate renewal failed"
                );
                drop(error);
                tokio::time::sleep(RENEWAL_RETRY).await;
            }
        }
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn word(
    actions: &Actions,
    cluster: &Cluster,
    me: &Me,
    registered: &Registered,
    is_whole: bool,
) -> Sync {
    let has = if is_whole { actions.roster() } else { actions.changed() };
    Sync {
        number: registered.number,
        epoch: registered.epoch,
        is_whole,
        has,
        ended: actions.unheard_ends(),
        load: load(actions, me),
        sequence: cluster.next_sequence(),
        trust: cluster.identity().trust().version(),
    }
}

/// How much there is to do here.
pub fn load(actions: &Actions, me: &Me) -> Load {
    let taken = u32::try_from(actions.registry().taken()).unwrap_or(u32::MAX);
    Load {
        free: me.slots.saturating_sub(taken),
        is_draining: actions.is_draining(),
        is_warming: actions.is_warming_up(),
        tiers: actions.startable_tiers(),
        warm: actions.warm(),
        max_limits: Some(actions.max_limits()),
    }
}
