//! Fetches what another node built, when it is first needed here.

use std::io::Read as _;
use std::sync::Arc;

use belljar_objects::Digest as Blob;
use belljar_template::oci::Caps;
use belljar_template::store::{Layer, StoreError};
use belljar_template::{Digest, Reference, Store, pack};

use super::carry::{Packed, PackedLayer, blocking, layers_of};
use super::{Shared, away};
use crate::keys::Tenant;
use crate::lifecycle::unhurried;
use crate::problem::{Kind, Problem};
use crate::start::Actions;
use crate::template::{BuildRecord, Known, Record};

/// As many as a build may come to, and some.
const MOST_LAYERS: usize = 64;
const MOST_MANIFEST: u64 = 4 << 20;

/// Why what was fetched is not used.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("cannot parse the template's manifest")]
    Manifest(#[source] serde_json::Error),
    #[error("cannot read the template's manifest")]
    Read(#[source] std::io::Error),
    #[error("fetched another template than requested: {0}")]
    Other(&'static str),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Pack(#[from] pack::PackError),
}

impl Shared {
    pub(super) async fn fetch(
        &self,
        store: &Store,
        record: &Record,
        build: &BuildRecord,
        from: &Blob,
    ) -> Result<(), Problem> {
        let cannot = |error| away("fetch the template", &error);
        let file = self.objects.get_blob(from).await.map_err(cannot)?;
        let (expected, version) = (record.clone(), build.version.clone().unwrap_or_default());
        let packed = blocking("read the template", move || read(file, &expected, &version)).await?;
        let (reading, tenant) = (store.clone(), record.tenant.clone());
        let usable = blocking("read the templates", move || {
            // A layer of another tenant's is fetched all the same: nobody learns here
            // what others have.
            layers_of(&reading, |owner| owner.is_none_or(|owner| owner == tenant.as_str()))
        })
        .await?;
        check_room(store, &packed, |digest| usable.contains(digest))?;
        let mut held = Vec::new();
        for layer in &packed.layers {
            let is_usable = usable.contains(&layer.digest);
            held.push(self.fetch_layer(store, layer, is_usable).await?);
        }
        let (store, manifest) = (store.clone(), packed.manifest);
        blocking("store the template", move || {
            let published = store.publish(&manifest);
            // Held until the version names them.
            drop(held);
            published
        })
        .await
    }

    async fn fetch_layer(
        &self,
        store: &Store,
        layer: &PackedLayer,
        is_usable: bool,
    ) -> Result<Layer, Problem> {
        let _turn = self.fetching.turn(layer.digest.to_string()).await;
        if is_usable {
            let (reading, digest) = (store.clone(), layer.digest);
            let found = blocking("find a layer", move || reading.layer(&digest)).await?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let cannot = |error| away("fetch a layer", &error);
        let mut file = self.objects.get_blob(&layer.blob).await.map_err(cannot)?;
        let (store, digest) = (store.clone(), layer.digest);
        blocking("unpack a layer", move || {
            let work = store.workspace()?;
            let tree = work.path().join("layer");
            std::fs::create_dir(&tree).map_err(FetchError::Read)?;
            pack::unpack(&mut file, &tree, Caps::default())?;
            Ok::<_, FetchError>(store.add_known_layer(&tree, &digest)?)
        })
        .await
    }
}

/// Reads what a build is made of, and sees that it is what was asked for. A
/// manifest says which directories of the host are shown: none, in what tenants
/// build.
fn read(file: std::fs::File, record: &Record, version: &str) -> Result<Packed, FetchError> {
    let mut text = Vec::new();
    file.take(MOST_MANIFEST).read_to_end(&mut text).map_err(FetchError::Read)?;
    let packed: Packed = serde_json::from_slice(&text).map_err(FetchError::Manifest)?;
    let manifest = &packed.manifest;
    let is_owner = manifest.defaults.owner.as_deref() == Some(record.tenant.as_str());
    if manifest.name != record.stored_name() || manifest.version != version || !is_owner {
        return Err(FetchError::Other("its name, version or owner differs"));
    }
    if !manifest.binds.is_empty() {
        return Err(FetchError::Other("it mounts directories of the host"));
    }
    let digests: Vec<Digest> = packed.layers.iter().map(|layer| layer.digest).collect();
    if digests != manifest.layers || digests.len() > MOST_LAYERS {
        return Err(FetchError::Other("its layers differ from its manifest"));
    }
    Ok(packed)
}

fn check_room(
    store: &Store,
    packed: &Packed,
    is_usable: impl Fn(&Digest) -> bool,
) -> Result<(), Problem> {
    let missing = packed.layers.iter().filter(|layer| !is_usable(&layer.digest));
    let needed = missing.map(|layer| layer.bytes).fold(0, u64::saturating_add);
    let free = rustix::fs::statvfs(store.root());
    let free = free.map_err(|error| Problem::internal("check free disk space", &error))?;
    if free.f_bavail.saturating_mul(free.f_frsize) < needed {
        let message = "the server has no disk space for the template";
        return Err(Problem::new(Kind::NoSpace, "no_space", message));
    }
    Ok(())
}

impl Actions {
    /// Finds a template that the tenant may use, on this node or another.
    pub(crate) async fn find_template(
        &self,
        tenant: &Tenant,
        name: &str,
    ) -> Result<Arc<Known>, Problem> {
        let templates = self.templates();
        if templates.shared().is_none() {
            return templates.find(tenant, name);
        }
        if let Some(known) = templates.built_in(name)? {
            return Ok(known);
        }
        let mut met = self.meet(tenant).await;
        let mut meant = templates.own().resolve(tenant, name);
        if !matches!(meant, Ok(Some(_))) {
            // Perhaps it was finished on another node just now.
            met = self.meet_anew(tenant).await;
            meant = templates.own().resolve(tenant, name);
        }
        if let Ok(Some((record, build))) = meant {
            let actions = self.clone();
            // Whoever asks next wants it too.
            unhurried(async move { actions.bring(record, build).await }).await?;
        }
        match templates.find(tenant, name) {
            // Whoever could not look around does not know that there is none.
            Err(problem) if problem.kind == Kind::NotFound => Err(met.err().unwrap_or(problem)),
            found => found,
        }
    }

    /// Fetches a version, unless it is here already.
    async fn bring(&self, record: Record, build: BuildRecord) -> Result<(), Problem> {
        let templates = self.templates();
        let (Some(shared), Some(packed)) = (templates.shared(), build.packed) else {
            return Ok(());
        };
        let version = build.version.as_deref().unwrap_or_default();
        let reference = format!("{}@{version}", record.stored_name());
        let parsed = reference.parse::<Reference>();
        let parsed =
            parsed.map_err(|error| Problem::internal("parse a template version", &error))?;
        let is_here = || match templates.store().show(&parsed) {
            Ok(_) => Ok(true),
            Err(StoreError::Unknown(_)) => Ok(false),
            Err(error) => Err(Problem::internal("read the template", &error)),
        };
        if is_here()? {
            return Ok(());
        }
        let _turn = shared.fetching.turn(reference.clone()).await;
        if is_here()? {
            return Ok(());
        }
        tracing::info!("fetching template `{reference}`");
        shared.fetch(templates.store(), &record, &build, &packed).await
    }
}
