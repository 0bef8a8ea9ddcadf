//! Making sandboxes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_model::{SandboxId, Tier};

use crate::clock::now;
use crate::events::EventKind;
use crate::keys::Tenant;
use crate::lifecycle::{OnTimeout, unhurried};
use crate::problem::{Kind, Problem};
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
}

/// A machine that was made for somebody.
struct Begun {
    machine: belljar_node::Sandbox,
    template: Arc<Known>,
    tier: Tier,
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
    /// Makes a sandbox; when this answers, it takes calls.
    pub async fn create(&self, tenant: &Tenant, wish: &Create) -> Result<Arc<Sandbox>, Problem> {
        self.refuse_when_draining()?;
        let life = self.life(wish.timeout)?;
        check_texts("metadata", &wish.metadata)?;
        check_env(&wish.env)?;
        let place = self.registry().reserve(tenant, self.config().quota.sandboxes)?;
        let Begun { machine, template, tier, is_new } = self.machine(tenant, wish).await?;
        let token = || Secret::random().map_err(|error| Problem::internal("make a token", &error));
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
        };
        let sandbox = self.enter(machine, facts, template, life, place)?;
        if is_new {
            self.begin(&sandbox).await;
        }
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
                "a request with this idempotency key is being worked on",
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
            let tier = self.keep_tier(tenant, wish.tier, snapshot.tier)?;
            let template = snapshot.template.clone();
            let machine = self.make_from(&snapshot.taken, &template, tier).await?;
            let is_new = !snapshot.taken.is_whole(tier);
            return Ok(Begun { machine, template, tier, is_new });
        }
        let template = self.templates().find(tenant, &wish.template)?;
        let tier = self.choose_tier(tenant, wish.tier, template.tier())?;
        let made = self.node().create(&template.spec(tier)).await;
        let machine = made.map_err(|error| not_made(&error))?;
        Ok(Begun { machine, template, tier, is_new: true })
    }

    /// Puts a machine that runs on the books.
    pub(crate) fn enter(
        &self,
        machine: belljar_node::Sandbox,
        facts: Facts,
        template: Arc<Known>,
        life: Duration,
        place: Place,
    ) -> Result<Arc<Sandbox>, Problem> {
        let id = machine.id().clone();
        let live = Arc::new(Live::new(machine));
        let deadline = now().plus(life);
        let sandbox = Sandbox::new(id, facts, template, State::Running(live), deadline);
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

fn check_key(key: &str) -> Result<(), Problem> {
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
