//! Pages of Python's simple index: HTML (PEP 503, 658, 714) and JSON (PEP 691).

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;

use super::html::{self, Tag};
use super::{Asked, Collected, Page, Unreadable, media_type};
use crate::configured::Role;
use crate::digest::Digest;
use crate::url::Url;

pub(super) fn read(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    match media_type(asked.content_type).as_str() {
        "application/vnd.pypi.simple.v1+json" | "application/vnd.pypi.simple.latest+json" => {
            json(asked, body)
        }
        "text/html" | "application/vnd.pypi.simple.v1+html" | "application/xhtml+xml" => {
            html(asked, body)
        }
        _ => Ok(Page::Other),
    }
}

/// Whether a link is to a file that pip would install; the list of all projects
/// links to pages.
fn is_file(url: &Url) -> bool {
    const ENDINGS: [&str; 8] =
        [".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz", ".tar", ".egg"];
    let path = url.path().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn html(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    let page = std::str::from_utf8(body).map_err(|_| Unreadable::Text)?;
    let mut found = Collected::on(asked.page.clone());
    let mut has_base = false;
    for tag in html::tags(page) {
        if tag.is("base") && !has_base {
            if let Some(base) = tag.get("href") {
                has_base = true;
                // pip resolves against it even when it leads elsewhere.
                match asked.page.join(base) {
                    Ok(base) if !found.is_downgrade(&base) => found.base = base,
                    _ => return Ok(found.page()),
                }
            }
        } else if tag.is("a")
            && let Some(href) = tag.get("href")
        {
            link(asked.role, &mut found, &tag, href)?;
        }
    }
    Ok(found.page())
}

fn link(role: &Role, found: &mut Collected, tag: &Tag<'_>, href: &str) -> Result<(), Unreadable> {
    let href = href.trim();
    let Ok(target) = found.base.join(href) else {
        found.skipped += 1;
        return Ok(());
    };
    // Links of such a page may lead anywhere; of an index they are all files,
    // or pages of projects, which are allowed with the index.
    if !is_file(&target) {
        found.skipped += usize::from(*role == Role::Links);
        return Ok(());
    }
    let fragment = href.split_once('#').map_or("", |(_, fragment)| fragment);
    let digest = fragment.split('&').find_map(|part| {
        let (algorithm, digits) = part.split_once('=')?;
        Digest::from_hex(algorithm, digits)
    });
    let metadata = tag.get("data-core-metadata").or_else(|| tag.get("data-dist-info-metadata"));
    if let (Some(url), Some(metadata)) = (found.add(href, digest)?, metadata) {
        let digest = metadata.split_once('=').and_then(|(name, hex)| Digest::from_hex(name, hex));
        found.push(url.with_suffix(".metadata"), digest)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Project<'a> {
    #[serde(borrow, default)]
    files: Vec<File<'a>>,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow, default)]
    hashes: HashMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow, default, rename = "core-metadata")]
    core: Option<Metadata<'a>>,
    #[serde(borrow, default, rename = "dist-info-metadata")]
    dist_info: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Metadata<'a> {
    Is(bool),
    #[serde(borrow)]
    Hashes(HashMap<Cow<'a, str>, Cow<'a, str>>),
}

fn json(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    let project: Project<'_> = serde_json::from_slice(body).map_err(Unreadable::Json)?;
    let mut found = Collected::on(asked.page.clone());
    for file in project.files {
        let Some(url) = found.add(&file.url, strongest(&file.hashes))? else { continue };
        let metadata = match file.core.or(file.dist_info) {
            None | Some(Metadata::Is(false)) => continue,
            Some(Metadata::Is(true)) => None,
            Some(Metadata::Hashes(hashes)) => strongest(&hashes),
        };
        found.push(url.with_suffix(".metadata"), metadata)?;
    }
    Ok(found.page())
}

/// pip prefers SHA-256; an index that gives several promises all of them.
fn strongest(hashes: &HashMap<Cow<'_, str>, Cow<'_, str>>) -> Option<Digest> {
    let get = |name: &str| hashes.get(name).and_then(|digits| Digest::from_hex(name, digits));
    ["sha256", "sha512", "sha384"].into_iter().find_map(get)
}
