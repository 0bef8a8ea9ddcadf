//! Iterates over the entries of a layer's archive.
//!
//! Extension headers are read here and not by the `tar` crate, which would take
//! a name or an attribute of any length into memory.

use std::io::{self, Read};

use tar::{Archive, EntryType, PaxExtensions};

use super::unpack::UnpackError;

/// Far above any real path or set of attributes.
const MAX_EXTENSION: u64 = 1 << 20;

/// One entry's header, with the extensions before it applied.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: EntryType,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) modified: Option<i64>,
}

#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    uid: Option<u64>,
    gid: Option<u64>,
    size: Option<u64>,
}

/// Calls `each` with every entry and its content.
pub(super) fn for_each<R: Read>(
    archive: R,
    mut each: impl FnMut(&Header, &mut dyn Read) -> Result<(), UnpackError>,
) -> Result<R, UnpackError> {
    let mut archive = Archive::new(archive);
    let mut extensions = Extensions::default();
    for entry in archive.entries().map_err(UnpackError::Archive)?.raw(true) {
        let mut entry = entry.map_err(UnpackError::Archive)?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => extensions.path = Some(text(&mut entry)?),
            EntryType::GNULongLink => extensions.link = Some(text(&mut entry)?),
            EntryType::XHeader => {
                let size = entry.header().entry_size().map_err(UnpackError::Archive)?;
                let records = bounded(&mut entry, size)?;
                pax(&records, &mut extensions)?;
            }
            EntryType::XGlobalHeader => {}
            // Sparse maps would need support in the reader; no image tool
            // writes them.
            EntryType::GNUSparse => return Err(UnpackError::Sparse),
            _ => {
                let header = merge(entry.header(), std::mem::take(&mut extensions))?;
                each(&header, &mut entry)?;
            }
        }
    }
    Ok(archive.into_inner())
}

fn merge(raw: &tar::Header, extensions: Extensions) -> Result<Header, UnpackError> {
    let id = |extension: Option<u64>, plain: io::Result<u64>| {
        let id = extension.map_or(plain, Ok).map_err(UnpackError::Archive)?;
        u32::try_from(id).ok().filter(|id| *id != u32::MAX).ok_or(UnpackError::Owner(id))
    };
    // Some tools repeat the size. Only a file over 8 GiB needs it, and reading on
    // with another size than the header's would take content for headers.
    let size = raw.entry_size().map_err(UnpackError::Archive)?;
    if extensions.size.is_some_and(|claimed| claimed != size) {
        return Err(UnpackError::Extension);
    }
    Ok(Header {
        path: extensions.path.unwrap_or_else(|| raw.path_bytes().into_owned()),
        link: extensions
            .link
            .unwrap_or_else(|| raw.link_name_bytes().unwrap_or_default().into_owned()),
        kind: raw.entry_type(),
        mode: raw.mode().map_err(UnpackError::Archive)?,
        owner: (id(extensions.uid, raw.uid())?, id(extensions.gid, raw.gid())?),
        modified: raw.mtime().ok().and_then(|time| i64::try_from(time).ok()),
    })
}

/// A long name or link: text that a zero byte ends.
fn text(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, UnpackError> {
    let size = entry.header().entry_size().map_err(UnpackError::Archive)?;
    let mut text = bounded(entry, size)?;
    if let Some(end) = text.iter().position(|&byte| byte == 0) {
        text.truncate(end);
    }
    Ok(text)
}

fn bounded(entry: &mut impl Read, size: u64) -> Result<Vec<u8>, UnpackError> {
    if size > MAX_EXTENSION {
        return Err(UnpackError::Extension);
    }
    let mut content = Vec::new();
    entry.take(size).read_to_end(&mut content).map_err(UnpackError::Archive)?;
    Ok(content)
}

/// Extended attributes among the records are left out: none may enter a layer.
fn pax(records: &[u8], extensions: &mut Extensions) -> Result<(), UnpackError> {
    for record in PaxExtensions::new(records) {
        let record = record.map_err(UnpackError::Archive)?;
        let value = record.value_bytes();
        let number = || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match record.key_bytes() {
            b"path" => extensions.path = Some(value.to_owned()),
            b"linkpath" => extensions.link = Some(value.to_owned()),
            b"uid" => extensions.uid = Some(number().ok_or(UnpackError::Extension)?),
            b"gid" => extensions.gid = Some(number().ok_or(UnpackError::Extension)?),
            b"size" => extensions.size = Some(number().ok_or(UnpackError::Extension)?),
            key if key.starts_with(b"GNU.sparse.") => return Err(UnpackError::Sparse),
            _ => {}
        }
    }
    Ok(())
}
