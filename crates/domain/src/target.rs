//! The target of a request by E2B's clients, read from its host, its headers and its path.
//!
//! One port may serve everything, so the order matters; it is that of
//! `docs/e2b-compatibility.md`. It exists once, because control and nodes must never read the
//! same request differently.

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget<'a> {
    /// A port of a sandbox, named by the host. It comes first: servers inside have headers of
    /// their own.
    Host { id: &'a str, port: u16 },
    /// The API, with a key. It comes before the sandbox's header, because old SDKs leave that
    /// on calls to the API.
    Keyed,
    /// Content of the volume with this id.
    Volume(&'a str),
    /// A port of a sandbox, named by headers; without a port it is the agent's.
    Header { id: &'a str, port: Option<u16> },
    /// The agent of the sandbox that has this token.
    Token(&'a str),
    /// A file, by a link that is signed with a sandbox's token.
    SignedLink,
    /// An upload to an address that the API issued.
    Upload(&'a str),
}

/// The part of a request that decides its target.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a, H> {
    pub method: &'a str,
    pub path: &'a str,
    pub host: Option<&'a str>,
    /// Returns the value of the header with this lowercase name.
    pub header: H,
}

impl<'a, H: Fn(&str) -> Option<&'a str>> RequestHead<'a, H> {
    /// Returns the target, or none if the request shows nothing that names one.
    pub fn target(&self) -> Option<RequestTarget<'a>> {
        if let Some((port, id)) = self.host.and_then(sandbox_of_host) {
            return Some(RequestTarget::Host { id, port });
        }
        if (self.header)("x-api-key").is_some() {
            return Some(RequestTarget::Keyed);
        }
        if let Some(rest) = self.path.strip_prefix("/volumecontent/") {
            return Some(RequestTarget::Volume(rest.split('/').next().unwrap_or_default()));
        }
        if let Some(id) = (self.header)("e2b-sandbox-id") {
            let port = (self.header)("e2b-sandbox-port").and_then(|port| port.parse().ok());
            return Some(RequestTarget::Header { id, port });
        }
        if let Some(token) = (self.header)("x-access-token") {
            return Some(RequestTarget::Token(token));
        }
        if self.path == "/files" && ["GET", "POST"].contains(&self.method) {
            return Some(RequestTarget::SignedLink);
        }
        self.path.strip_prefix("/template-files/").map(RequestTarget::Upload)
    }
}

/// Returns true if a text has the form of a link's signature: `v1_` and a SHA-256 in base64
/// without padding. One that has not is no sandbox's, and need not be looked for.
pub fn is_link_signature(text: &str) -> bool {
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    text.strip_prefix("v1_").is_some_and(|hash| hash.len() == 43 && hash.bytes().all(is_base64))
}

/// Returns the port and the sandbox of a host like `8080-<id>.example.com`.
pub fn sandbox_of_host(host: &str) -> Option<(u16, &str)> {
    let (first, _) = host.split_once('.')?;
    let (port, id) = first.split_once('-')?;
    let fits = id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) && !id.is_empty();
    if fits { Some((port.parse().ok()?, id)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, headers: &[(&str, &str)], target: Option<RequestTarget<'_>>) {
        let header =
            |name: &str| headers.iter().find_map(|(own, value)| (*own == name).then_some(*value));
        let head = RequestHead { method: "GET", path, host: header("host"), header };
        assert_eq!(head.target(), target, "{path} {headers:?}");
    }

    #[test]
    fn hosts_name_a_port_and_a_sandbox() {
        assert_eq!(sandbox_of_host("8080-abc2.example.com"), Some((8080, "abc2")));
        assert_eq!(sandbox_of_host("8080-abc2.localhost:3000"), Some((8080, "abc2")));
        for other in ["example.com", "api.example.com", "x-abc.example.com", "1-A.b", "99999-a.b"] {
            assert_eq!(sandbox_of_host(other), None, "{other}");
        }
    }

    #[test]
    fn signatures_have_one_form() {
        assert!(is_link_signature("v1_HEW7fDvq8wDd0bCgcYpP4vKMGjo6waU8ir2ib+mh/GY"));
        let long = format!("v1_{}", "A".repeat(44));
        let space = format!("v1_{}", " ".repeat(43));
        for text in ["", "v1_", "x", &long[..45], &long, &space, &long[3..]] {
            assert!(!is_link_signature(text), "{text}");
        }
    }

    #[test]
    fn the_first_that_fits_decides() {
        use RequestTarget as Target;
        let (host, key) = (("host", "80-abc.example.com"), ("x-api-key", "k"));
        let (id, port) = (("e2b-sandbox-id", "abc"), ("e2b-sandbox-port", "80"));
        let token = ("x-access-token", "t");
        check("/files", &[host, key, id, token], Some(Target::Host { id: "abc", port: 80 }));
        check("/volumecontent/v/x", &[key, id, token], Some(Target::Keyed));
        check("/volumecontent/v/x", &[id, token], Some(Target::Volume("v")));
        check("/files", &[id, port, token], Some(Target::Header { id: "abc", port: Some(80) }));
        check("/files", &[id, token], Some(Target::Header { id: "abc", port: None }));
        check("/files", &[token], Some(Target::Token("t")));
        check("/files", &[("host", "example.com")], Some(Target::SignedLink));
        check("/template-files/x", &[], Some(Target::Upload("x")));
        check("/sandboxes", &[], None);
    }
}
