//! Secrets: values that are kept for sandboxes and told to nobody.
//!
//! ```text
//! <state>/secrets/<id>.json    one for each, readable by the server only
//! ```
//!
//! A value leaves through no surface. What will use it is the gateway, which
//! puts it into requests on their way out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::list::{Page, page};
use crate::private;
use crate::problem::{Kind, Problem};
use crate::quarantine;
use crate::secret::Secret;
use crate::start::Actions;

/// What is told of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    pub id: String,
    pub name: String,
    /// Counts the values that it has had.
    pub version: u64,
    pub metadata: BTreeMap<String, String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    id: String,
    tenant: Tenant,
    name: String,
    version: u64,
    value: Secret,
    metadata: BTreeMap<String, String>,
    created_at: Moment,
    updated_at: Moment,
}

impl From<&Stored> for SecretInfo {
    fn from(stored: &Stored) -> Self {
        Self {
            id: stored.id.clone(),
            name: stored.name.clone(),
            version: stored.version,
            metadata: stored.metadata.clone(),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Secrets {
    dir: PathBuf,
    known: Mutex<BTreeMap<String, Stored>>,
}

/// What ids begin with, and names must not.
const PREFIX: &str = "sec_";

const MOST: usize = 1000;
const LONGEST_NAME: usize = 128;
const LARGEST_VALUE: usize = 64 << 10;
const LARGEST_METADATA: usize = 16 << 10;

impl Secrets {
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let dir = state.join("secrets");
        private::make_dir(&dir)?;
        let stored = private::read_all::<Stored>(&dir, quarantine::Kind::Secret)?;
        let known = stored.into_iter().map(|stored| (stored.id.clone(), stored)).collect();
        Ok(Self { dir, known: Mutex::new(known) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Stored>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn write(&self, stored: &Stored) -> Result<(), Problem> {
        let written = private::write(&self.path(&stored.id), stored);
        written.map_err(|error| Problem::internal("store the secret", &error))
    }

    fn create(
        &self,
        tenant: &Tenant,
        name: &str,
        value: Secret,
        metadata: BTreeMap<String, String>,
    ) -> Result<SecretInfo, Problem> {
        let name = check_name(name)?;
        check_value(&value)?;
        check_metadata(&metadata)?;
        let mut known = self.lock();
        let own = || known.values().filter(|stored| stored.tenant == *tenant);
        if own().any(|stored| stored.name == name) {
            let message = format!("secret '{name}' already exists");
            return Err(Problem::new(Kind::Conflict, "secret_exists", message));
        }
        if own().count() >= MOST {
            let message = format!("your quota of {MOST} secrets is used up");
            return Err(Problem::new(Kind::TooMany, "too_many_secrets", message));
        }
        let random =
            Secret::random().map_err(|error| Problem::internal("generate an id", &error))?;
        let at = now();
        let stored = Stored {
            id: format!("{PREFIX}{}", &random.expose()[..24]),
            tenant: tenant.clone(),
            name,
            version: 1,
            value,
            metadata,
            created_at: at,
            updated_at: at,
        };
        self.write(&stored)?;
        let info = SecretInfo::from(&stored);
        known.insert(stored.id.clone(), stored);
        Ok(info)
    }

    fn update(
        &self,
        tenant: &Tenant,
        id_or_name: &str,
        value: Secret,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<SecretInfo, Problem> {
        check_value(&value)?;
        metadata.as_ref().map_or(Ok(()), check_metadata)?;
        let mut known = self.lock();
        let old = find(&known, tenant, id_or_name)?;
        let metadata = metadata.unwrap_or_else(|| old.metadata.clone());
        let new = Stored { version: old.version + 1, value, metadata, updated_at: now(), ..old };
        self.write(&new)?;
        let info = SecretInfo::from(&new);
        known.insert(new.id.clone(), new);
        Ok(info)
    }

    fn delete(&self, tenant: &Tenant, id_or_name: &str) -> Result<(), Problem> {
        let mut known = self.lock();
        let found = find(&known, tenant, id_or_name)?;
        let removed = std::fs::remove_file(self.path(&found.id));
        removed.map_err(|error| Problem::internal("remove the secret", &error))?;
        known.remove(&found.id);
        Ok(())
    }
}

/// By id, or by name.
fn find(
    known: &BTreeMap<String, Stored>,
    tenant: &Tenant,
    id_or_name: &str,
) -> Result<Stored, Problem> {
    let name = id_or_name.to_ascii_lowercase();
    let is_it = |stored: &&Stored| {
        stored.tenant == *tenant && (stored.id == id_or_name || stored.name == name)
    };
    let found = known.values().find(is_it).cloned();
    found.ok_or_else(|| {
        let message = format!("secret '{id_or_name}' not found");
        Problem::new(Kind::NotFound, "secret_not_found", message)
    })
}

/// Names are the same in capitals; what stands for it is the small form.
fn check_name(name: &str) -> Result<String, Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let small = name.to_ascii_lowercase();
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(plain) {
        let message =
            format!("a secret's name is 1 to {LONGEST_NAME} characters of a-z, 0-9, _ and -");
        return Err(Problem::invalid(message));
    }
    if small.starts_with(PREFIX) {
        return Err(Problem::invalid(format!(
            "a secret's name cannot start with {PREFIX}: ids do"
        )));
    }
    Ok(small)
}

fn check_value(value: &Secret) -> Result<(), Problem> {
    if (1..=LARGEST_VALUE).contains(&value.expose().len()) {
        return Ok(());
    }
    Err(Problem::invalid(format!("a secret's value is 1 to {LARGEST_VALUE} bytes")))
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Problem> {
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > LARGEST_METADATA {
        return Err(Problem::invalid(format!("metadata has more than {LARGEST_METADATA} bytes")));
    }
    Ok(())
}

impl Actions {
    pub fn create_secret(
        &self,
        tenant: &Tenant,
        name: &str,
        value: Secret,
        metadata: BTreeMap<String, String>,
    ) -> Result<SecretInfo, Problem> {
        self.secrets().create(tenant, name, value, metadata)
    }

    /// Gives a secret another value; its metadata stays unless there is other.
    pub fn update_secret(
        &self,
        tenant: &Tenant,
        id_or_name: &str,
        value: Secret,
        metadata: Option<BTreeMap<String, String>>,
    ) -> Result<SecretInfo, Problem> {
        self.secrets().update(tenant, id_or_name, value, metadata)
    }

    pub fn secret(&self, tenant: &Tenant, id_or_name: &str) -> Result<SecretInfo, Problem> {
        Ok(SecretInfo::from(&find(&self.secrets().lock(), tenant, id_or_name)?))
    }

    pub fn delete_secret(&self, tenant: &Tenant, id_or_name: &str) -> Result<(), Problem> {
        self.secrets().delete(tenant, id_or_name)
    }

    /// Newest first.
    pub fn list_secrets(
        &self,
        tenant: &Tenant,
        limit: usize,
        after: Option<&str>,
    ) -> Result<Page<SecretInfo>, Problem> {
        let known = self.secrets().lock();
        let own = known.values().filter(|stored| stored.tenant == *tenant);
        let mut own: Vec<_> = own.map(SecretInfo::from).collect();
        drop(known);
        let key = |info: &SecretInfo| (info.created_at.unix_micros(), info.id.clone());
        own.sort_by_key(|info| std::cmp::Reverse(key(info)));
        page(own, limit, after, key, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn secret(value: &str) -> Secret {
        Secret::new(value)
    }

    #[test]
    fn a_secret_outlives_the_server_and_is_not_for_other_eyes() {
        let state = tempfile::tempdir().unwrap();
        let tenant = Tenant::new("one");
        let secrets = Secrets::open(state.path()).unwrap();
        let made = secrets.create(&tenant, "Db-Key", secret("hunter2"), BTreeMap::new()).unwrap();
        assert_eq!((made.name.as_str(), made.version), ("db-key", 1));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&secrets.dir), 0o700);
        assert_eq!(mode(&secrets.path(&made.id)), 0o600);
        secrets.update(&tenant, &made.id, secret("hunter3"), None).unwrap();
        let again = Secrets::open(state.path()).unwrap();
        let found = find(&again.lock(), &tenant, "DB-KEY").unwrap();
        assert_eq!((found.version, found.value.expose()), (2, "hunter3"));
        assert!(!format!("{found:?}").contains("hunter"));
    }

    #[test]
    fn what_belongs_to_another_does_not_exist() {
        let state = tempfile::tempdir().unwrap();
        let (one, two) = (Tenant::new("one"), Tenant::new("two"));
        let secrets = Secrets::open(state.path()).unwrap();
        let made = secrets.create(&one, "key", secret("a"), BTreeMap::new()).unwrap();
        for name in ["key", &made.id] {
            let kind = |result: Result<(), Problem>| result.unwrap_err().kind;
            assert_eq!(find(&secrets.lock(), &two, name).unwrap_err().kind, Kind::NotFound);
            assert_eq!(kind(secrets.delete(&two, name)), Kind::NotFound);
            let update = secrets.update(&two, name, secret("b"), None);
            assert_eq!(kind(update.map(drop)), Kind::NotFound);
        }
        // The same name is free for another.
        assert!(secrets.create(&two, "key", secret("b"), BTreeMap::new()).is_ok());
        let again = secrets.create(&one, "KEY", secret("c"), BTreeMap::new());
        assert_eq!(again.unwrap_err().kind, Kind::Conflict);
    }

    #[test]
    fn odd_names_and_values_are_refused() {
        for name in ["", "a b", "../a", "sec_x", "SEC_x", "ä", &"a".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_value(&secret("")).is_err());
        assert!(check_value(&secret(&"x".repeat(LARGEST_VALUE + 1))).is_err());
    }
}
