//! Who asks.
//!
//! A key that was proven is believed for a second without asking again, so that
//! one that is taken away is dead within a second or two. What was not proven is
//! asked for each time: a key that was just made works at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_model::Tier;
use belljar_store::{Proven, Store, StoreError};
use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};

const BELIEVED: Duration = Duration::from_secs(1);
/// Past this, what is believed is thrown away and asked for again.
const MOST: usize = 10_000;

pub(crate) type Hash = [u8; 32];

/// Whoever showed a key, and what holds for his tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) proven: Proven,
    pub(crate) floor: Option<Tier>,
}

#[derive(Debug, Default)]
pub(crate) struct Proofs {
    known: Mutex<HashMap<Hash, (Instant, Arc<Caller>)>>,
}

impl Proofs {
    pub(crate) async fn prove(
        &self,
        store: &Store,
        hash: &Hash,
    ) -> Result<Option<Arc<Caller>>, StoreError> {
        if let Some(caller) = self.believed(hash) {
            return Ok(Some(caller));
        }
        let Some(proven) = store.prove(hash).await? else { return Ok(None) };
        let floor = store.tenant(&proven.tenant).await?.floor;
        let caller = Arc::new(Caller { proven, floor });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(*hash, (Instant::now(), caller.clone()));
        Ok(Some(caller))
    }

    fn believed(&self, hash: &Hash) -> Option<Arc<Caller>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, caller) = known.get(hash)?;
        (at.elapsed() < BELIEVED).then(|| caller.clone())
    }
}

/// The hash of the key that came with a request.
pub(crate) fn shown(headers: &HeaderMap) -> Option<Hash> {
    if let Some(key) = headers.get("x-api-key") {
        return Some(Sha256::digest(key.as_bytes()).into());
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Sha256::digest(key.trim()).into())
}

/// The hash of what may be a key of ours, in a header that may be for somebody
/// else.
pub(crate) fn in_value(value: &str) -> Option<Hash> {
    let key = value.rsplit(' ').next()?;
    key.starts_with("e2b_").then(|| Sha256::digest(key).into())
}
