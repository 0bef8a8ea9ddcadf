//! Hints: why code that failed may have failed.
//!
//! A hint is advice, made of what the code printed. It never decides an end reason.

/// Output that is looked at, from the end of both streams together.
const TAIL_BYTES: usize = 16 << 10;

/// What package managers print when they reach no index.
const OF_PACKAGES: &[&str] = &[
    "Could not find a version that satisfies the requirement",
    "No matching distribution found",
    // Said by a distribution's pip before it tries to connect.
    "externally-managed-environment",
    "npm error code EAI_AGAIN",
    "npm error code ENOTFOUND",
    "npm error network",
    // Before its version 10.
    "npm ERR! code EAI_AGAIN",
    "npm ERR! code ENOTFOUND",
    "npm ERR! network",
    "Temporary failure resolving",
    "unable to access index for repository",
    "failed to download from `https://",
    "failed to get successful HTTP response from `https://",
];

/// What programs and libraries print when no name resolves and no route exists.
const OF_CONNECTIONS: &[&str] = &[
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Network unreachable",
    "Could not resolve host",
    "unable to resolve host",
    "Failed to establish a new connection",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "failed to lookup address information",
    "dial tcp: lookup",
    "UnknownHostException",
    "bad address '",
];

/// What failed code seems to have needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkNeed {
    /// A package index.
    Packages,
    /// Some host.
    Hosts,
}

/// Reads along with the output of code that has no network.
#[derive(Debug, Clone, Default)]
pub struct NetworkSigns {
    tail: Vec<u8>,
}

impl NetworkSigns {
    /// Takes the next piece of either stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(
            bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default(),
        );
        // Now and then, not for each piece.
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// What the output shows that the code needed, if it shows anything.
    pub fn need(&self) -> Option<NetworkNeed> {
        let start = self.tail.len().saturating_sub(TAIL_BYTES);
        let text = String::from_utf8_lossy(self.tail.get(start..).unwrap_or_default());
        let has = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
        if has(OF_PACKAGES) {
            Some(NetworkNeed::Packages)
        } else {
            has(OF_CONNECTIONS).then_some(NetworkNeed::Hosts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(pieces: &[&str]) -> Option<NetworkNeed> {
        let mut signs = NetworkSigns::default();
        pieces.iter().for_each(|piece| signs.push(piece.as_bytes()));
        signs.need()
    }

    #[test]
    fn failures_to_connect_are_told_from_others() {
        let urlopen = "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name \
                       resolution>";
        assert_eq!(need(&[urlopen]), Some(NetworkNeed::Hosts));
        assert_eq!(need(&["curl: (6) Could not resolve ", "host: x"]), Some(NetworkNeed::Hosts));
        let pip = "ERROR: Could not find a version that satisfies the requirement idna";
        assert_eq!(
            need(&["Temporary failure in name resolution", pip]),
            Some(NetworkNeed::Packages)
        );
        for sign in ["npm error", "npm ERR!"] {
            let npm = format!("{sign} code EAI_AGAIN\n{sign} syscall getaddrinfo\n");
            assert_eq!(need(&[&npm]), Some(NetworkNeed::Packages));
        }
        assert_eq!(need(&["ConnectionRefusedError: [Errno 111] Connection refused"]), None);
        assert_eq!(need(&["ZeroDivisionError: division by zero"]), None);
        assert_eq!(need(&[]), None);
    }

    #[test]
    fn only_the_end_counts_and_only_that_is_held() {
        let mut signs = NetworkSigns::default();
        signs.push(b"Network is unreachable");
        for _ in 0..1000 {
            signs.push(&[b'x'; 1000]);
        }
        assert!(signs.tail.len() <= 3 * TAIL_BYTES, "{}", signs.tail.len());
        assert_eq!(signs.need(), None);
        signs.push(&[vec![b'x'; 100_000], b"Network is unreachable".to_vec()].concat());
        assert_eq!(signs.need(), Some(NetworkNeed::Hosts));
    }
}
