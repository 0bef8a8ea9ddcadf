//! Removes blobs that no template needs any more, in two rounds.
//!
//! A round writes down what nothing names (`garbage`), and removes what the round
//! before wrote down and still nothing names. Whoever is about to name a blob that
//! is there already looks at `garbage` first, and uploads what it finds there once
//! more: then it is younger than the note, and stays. Between looking and naming
//! there must be less than [`PATIENCE`], as there is between two rounds. The note
//! is changed by compare-and-set, so that of several nodes one does it.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::time::{Duration, SystemTime};

use belljar_objects::{BlobFacts, Digest as Blob, Expected};
use serde::{Deserialize, Serialize};

use super::carry::{Packed, PackedLayer, blocking};
use super::{Shared, away};
use crate::problem::Problem;
use crate::template::Record;

/// Sharing a build takes less, however long its layers are.
pub(super) const PATIENCE: Duration = Duration::from_secs(6 * 3600);

const GARBAGE: &str = "garbage";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Garbage {
    /// Seconds since the epoch.
    at: u64,
    blobs: BTreeSet<Blob>,
}

impl Shared {
    /// What the next round may remove.
    pub(super) async fn garbage(&self) -> Result<BTreeSet<Blob>, Problem> {
        let cannot = |error| away("look for garbage", &error);
        let found = self.objects.get_record(GARBAGE).await.map_err(cannot)?;
        let garbage = found.map(|(content, _)| serde_json::from_slice::<Garbage>(&content));
        match garbage.transpose() {
            Ok(garbage) => Ok(garbage.unwrap_or_default().blobs),
            Err(error) => Err(Problem::internal("find garbage", &error)),
        }
    }

    /// One round, if it is time for one. Answers how many blobs it removed.
    pub(super) async fn collect(
        &self,
        now: SystemTime,
        patience: Duration,
    ) -> Result<usize, Problem> {
        let cannot = |error| away("collect garbage", &error);
        let found = self.objects.get_record(GARBAGE).await.map_err(cannot)?;
        let (last, expected) = match &found {
            Some((content, version)) => {
                let last = serde_json::from_slice::<Garbage>(content);
                let last = last.map_err(|error| Problem::internal("collect garbage", &error))?;
                (last, Expected::Is(version.clone()))
            }
            None => (Garbage::default(), Expected::Absent),
        };
        let noted = SystemTime::UNIX_EPOCH + Duration::from_secs(last.at);
        if now.duration_since(noted).unwrap_or_default() < patience {
            return Ok(0);
        }
        // First what there is, then what is named: what came meanwhile is young.
        let there = self.objects.list_blobs().await.map_err(cannot)?;
        let named = self.named().await?;
        let is_old =
            |facts: &&BlobFacts| now.duration_since(facts.modified).is_ok_and(|age| age > patience);
        let unnamed = there.iter().filter(|facts| !named.contains(&facts.digest)).filter(is_old);
        let unnamed: BTreeSet<Blob> = unnamed.map(|facts| facts.digest).collect();
        let removed: BTreeSet<Blob> = last.blobs.intersection(&unnamed).copied().collect();
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let content = serde_json::to_vec(&Garbage { at: since, blobs: unnamed });
        let content = content.map_err(|error| Problem::internal("collect garbage", &error))?;
        match self.objects.put_record(GARBAGE, content, &expected).await {
            Ok(_) => {}
            // Another node does it.
            Err(error) if error.is_conflict() => return Ok(0),
            Err(error) => return Err(cannot(error)),
        }
        for name in self.layers_in(&removed).await? {
            self.objects.delete_record(&name).await.map_err(cannot)?;
        }
        for blob in &removed {
            self.objects.delete_blob(blob).await.map_err(cannot)?;
        }
        Ok(removed.len())
    }

    /// Every blob that a template needs. One that cannot be understood stops it all.
    async fn named(&self) -> Result<BTreeSet<Blob>, Problem> {
        let cannot = |error| away("collect garbage", &error);
        let mut named = BTreeSet::new();
        for (name, _) in self.objects.list_records("templates").await.map_err(cannot)? {
            let found = self.objects.get_record(&name).await.map_err(cannot)?;
            let Some((content, _)) = found else { continue };
            let record = serde_json::from_slice::<Record>(&content);
            let record = record.map_err(|error| Problem::internal("collect garbage", &error))?;
            for packed in record.builds.iter().filter_map(|build| build.packed) {
                if named.insert(packed) {
                    named.extend(self.layers_of_build(&packed).await?);
                }
            }
        }
        Ok(named)
    }

    async fn layers_of_build(&self, packed: &Blob) -> Result<Vec<Blob>, Problem> {
        let file = self.objects.get_blob(packed).await;
        let mut file = file.map_err(|error| away("collect garbage", &error))?;
        let packed = blocking("collect garbage", move || {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            serde_json::from_slice::<Packed>(&text).map_err(std::io::Error::other)
        })
        .await?;
        Ok(packed.layers.into_iter().map(|layer| layer.blob).collect())
    }

    /// Records of layers that lead to these blobs.
    async fn layers_in(&self, blobs: &BTreeSet<Blob>) -> Result<Vec<String>, Problem> {
        let cannot = |error| away("collect garbage", &error);
        let mut found = Vec::new();
        if blobs.is_empty() {
            return Ok(found);
        }
        for (name, _) in self.objects.list_records("layers").await.map_err(cannot)? {
            let Some((content, _)) = self.objects.get_record(&name).await.map_err(cannot)? else {
                continue;
            };
            let layer = serde_json::from_slice::<PackedLayer>(&content);
            if layer.is_ok_and(|layer| blobs.contains(&layer.blob)) {
                found.push(name);
            }
        }
        Ok(found)
    }
}
