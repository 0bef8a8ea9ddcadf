//! API keys: who is asking.
//!
//! The file has one key a line, then the tenant's name; `#` begins a comment.
//! A key may stand there as itself or as `sha256:<hex>`. Only hashes are kept in
//! memory. A key that is taken out of the file is dead within a second or two.
//!
//! A node of a platform has no such file: control proves who asks, and says which
//! floor the tenant has.
//!
//! `floor=TIER` after the name is the weakest wall that the tenant's sandboxes
//! may have. It is the tenant's, not the key's: of several, the strictest holds
//! for all of its keys, or the one without would be the way around it.
//!
//! `operations=NAMES` caps the gateway operations of the key of this line, and
//! `tenant-operations=NAMES` those of the tenant: of several lines, each cap holds.

mod options;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use belljar_domain::spec::UnknownTier;
use belljar_domain::{InvalidOperationCap, OperationCap, OperationCaps, Tier};
use sha2::{Digest as _, Sha256};

use self::options::Options;
use crate::secret::{Secret, hex};

/// Who owns things.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Tenant(String);

impl Tenant {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the keys in `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write a first key to `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "line {line} of `{path}` is not `KEY TENANT [floor=TIER] [operations=NAMES] \
         [tenant-operations=NAMES]`"
    )]
    Line { path: PathBuf, line: usize },
    #[error("line {line} of `{path}`: unknown tier in `floor=`")]
    Floor { path: PathBuf, line: usize, source: UnknownTier },
    #[error("line {line} of `{path}`: invalid cap on operations")]
    Operations { path: PathBuf, line: usize, source: InvalidOperationCap },
    #[error("no key in `{0}`")]
    Empty(PathBuf),
}

type Hash = [u8; 32];

/// The keys of a file, read again when it changes; or nobody's.
#[derive(Debug)]
pub struct Keys {
    /// `None`: somebody else proves who asks.
    path: Option<PathBuf>,
    known: RwLock<Known>,
    seen: Mutex<Seen>,
}

/// The last look at the file.
#[derive(Debug, Default)]
struct Seen {
    modified: Option<SystemTime>,
    /// The file had no key, which is not believed yet.
    was_empty: bool,
}

/// What the file says.
#[derive(Debug, Default)]
struct Known {
    tenants: HashMap<Hash, Tenant>,
    floors: HashMap<Tenant, Tier>,
    /// Caps on operations, where there are any.
    key_caps: HashMap<Hash, OperationCap>,
    tenant_caps: HashMap<Tenant, OperationCap>,
}

impl Keys {
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let known = parse(path)?;
        let seen = Mutex::new(Seen { modified: modified(path), was_empty: false });
        Ok(Self { path: Some(path.to_owned()), known: RwLock::new(known), seen })
    }

    /// No key opens anything: who asks is proven elsewhere.
    pub fn elsewhere() -> Self {
        Self { path: None, known: RwLock::default(), seen: Mutex::default() }
    }

    /// Takes somebody's word, who has proven it, for the floor of a tenant.
    pub fn believe(&self, tenant: &Tenant, floor: Option<Tier>) {
        if self.known().floors.get(tenant).copied() == floor {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match floor {
            Some(floor) => known.floors.insert(tenant.clone(), floor),
            None => known.floors.remove(tenant),
        };
    }

    /// Reads the file, or makes it with one key for the tenant `default`, which
    /// is answered: nobody will see it again.
    pub fn read_or_make(path: &Path) -> Result<(Self, Option<Secret>), KeyError> {
        if path.exists() {
            return Ok((Self::read(path)?, None));
        }
        let cannot = |source| KeyError::Write { path: path.to_owned(), source };
        let (key, hash) = Self::make().map_err(cannot)?;
        let hashed = hex(&hash);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(cannot)?;
        writeln!(
            file,
            "# KEY TENANT [floor=TIER] [operations=NAMES] [tenant-operations=NAMES]; a key may be \
             written as sha256:<hex>\n\
             sha256:{hashed} default"
        )
        .map_err(cannot)?;
        Ok((Self::read(path)?, Some(key)))
    }

    /// A key that nobody has yet, and what is kept of it.
    pub fn make() -> io::Result<(Secret, [u8; 32])> {
        // Some versions of E2B's SDKs accept no other form.
        let key = Secret::new(format!("e2b_{}", Secret::random()?.expose()));
        let hash = hash(key.expose());
        Ok((key, hash))
    }

    /// Whose key this is.
    pub fn tenant(&self, key: &str) -> Option<Tenant> {
        self.known().tenants.get(&hash(key)).cloned()
    }

    /// All tenants that have a key, in order.
    pub fn tenants(&self) -> Vec<Tenant> {
        let known = self.known();
        let names: BTreeSet<&str> = known.tenants.values().map(Tenant::as_str).collect();
        names.into_iter().map(Tenant::new).collect()
    }

    pub fn has(&self, tenant: &Tenant) -> bool {
        self.path.is_none() || self.known().tenants.values().any(|other| other == tenant)
    }

    /// The weakest wall that a tenant's sandboxes may have, if it has one of its
    /// own.
    pub fn floor(&self, tenant: &Tenant) -> Option<Tier> {
        self.known().floors.get(tenant).copied()
    }

    /// The cap on operations that holds for all keys of a tenant.
    pub fn operation_cap(&self, tenant: &Tenant) -> OperationCap {
        self.known().tenant_caps.get(tenant).cloned().unwrap_or_default()
    }

    /// The caps on operations that hold for a key.
    pub fn operation_caps(&self, key: &str) -> OperationCaps {
        let (known, hash) = (self.known(), hash(key));
        let tenant = known.tenants.get(&hash).and_then(|tenant| known.tenant_caps.get(tenant));
        OperationCaps {
            tenant: tenant.cloned().unwrap_or_default(),
            key: known.key_caps.get(&hash).cloned().unwrap_or_default(),
        }
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it changed. A file that cannot be read or makes
    /// no sense changes nothing: a slip of the pen must not lock everyone out.
    /// A file without keys revokes them all if it is the same at the next call:
    /// an editor may have truncated it to write it again.
    pub fn refresh(&self) -> Result<bool, KeyError> {
        let Some(path) = &self.path else { return Ok(false) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = modified(path);
        if seen.modified == modified {
            return Ok(false);
        }
        let known = match parse(path) {
            Err(KeyError::Empty(_)) if !seen.was_empty => {
                seen.was_empty = true;
                return Ok(false);
            }
            Err(KeyError::Empty(path)) => {
                tracing::warn!(path = %path.display(), "no keys left; all requests are refused");
                Ok(Known::default())
            }
            parsed => parsed,
        };
        *seen = Seen { modified, was_empty: false };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known?;
        Ok(true)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn hash(key: &str) -> Hash {
    Sha256::digest(key).into()
}

fn parse(path: &Path) -> Result<Known, KeyError> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
    let mut known = Known::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(key) = words.next() else { continue };
        let wrong = || KeyError::Line { path: path.to_owned(), line: index + 1 };
        let tenant = Tenant::new(words.next().ok_or_else(wrong)?);
        let options = Options::read(words, path, index + 1)?;
        if let Some(floor) = options.floor {
            let held = known.floors.entry(tenant.clone()).or_insert(floor);
            if !held.is_at_least(floor) {
                *held = floor;
            }
        }
        if let Some(cap) = options.tenant_cap {
            let held = known.tenant_caps.entry(tenant.clone()).or_default();
            *held = held.and(&cap);
        }
        let hash = match key.strip_prefix("sha256:") {
            Some(hex) => unhex(hex).ok_or_else(wrong)?,
            None => hash(key),
        };
        known.tenants.insert(hash, tenant);
        match options.key_cap {
            Some(cap) => known.key_caps.insert(hash, cap),
            None => known.key_caps.remove(&hash),
        };
    }
    if known.tenants.is_empty() { Err(KeyError::Empty(path.to_owned())) } else { Ok(known) }
}

fn unhex(text: &str) -> Option<Hash> {
    let mut bytes = Hash::default();
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_key_is_known_by_itself_and_by_its_hash() {
        let hashed = hex(&hash("e2b_bb"));
        let file = file(&format!("# comment\ne2b_aa one # first\n\nsha256:{hashed} two\n"));
        let keys = Keys::read(file.path()).unwrap();
        assert_eq!(keys.tenant("e2b_aa"), Some(Tenant::new("one")));
        assert_eq!(keys.tenant("e2b_bb"), Some(Tenant::new("two")));
        assert_eq!(keys.tenant(&format!("sha256:{hashed}")), None);
        assert_eq!(keys.tenant(""), None);
    }

    #[test]
    fn a_hash_is_64_hexadecimal_digits_and_nothing_else() {
        let digits = "0f".repeat(31);
        for last in ["0f", "0F"] {
            assert!(
                Keys::read(file(&format!("sha256:{digits}{last} one")).path()).is_ok(),
                "{last}"
            );
        }
        for last in ["+f", "-f", "0g", " f", "f", "0f0", "é"] {
            let file = file(&format!("sha256:{digits}{last} one"));
            let read = Keys::read(file.path());
            assert!(matches!(read, Err(KeyError::Line { line: 1, .. })), "{last}: {read:?}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        let file = file("e2b_aa one\ne2b_bb\n");
        assert!(matches!(Keys::read(file.path()), Err(KeyError::Line { line: 2, .. })));
    }

    #[test]
    fn a_floor_is_the_tenants_and_the_strictest_of_its_lines() {
        let file = file(
            "k1 one floor=gvisor # at least\nk2 one\nk3 one floor=microvm\nk4 one floor=jail\nk5 two\n",
        );
        let keys = Keys::read(file.path()).unwrap();
        assert_eq!(keys.floor(&Tenant::new("one")), Some(Tier::Microvm));
        assert_eq!(keys.floor(&Tenant::new("two")), None);
        assert_eq!(keys.tenant("k2"), Some(Tenant::new("one")));
    }

    #[test]
    fn a_floor_that_makes_no_sense_is_an_error_and_not_none() {
        let floor = file("k1 one\nk2 two floor=strong\n");
        assert!(matches!(Keys::read(floor.path()), Err(KeyError::Floor { line: 2, .. })));
        for text in ["k1 one gvisor", "k1 one Floor=jail", "k1 one floor=jail more"] {
            let file = file(text);
            assert!(
                matches!(Keys::read(file.path()), Err(KeyError::Line { line: 1, .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn caps_on_operations_are_of_a_key_and_of_a_tenant() {
        let file = file(
            "k1 one operations=llm,search tenant-operations=llm,search,data\n\
             k2 one tenant-operations=llm,mail floor=gvisor\nk3 two operations=none\nk4 two\n",
        );
        let keys = Keys::read(file.path()).unwrap();
        let cap = |text: &str| text.parse::<OperationCap>().unwrap();
        assert_eq!(keys.operation_cap(&Tenant::new("one")), cap("llm"));
        let caps = keys.operation_caps("k1");
        assert_eq!((caps.tenant, caps.key), (cap("llm"), cap("llm,search")));
        assert!(keys.operation_caps("k2").key.is_all());
        assert!(keys.operation_caps("k3").check(["llm"]).is_err());
        assert!(keys.operation_caps("k4").is_all());
    }

    #[test]
    fn a_cap_that_makes_no_sense_is_an_error_and_not_none() {
        let wrong = file("k1 one\nk2 two operations=a//b\n");
        assert!(matches!(Keys::read(wrong.path()), Err(KeyError::Operations { line: 2, .. })));
        for text in ["k1 one operations", "k1 one operations=a operations=b", "k1 one Operations=a"]
        {
            let read = Keys::read(file(text).path());
            assert!(matches!(read, Err(KeyError::Line { line: 1, .. })), "{text}");
        }
    }

    #[test]
    fn the_last_key_can_be_revoked_but_not_by_an_editor_that_truncates() {
        let file = file("k1 one\n");
        let keys = Keys::read(file.path()).unwrap();
        let write = |text: &str| {
            fs::write(file.path(), text).unwrap();
            let later = SystemTime::now() + std::time::Duration::from_secs(5);
            file.as_file().set_modified(later).unwrap();
        };
        write("");
        assert!(!keys.refresh().unwrap());
        assert!(keys.has(&Tenant::new("one")));
        fs::write(file.path(), "k1 one\nk2 two\n").unwrap();
        assert!(keys.refresh().unwrap());
        assert!(keys.tenant("k1").is_some() && keys.tenant("k2").is_some());

        write("# none\n");
        assert!(!keys.refresh().unwrap());
        assert!(keys.refresh().unwrap());
        assert_eq!((keys.tenant("k1"), keys.tenant("k2")), (None, None));
        assert!(!keys.has(&Tenant::new("one")));
        assert!(!keys.refresh().unwrap());
    }

    #[test]
    fn the_first_key_is_shown_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let (keys, made) = Keys::read_or_make(&path).unwrap();
        let made = made.unwrap();
        assert_eq!(keys.tenant(made.expose()), Some(Tenant::new("default")));
        assert!(!fs::read_to_string(&path).unwrap().contains(made.expose()));
        assert!(Keys::read_or_make(&path).unwrap().1.is_none());
    }
}
