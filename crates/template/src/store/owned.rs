//! The bytes that owners of templates have in the store.

use std::collections::{BTreeMap, HashSet};

use super::{LayerFacts, Manifest, Store, StoreError, facts_path, read_json};
use crate::digest::Digest;

impl Store {
    /// Sums the layers that the templates of each owner have. `owners` has them by the name of the
    /// template. Layers of templates for all are free. A layer that two owners have counts for
    /// both: otherwise the end of one template would change what another tenant pays.
    pub fn owned_bytes(
        &self,
        owners: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        let manifests = {
            let _lock = self.lock()?;
            self.list()?
        };
        let is_for_all = |manifest: &&Manifest| manifest.defaults.owner.is_none();
        let free = manifests.iter().filter(is_for_all);
        let free: HashSet<Digest> = free.flat_map(|manifest| manifest.layers.clone()).collect();
        let mut layers: BTreeMap<String, HashSet<Digest>> = BTreeMap::new();
        for manifest in &manifests {
            let Some(owner) = owners.get(&manifest.name) else { continue };
            let own = manifest.layers.iter().filter(|layer| !free.contains(*layer));
            layers.entry(owner.clone()).or_default().extend(own.copied());
        }
        let sum = |layers: HashSet<Digest>| {
            layers.iter().map(|layer| self.layer_bytes(layer)).fold(0, u64::saturating_add)
        };
        Ok(layers.into_iter().map(|(owner, layers)| (owner, sum(layers))).collect())
    }

    /// The bytes of a layer; none, if it was removed meanwhile.
    fn layer_bytes(&self, layer: &Digest) -> u64 {
        let facts: Result<LayerFacts, StoreError> = read_json(&facts_path(&self.layer_path(layer)));
        facts.map_or(0, |facts| facts.bytes)
    }
}
