//! What the pages of an index promise: which file lies where, and what its bytes
//! hash to.
//!
//! A page comes from an index that the policy allows. What it names may be
//! fetched, exactly that and nothing beside it; what it gives a digest for may
//! be kept and shown to others. Pages must arrive decoded (no gzip) and whole.

mod html;
mod packument;
mod simple;
mod sparse;
#[cfg(test)]
mod tests;

pub use sparse::Downloads;

use belljar_domain::network::Scheme;

use crate::configured::{Manager, Role};
use crate::digest::Digest;
use crate::url::Url;

/// One file that an index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promised {
    pub url: Url,
    /// None when the index gives no digest, or only one that can be forged
    /// (MD5, SHA-1): such a file may be fetched but is never kept.
    pub digest: Option<Digest>,
}

/// What a page turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    Files {
        files: Vec<Promised>,
        /// Entries whose URL is not one that we would ask for.
        skipped: usize,
    },
    /// Cargo's `config.json`: how the URLs of files are made from now on.
    Downloads(Downloads),
    /// Nothing that names files.
    Other,
}

/// Why a page could not be read. It is passed on all the same, but promises
/// nothing.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("the index page is too large: {0} bytes, at most {MOST_BYTES}")]
    TooLarge(usize),
    #[error("the index page lists more than {MOST_FILES} files")]
    TooMany,
    #[error("the index page is not valid JSON of its index type")]
    Json(#[source] serde_json::Error),
    #[error("the index page is not UTF-8")]
    Text,
    #[error("cannot parse the file locations of the index")]
    Template,
}

pub const MOST_BYTES: usize = 64 << 20;
pub const MOST_FILES: usize = 400_000;

/// What a page is read with.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub manager: Manager,
    pub role: &'a Role,
    /// The index that the page belongs to.
    pub index: &'a Url,
    /// The page itself.
    pub page: &'a Url,
    /// The answer's `content-type`, as it came.
    pub content_type: Option<&'a str>,
    /// What this index's `config.json` said before; cargo only.
    pub downloads: Option<&'a Downloads>,
}

/// Reads a page that was answered with 200.
pub fn read(asked: Asked<'_>, body: &[u8]) -> Result<Page, Unreadable> {
    if body.len() > MOST_BYTES {
        return Err(Unreadable::TooLarge(body.len()));
    }
    match asked.manager {
        Manager::Pip => simple::read(asked, body),
        Manager::Npm => packument::read(asked, body),
        Manager::Cargo => sparse::read(asked, body),
        // Their files lie below the index itself, and are allowed with it.
        Manager::Apt | Manager::Go => Ok(Page::Other),
    }
}

/// Collects what a page names.
struct Collected {
    base: Url,
    files: Vec<Promised>,
    skipped: usize,
}

impl Collected {
    fn on(base: Url) -> Self {
        Self { base, files: vec![], skipped: 0 }
    }

    /// Adds what `reference` means on this page, and gives its URL.
    fn add(&mut self, reference: &str, digest: Option<Digest>) -> Result<Option<Url>, Unreadable> {
        let url = self.base.join(reference).ok().filter(|url| !self.is_downgrade(url));
        match url {
            Some(url) => {
                self.push(url.clone(), digest)?;
                Ok(Some(url))
            }
            None => {
                self.skipped += 1;
                Ok(None)
            }
        }
    }

    fn push(&mut self, url: Url, digest: Option<Digest>) -> Result<(), Unreadable> {
        if self.files.len() == MOST_FILES {
            return Err(Unreadable::TooMany);
        }
        self.files.push(Promised { url, digest });
        Ok(())
    }

    /// A page that was fetched safely does not send anybody to an unsafe place.
    fn is_downgrade(&self, url: &Url) -> bool {
        self.base.scheme() == Scheme::Https && url.scheme() == Scheme::Http
    }

    fn page(self) -> Page {
        Page::Files { files: self.files, skipped: self.skipped }
    }
}

/// The type itself, without parameters, in lower case.
fn media_type(content_type: Option<&str>) -> String {
    let text = content_type.unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
