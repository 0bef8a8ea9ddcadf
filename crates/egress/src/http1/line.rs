//! The first line of a request.

use super::bytes::is_token;
use super::{LONGEST_METHOD, Malformed, Target, Version};

/// Reads `METHOD target HTTP/1.1`, without its line end.
pub(super) fn parse(line: &[u8]) -> Result<(String, Target, Version), Malformed> {
    let mut parts = line.split(|b| *b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Malformed::RequestLine);
    };
    if !is_token(method) || method.len() > LONGEST_METHOD {
        return Err(Malformed::Method);
    }
    let method = std::str::from_utf8(method).map_err(|_| Malformed::Method)?;
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(Malformed::Version),
    };
    Ok((method.to_owned(), Target::parse(method, target)?, version))
}
