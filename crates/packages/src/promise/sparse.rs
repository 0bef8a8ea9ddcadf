//! Cargo's sparse index: `config.json`, and a file of JSON lines for each crate.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Asked, Collected, Page, Unreadable};
use crate::digest::Digest;

/// How the URL of a crate's file is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloads(String);

#[derive(Deserialize)]
struct Config {
    dl: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    vers: Cow<'a, str>,
    #[serde(borrow)]
    cksum: Cow<'a, str>,
}

const MARKERS: [&str; 5] =
    ["{crate}", "{version}", "{prefix}", "{lowerprefix}", "{sha256-checksum}"];

pub(super) fn read(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    let base = asked.index.path().trim_end_matches('/');
    let below = asked.page.path().strip_prefix(base).map(|path| path.trim_start_matches('/'));
    match below {
        Some("config.json") => {
            let config: Config = serde_json::from_slice(body).map_err(Unreadable::Json)?;
            Downloads::parse(config.dl).map(Page::Downloads)
        }
        Some(path) if path.contains('/') => match asked.downloads {
            Some(downloads) => files(asked, downloads, body),
            None => Ok(Page::Other),
        },
        _ => Ok(Page::Other),
    }
}

fn files(asked: Asked<'_>, downloads: &Downloads, body: &[u8]) -> Result<Page, Unreadable> {
    let mut found = Collected::on(asked.page.clone());
    // A crate whose download is asked for lies below the index at times: that
    // is no page, and no line of it is JSON.
    for line in body.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Line<'_> = serde_json::from_slice(line).map_err(Unreadable::Json)?;
        let digest = Digest::from_hex("sha256", &line.cksum);
        match downloads.url(&line) {
            Some(url) => {
                found.add(&url, digest)?;
            }
            None => found.skipped += 1,
        }
    }
    Ok(found.page())
}

impl Downloads {
    fn parse(text: String) -> Result<Self, Unreadable> {
        let mut rest = text.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(Unreadable::Template)?;
            if !MARKERS.contains(&format!("{{{name}}}").as_str()) {
                return Err(Unreadable::Template);
            }
            rest = after;
        }
        Ok(Self(text))
    }

    /// None when a name could change what the URL means.
    fn url(&self, line: &Line<'_>) -> Option<String> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 128
                && !text.starts_with('.')
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b))
        };
        if !is_name(&line.name) || !is_name(&line.vers) {
            return None;
        }
        let digits = Digest::from_hex("sha256", &line.cksum)?.hex();
        if !MARKERS.iter().any(|marker| self.0.contains(marker)) {
            return Some(format!("{}/{}/{}/download", self.0, line.name, line.vers));
        }
        let url = self.0.replace("{crate}", &line.name).replace("{version}", &line.vers);
        let url = url.replace("{prefix}", &prefix(&line.name));
        let url = url.replace("{lowerprefix}", &prefix(&line.name.to_ascii_lowercase()));
        Some(url.replace("{sha256-checksum}", &digits))
    }
}

/// The folder of a crate, by the length of its name. Names are ASCII here.
fn prefix(name: &str) -> String {
    let part = |range| name.get(range).unwrap_or_default();
    match name.len() {
        0..=2 => name.len().to_string(),
        3 => format!("3/{}", part(0..1)),
        _ => format!("{}/{}", part(0..2), part(2..4)),
    }
}

#[cfg(test)]
impl Downloads {
    pub(super) fn parse_for_tests(text: &str) -> Self {
        Self::parse(text.to_owned()).unwrap()
    }

    pub(super) fn url_for_tests(&self, name: &str, cksum: &str) -> String {
        self.url(&Line { name: name.into(), vers: "1".into(), cksum: cksum.into() }).unwrap()
    }
}
