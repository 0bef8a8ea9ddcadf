//! Packs a finished build, for the other nodes.

use std::collections::{BTreeSet, HashSet};

use belljar_objects::{Digest as Blob, Expected};
use belljar_template::{Digest, Manifest, Reference, Store, pack};
use serde::{Deserialize, Serialize};

use super::{Shared, away, place_of};
use crate::keys::Tenant;
use crate::problem::Problem;
use crate::start::Actions;
use crate::template::Record;

/// All that a build is made of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Packed {
    pub(super) manifest: Manifest,
    /// In the order of the manifest.
    pub(super) layers: Vec<PackedLayer>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PackedLayer {
    pub(super) digest: Digest,
    pub(super) blob: Blob,
    /// Unpacked.
    pub(super) bytes: u64,
}

/// Under which name layers of everybody's templates stand; no tenant's place is
/// so short.
const EVERYBODYS: &str = "base";

impl Shared {
    /// Brings all of a version to the objects, and answers what it is made from.
    pub(super) async fn carry(
        &self,
        store: &Store,
        tenant: &Tenant,
        reference: Reference,
    ) -> Result<Blob, Problem> {
        let reading = store.clone();
        let (manifest, everybodys) = blocking("read the template", move || {
            let manifest = reading.show(&reference)?;
            let everybodys = layers_of(&reading, |owner| owner.is_none())?;
            Ok::<_, belljar_template::store::StoreError>((manifest, everybodys))
        })
        .await?;
        let garbage = self.garbage().await?;
        let mut layers = Vec::new();
        for digest in &manifest.layers {
            // What one tenant has packed tells another nothing, not even by how long
            // its own takes.
            let own = place_of(tenant);
            let whose = if everybodys.contains(digest) { EVERYBODYS } else { &own };
            layers.push(self.carry_layer(store, whose, digest, &garbage).await?);
        }
        let packed = serde_json::to_vec(&Packed { manifest, layers });
        let packed = packed.map_err(|error| Problem::internal("pack the template", &error))?;
        let put = self.objects.put_blob(&packed[..]).await;
        put.map_err(|error| away("share the template", &error))
    }

    async fn carry_layer(
        &self,
        store: &Store,
        whose: &str,
        digest: &Digest,
        garbage: &BTreeSet<Blob>,
    ) -> Result<PackedLayer, Problem> {
        let cannot = |error| away("share a layer", &error);
        let name = format!("layers/{whose}/{digest}");
        let _turn = self.fetching.turn(name.clone()).await;
        let known = self.objects.get_record(&name).await.map_err(cannot)?;
        let expected =
            known.as_ref().map_or(Expected::Absent, |(_, version)| Expected::Is(version.clone()));
        let known = known.and_then(|(content, _)| serde_json::from_slice(&content).ok());
        if let Some(known) = known {
            let known: PackedLayer = known;
            let there = self.objects.find_blob(&known.blob).await.map_err(cannot)?;
            if known.digest == *digest && there.is_some() && !garbage.contains(&known.blob) {
                return Ok(known);
            }
        }
        let (store, digest, scratch) = (store.clone(), *digest, self.objects.scratch());
        let (file, bytes) = blocking("pack a layer", move || {
            let layer = store.layer(&digest).map_err(std::io::Error::other)?;
            let layer = layer.ok_or(std::io::ErrorKind::NotFound)?;
            let mut file = tempfile::NamedTempFile::new_in(scratch)?;
            pack::pack(&layer.path, file.as_file_mut()).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((file.into_temp_path(), layer.facts.bytes))
        })
        .await?;
        let blob = self.objects.put_file(&file).await.map_err(cannot)?;
        let packed = PackedLayer { digest, blob, bytes };
        let content = serde_json::to_vec(&packed);
        let content = content.map_err(|error| Problem::internal("pack a layer", &error))?;
        match self.objects.put_record(&name, content, &expected).await {
            // Another node packed it meanwhile: either will do.
            Err(error) if !error.is_conflict() => Err(cannot(error)),
            _ => Ok(packed),
        }
    }
}

/// Layers of the templates whose owner is such.
pub(super) fn layers_of(
    store: &Store,
    is_meant: impl Fn(Option<&str>) -> bool,
) -> Result<HashSet<Digest>, belljar_template::store::StoreError> {
    let meant = |manifest: &Manifest| is_meant(manifest.defaults.owner.as_deref());
    let manifests = store.list()?.into_iter().filter(meant);
    Ok(manifests.flat_map(|manifest| manifest.layers).collect())
}

/// Does what waits for disks on a thread for that.
pub(crate) async fn blocking<T, E>(
    attempted: &'static str,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Problem>
where
    T: Send + 'static,
    E: std::error::Error + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Problem::internal(attempted, &error)),
        Err(error) => Err(Problem::internal(attempted, &error)),
    }
}

impl Actions {
    /// Shares a version that was built here; `None`: nobody is there to share with.
    pub(crate) async fn carry_out(
        &self,
        record: &Record,
        version: &str,
    ) -> Result<Option<Blob>, Problem> {
        let templates = self.templates();
        let Some(shared) = templates.shared() else { return Ok(None) };
        let reference = format!("{}@{version}", record.stored_name()).parse();
        let reference =
            reference.map_err(|error| Problem::internal("parse a template version", &error))?;
        shared.carry(templates.store(), &record.tenant, reference).await.map(Some)
    }
}
