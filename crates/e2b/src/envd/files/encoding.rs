//! Which encodings a caller takes, and gzip, piece by piece.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use http::{HeaderMap, header};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// Which encoding to answer with; `None`: the caller takes none of ours.
///
/// Clients name a whole list by default, to people nearby as well, for whom
/// packing costs more than it saves. So it is gzip only for who wants nothing
/// else, or no plain bytes.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let text: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
    let text = text.join(",");
    let wanted: Vec<(String, f32)> = text.split(',').filter_map(one).collect();
    let quality = |name: &str| {
        let given = wanted.iter().find(|(known, _)| known == name);
        given.map(|(_, quality)| *quality)
    };
    let any = quality("*");
    let plain = quality("identity").or(any.filter(|quality| *quality == 0.0)).unwrap_or(1.0);
    let gzip = quality("gzip").or(any).unwrap_or(0.0);
    let only_gzip = !wanted.is_empty() && wanted.iter().all(|(name, _)| name == "gzip");
    match (gzip > 0.0, plain > 0.0) {
        (true, false) => Some(Encoding::Gzip),
        (true, true) if only_gzip => Some(Encoding::Gzip),
        (_, true) => Some(Encoding::Identity),
        (false, false) => None,
    }
}

/// One encoding and how much it is wanted.
fn one(text: &str) -> Option<(String, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    Some((name, quality.and_then(|quality| quality.parse().ok()).unwrap_or(1.0)))
}

/// How a body that is sent to us is encoded; an error names what we do not know.
pub(super) fn of_body(headers: &HeaderMap) -> Result<Encoding, String> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Encoding::Identity) };
    let text = value.to_str().unwrap_or_default();
    match one(text).map(|(name, _)| name).as_deref() {
        None | Some("identity") => Ok(Encoding::Identity),
        Some("gzip") => Ok(Encoding::Gzip),
        Some(_) => Err(format!("unsupported Content-Encoding: {text}, supported: [gzip]")),
    }
}

pub(super) struct Packing(GzEncoder<Vec<u8>>);

impl Packing {
    pub(super) fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    /// Takes bytes in and gives out what is ready of them, which may be nothing.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(bytes)?;
        Ok(std::mem::take(self.0.get_mut()))
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.0.finish()
    }
}

pub(super) struct Unpacking(MultiGzDecoder<Vec<u8>>);

impl Unpacking {
    /// Bytes that are taken in at once: what comes out may be a thousand times
    /// as much.
    pub(super) const MOST: usize = 4096;

    pub(super) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(bytes)?;
        Ok(std::mem::take(self.0.get_mut()))
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, want: Option<Encoding>) {
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, header.parse().unwrap())]);
        assert_eq!(accepted(&headers), want, "{header}");
    }

    #[test]
    fn gzip_is_for_those_who_insist() {
        assert_eq!(accepted(&HeaderMap::new()), Some(Encoding::Identity));
        check("gzip", Some(Encoding::Gzip));
        check("GZIP;q=0.5", Some(Encoding::Gzip));
        check("gzip, deflate, br", Some(Encoding::Identity));
        check("gzip, identity;q=0", Some(Encoding::Gzip));
        check("*", Some(Encoding::Identity));
        check("*, identity;q=0", Some(Encoding::Gzip));
        check("gzip;q=0", Some(Encoding::Identity));
    }

    #[test]
    fn who_takes_nothing_of_ours_is_told() {
        check("br, identity;q=0", None);
        check("br, *;q=0", None);
        check("gzip;q=0, identity;q=0", None);
    }

    #[test]
    fn what_is_packed_can_be_unpacked() {
        let text = b"some text, some text, some text".repeat(1000);
        let mut packing = Packing::new();
        let mut packed = Vec::new();
        for piece in text.chunks(777) {
            packed.extend(packing.push(piece).unwrap());
        }
        packed.extend(packing.finish().unwrap());
        assert!(packed.len() < text.len() / 10);
        let mut unpacking = Unpacking::new();
        let mut unpacked = Vec::new();
        for piece in packed.chunks(7) {
            unpacked.extend(unpacking.push(piece).unwrap());
        }
        unpacked.extend(unpacking.finish().unwrap());
        assert_eq!(unpacked, text);
        assert!(Unpacking::new().push(b"this is no gzip at all").is_err());
    }
}
