//! The trust store of programs that use a server with certificates of its own: the system's
//! authorities and the server's, in one file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files;
use crate::output::{Hint as _, hinted};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Writes `bundle`: the certificates of `authority` first, then those that this host trusts.
pub(super) fn write(authority: &Path, bundle: &Path) -> anyhow::Result<()> {
    let own = fs::read_to_string(authority)
        .with_context(|| format!("cannot read the authority `{}`", authority.display()))
        .hint(
            "--data names the server's data directory; `belljar tls init` makes certificates; \
             --public-ca is for a certificate of a public authority",
        )?;
    let own = certificates(&own);
    ensure!(!own.is_empty(), "`{}` has no certificate", authority.display());
    let system = rustls_native_certs::load_native_certs();
    if system.certs.is_empty() {
        let error = anyhow::anyhow!("this host trusts no authority that could be read");
        return Err(hinted(error, "install ca-certificates, or set SSL_CERT_FILE to a bundle"));
    }
    let system = system.certs.iter().map(|certificate| STANDARD.encode(certificate));
    // The bundle itself may be what SSL_CERT_FILE names now.
    let mut seen = BTreeSet::new();
    let all = own.into_iter().chain(system).filter(|encoded| seen.insert(encoded.clone()));
    let text: String = all.map(|encoded| pem(&encoded)).collect();
    files::write(bundle, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", bundle.display()))
        .hint("choose another file with --bundle")
}

/// The base64 of each certificate in a PEM file, without line ends.
fn certificates(text: &str) -> Vec<String> {
    let bodies = text.split(BEGIN).skip(1).filter_map(|rest| Some(rest.split_once(END)?.0));
    bodies.map(|body| body.split_whitespace().collect()).collect()
}

fn pem(encoded: &str) -> String {
    let mut text = format!("{BEGIN}\n");
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str(END);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_survive_the_way_through_pem() {
        let encoded = STANDARD.encode([7; 200]);
        let text = format!("a comment\n{}{}", pem(&encoded), pem("QUJD"));
        assert_eq!(certificates(&text), [encoded, "QUJD".to_owned()]);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
    }
}
