//! What npm's registry says about a package, whole or abbreviated, or about one
//! version of it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::{Asked, Collected, Page, Unreadable, media_type};
use crate::digest::Digest;
use crate::url::Url;

pub(super) fn read(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    let media_type = media_type(asked.content_type);
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    // Tarballs are answered from the same host, as bytes.
    if !is_json || body.first() != Some(&b'{') {
        return Ok(Page::Other);
    }
    let package: Package<'_> = serde_json::from_slice(body).map_err(Unreadable::Json)?;
    let mut found = Collected::on(asked.page.clone());
    let versions = package.versions.0.into_iter().filter_map(|version| version.dist);
    for dist in versions.chain(package.dist) {
        let digest = dist.integrity.as_deref().and_then(Digest::from_integrity);
        let Some(tarball) = dist.tarball else { continue };
        if let Some(url) = found.add(&tarball, digest)? {
            for alias in aliases(asked.index, &url) {
                found.push(alias, digest)?;
            }
        }
    }
    Ok(found.page())
}

/// A mirror often names the tarballs of the registry that it mirrors, and npm
/// then asks the mirror for the same path all the same.
fn aliases(index: &Url, tarball: &Url) -> Vec<Url> {
    if index.is_same_origin(tarball) {
        return vec![];
    }
    let base = index.path().trim_end_matches('/');
    let mut aliases = vec![index.with_path(&format!("{base}{}", tarball.path()))];
    if !base.is_empty() {
        aliases.push(index.with_path(tarball.path()));
    }
    aliases
}

#[derive(Deserialize)]
struct Package<'a> {
    #[serde(borrow, default)]
    versions: Versions<'a>,
    #[serde(borrow, default)]
    dist: Option<Dist<'a>>,
}

#[derive(Deserialize)]
struct Version<'a> {
    #[serde(borrow, default)]
    dist: Option<Dist<'a>>,
}

#[derive(Deserialize)]
struct Dist<'a> {
    #[serde(borrow, default)]
    tarball: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    integrity: Option<Cow<'a, str>>,
}

/// The values of `versions`: the names do not matter, and one that stands there
/// twice is seen twice.
#[derive(Default)]
struct Versions<'a>(Vec<Version<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Versions<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Versions<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("versions by their numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while map.next_key::<serde::de::IgnoredAny>()?.is_some() {
                    values.push(map.next_value()?);
                }
                Ok(Versions(values))
            }
        }
        deserializer.deserialize_map(Values)
    }
}
