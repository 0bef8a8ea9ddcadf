//! Making sandboxes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_domain::{ChosenLimits, Data, SandboxId, SecurityProfile, Tier};
use belljar_node::Claimant;
use belljar_objects::Digest;

use crate::clock::now;
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::lifecycle::{OnTimeout, unhurried};
use crate::network::{Network, NetworkWish, Rows};
use crate::problem::{Kind, Problem};
use crate::profile::Processes;
use crate::registry::Place;
use crate::sandbox::{Facts, Live, Sandbox, State};
use crate::secret::Secret;
use crate::start::Actions;
use crate::template::Known;
use crate::tier::not_made;

/// What somebody asks for.
#[derive(Debug, Clone, Default, Hash)]
pub struct Create {
    /// A template's name, or a snapshot's.
    pub template: String,
    /// How long it lives; `None`: five minutes.
    pub timeout: Option<Duration>,
    pub metadata: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub on_timeout: OnTimeout,
    pub auto_resume: bool,
    /// Whether traffic to its ports must show a token.
    pub private_traffic: bool,
    /// What servers inside see as their host.
    pub mask_host: Option<String>,
    /// What it must be kept in; `None`: what its template or the server says.
    pub tier: Option<Tier>,
    /// The rights of root in it; `None`: those of its snapshot, or else none.
    pub profile: Option<SecurityProfile>,
    /// Its limits; those that are absent are its template's, or its snapshot's.
    pub limits: ChosenLimits,
    /// What it reaches; `None`: what its snapshot reached, or what the server gives.
    pub network: Option<NetworkWish>,
    /// Operations of the gateway that its tokens can be given; none: its
    /// snapshot's.
    pub operations: Vec<String>,
    /// Datasets that it is shown, by name; a copy is shown what its original was.
    pub data: Vec<(String, Digest)>,
    /// What it is called, where somebody else decides that.
    pub id: Option<SandboxId>,
}

/// A machine that was made for somebody.
struct Begun {
    machine: belljar_node::Sandbox,
    template: Arc<Known>,
    tier: Tier,
    profile: SecurityProfile,
    limits: ChosenLimits,
    network: Network,
    data: Data,
    /// What its template starts with does not run yet.
    is_new: bool,
}

/// How long a sandbox lives when nobody says.
pub(crate) const DEFAULT_LIFE: Duration = Duration::from_secs(300);

/// Requests that are known to be repetitions of others.
#[derive(Debug, Default)]
pub struct Idempotency {
    known: Mutex<HashMap<(Tenant, String), Repeated>>,
}

#[derive(Debug)]
struct Repeated {
    request: u64,
    at: Instant,
    /// `None` while it is being made.
    sandbox: Option<SandboxId>,
}

/// How long a repetition is recognised.
const REMEMBERED: Duration = Duration::from_secs(600);

impl Actions {
    pub(crate) async fn make(
        &self,
        tenant: &Tenant,
        wish: &Create,
    ) -> Result<Arc<Sandbox>, Problem> {
        // First taken, then looked at: whoever made it meanwhile has entered it.
        let _taken = wish.id.as_ref().map(|id| self.registry().take_id(id)).transpose()?;
        if let Some(made) = wish.id.as_ref().and_then(|id| self.made_before(tenant, id)) {
            return Ok(made);
        }
        self.refuse_when_draining()?;
        let life = self.life(wish.timeout)?;
        check_texts("metadata", &wish.metadata)?;
        check_env(&wish.env)?;
        self.require_ids(wish.id.as_slice(), 1)?;
        let place =
            self.registry().reserve(tenant, self.config().quota.sandboxes, self.config().slots)?;
        belljar_fault::point("node.creating");
        let Begun { machine, template, tier, profile, limits, network, data, is_new } =
            self.machine(tenant, wish).await?;
        belljar_fault::point("node.made");
        let id = wish.id.clone().unwrap_or_else(|| machine.id().clone());
        let rows = self.rows_for(&id);
        self.connect_or_end(&machine, tenant, &network, &rows).await?;
        let token =
            || Secret::random().map_err(|error| Problem::internal("generate a token", &error));
        let facts = Facts {
            tenant: tenant.clone(),
            template: template.id().to_owned(),
            alias: wish.template.clone(),
            metadata: wish.metadata.clone(),
            env: wish.env.clone(),
            started_at: now(),
            on_timeout: wish.on_timeout,
            auto_resume: wish.auto_resume,
            token: token()?,
            traffic_token: if wish.private_traffic { Some(token()?) } else { None },
            mask_host: wish.mask_host.clone(),
            tier,
            profile,
            limits,
            data,
        };
        let sandbox = self.enter(id, machine, facts, template, life, (network, rows), place)?;
        if is_new {
            self.begin(&sandbox).await;
        }
        belljar_fault::point("node.created");
        Ok(sandbox)
    }

    /// As [`Self::create`]; a request that was seen before under this key
    /// answers what it made then. It is made even if nobody waits for it any
    /// more: whoever comes again finds it.
    pub async fn create_once(
        &self,
        tenant: &Tenant,
        key: &str,
        wish: &Create,
    ) -> Result<Arc<Sandbox>, Problem> {
        use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
        check_key(key)?;
        let request = BuildHasherDefault::<DefaultHasher>::default().hash_one(wish);
        let entry = (tenant.clone(), key.to_owned());
        if let Some(known) = self.repeated(&entry, request)? {
            return self.registry().find(tenant, known.as_str());
        }
        let (actions, wish) = (self.clone(), wish.clone());
        unhurried(async move {
            let made = actions.create(&entry.0, &wish).await;
            let mut known = actions.idempotency().lock();
            match &made {
                Ok(sandbox) => {
                    if let Some(repeated) = known.get_mut(&entry) {
                        repeated.sandbox = Some(sandbox.id().clone());
                    }
                }
                Err(_) => {
                    known.remove(&entry);
                }
            }
            made
        })
        .await
    }

    /// What was made under an id that somebody else chose. It comes again if the
    /// first answer was not heard.
    fn made_before(&self, tenant: &Tenant, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.registry().find(tenant, id.as_str()).ok()
    }

    fn repeated(
        &self,
        entry: &(Tenant, String),
        request: u64,
    ) -> Result<Option<SandboxId>, Problem> {
        let conflict = |code, message: &str| Err(Problem::new(Kind::Conflict, code, message));
        let mut known = self.idempotency().lock();
        known.retain(|_, repeated| repeated.at.elapsed() < REMEMBERED);
        match known.get(entry) {
            Some(repeated) if repeated.request != request => conflict(
                "idempotency_request_mismatch",
                "this idempotency key was used for another request",
            ),
            Some(Repeated { sandbox: Some(id), .. }) => Ok(Some(id.clone())),
            Some(_) => conflict(
                "idempotency_in_progress",
                "a request with this idempotency key is in progress",
            ),
            None => {
                let repeated = Repeated { request, at: Instant::now(), sandbox: None };
                known.insert(entry.clone(), repeated);
                Ok(None)
            }
        }
    }

    /// Checks how long somebody wants a sandbox to live.
    pub(crate) fn life(&self, timeout: Option<Duration>) -> Result<Duration, Problem> {
        let life = timeout.unwrap_or(DEFAULT_LIFE);
        let longest = self.config().quota.longest_life;
        if life > longest {
            let hours = longest.as_secs() / 3600;
            let message = format!("Timeout cannot be greater than {hours} hours");
            return Err(Problem::new(Kind::Invalid, "timeout_too_long", message));
        }
        Ok(life)
    }

    async fn machine(&self, tenant: &Tenant, wish: &Create) -> Result<Begun, Problem> {
        if let Some(snapshot) = self.snapshots().find(tenant, &wish.template) {
            if !wish.data.is_empty() {
                return Err(Problem::invalid("a fork has the datasets of its original"));
            }
            let tier = self.keep_tier(tenant, wish.tier, snapshot.tier)?;
            let is_whole = snapshot.taken.is_whole(tier);
            let processes = if is_whole { Processes::RunOn } else { Processes::Gone };
            let profile = self.keep_profile(wish.profile, snapshot.profile, processes)?;
            let template = snapshot.template.clone();
            let limits = self.keep_limits(wish.limits, snapshot.limits, &template)?;
            let network = self.plan_network(wish, Some(&snapshot.network), &template).await?;
            let data = snapshot.data.clone();
            let spec = template.spec(tier, profile, &limits, &data);
            self.wait_until_warm(&template, tier).await;
            let machine = self.make_from(&snapshot.taken, spec).await?;
            let is_new = !is_whole;
            return Ok(Begun { machine, template, tier, profile, limits, network, data, is_new });
        }
        let template = self.find_template(tenant, &wish.template).await?;
        let tier = self.choose_tier(tenant, wish.tier, template.tier())?;
        let profile = self.choose_profile(wish.profile)?;
        let limits = self.choose_limits(wish.limits, &template)?;
        let network = self.plan_network(wish, None, &template).await?;
        let whose = Claimant::new(tenant.as_str());
        let data = self.shown(tenant, tier, &wish.data).await?;
        self.wait_until_warm(&template, tier).await;
        let spec = template.spec(tier, profile, &limits, &data);
        let made = self.node().create_for(&spec, whose).await;
        let machine = made.map_err(|error| not_made(&error))?;
        Ok(Begun { machine, template, tier, profile, limits, network, data, is_new: true })
    }

    /// Puts a machine that runs on the books.
    #[expect(clippy::too_many_arguments, reason = "all that there is to know of a sandbox")]
    pub(crate) fn enter(
        &self,
        id: SandboxId,
        machine: belljar_node::Sandbox,
        facts: Facts,
        template: Arc<Known>,
        life: Duration,
        out: (Network, Arc<Rows>),
        place: Place,
    ) -> Result<Arc<Sandbox>, Problem> {
        let live = Arc::new(Live::new(machine));
        let deadline = now().plus(life);
        let sandbox = Sandbox::new(id, facts, template, State::Running(live), deadline, out);
        let sandbox = Arc::new(sandbox);
        self.write_down(&sandbox)?;
        self.registry().enter(sandbox.clone(), place);
        self.tell(&sandbox, EventKind::Created, Some(sandbox.facts().template.clone()));
        self.guard(&sandbox);
        Ok(sandbox)
    }
}

impl Idempotency {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Tenant, String), Repeated>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn check_key(key: &str) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=255).contains(&key.len()) && key.bytes().all(plain) {
        return Ok(());
    }
    Err(Problem::invalid("an idempotency key is 1 to 255 characters of a-z, 0-9 and -"))
}

const MOST_ENTRIES: usize = 1000;
const MOST_BYTES: usize = 128 << 10;

fn check_texts(what: &str, texts: &BTreeMap<String, String>) -> Result<(), Problem> {
    let bytes: usize = texts.iter().map(|(key, value)| key.len() + value.len()).sum();
    if texts.len() > MOST_ENTRIES || bytes > MOST_BYTES {
        let message = format!("{what} has more than {MOST_ENTRIES} entries or {MOST_BYTES} bytes");
        return Err(Problem::invalid(message));
    }
    Ok(())
}

/// What could not be handed to a process, or would be taken apart differently.
pub(crate) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_texts("the environment", env)?;
    for (key, value) in env {
        let bad = key.is_empty() || key.contains(['=', '\0', '\n']) || value.contains('\0');
        if bad {
            return Err(Problem::invalid(format!("{key:?} cannot be an environment variable")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_odd_characters_is_refused() {
        assert!(check_key("0b6e3f1c-aa").is_ok());
        assert!(check_key(&"a".repeat(255)).is_ok());
        for key in ["", "A", "a b", "a_b", "ä", &"a".repeat(256)] {
            assert!(check_key(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn names_that_a_process_could_not_have_are_refused() {
        let env = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert!(check_env(&env("A", "multi\nline = fine")).is_ok());
        for (key, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A\nB", "x"), ("A", "\0")] {
            assert!(check_env(&env(key, value)).is_err(), "{key:?} {value:?}");
        }
        let many = (0..=MOST_ENTRIES).map(|n| (n.to_string(), String::new())).collect();
        assert!(check_env(&many).is_err());
    }
}
