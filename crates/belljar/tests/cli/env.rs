//! `belljar env`: a trust store that is extended, never replaced.

use crate::harness::Place;

fn count(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).matches("-----BEGIN CERTIFICATE-----").count()
}

#[test]
fn a_server_with_tls_adds_its_authority_to_the_systems() {
    let place = Place::new();
    let data = place.path().join("data");
    let data = data.to_str().unwrap();
    place.run(&["tls", "init", "--data", data]).expect_status(0);
    let args = ["env", "--domain", "sb.localhost:8443", "--key", "k", "--data", data];
    let ran = place.run(&args);
    let text = String::from_utf8(ran.expect_status(0).stdout.clone()).unwrap();
    assert!(text.contains(&format!("export SSL_CERT_FILE='{data}/tls/bundle.pem'")), "{text}");
    assert!(text.contains(&format!("export NODE_EXTRA_CA_CERTS='{data}/tls/ca.pem'")), "{text}");
    let bundle = place.read("data/tls/bundle.pem");
    assert!(bundle.starts_with(&place.read("data/tls/ca.pem")), "ours comes first");
    let certificates = count(&bundle);
    assert!(certificates > 1, "the system's authorities are there, too");
    // Asked again from a shell that has the variables: it does not grow.
    let mut again = place.command(&args);
    let again = again.env("SSL_CERT_FILE", place.path().join("data/tls/bundle.pem"));
    assert!(again.output().unwrap().status.success());
    assert_eq!(count(&place.read("data/tls/bundle.pem")), certificates);
}

#[test]
fn a_missing_authority_is_an_error() {
    let place = Place::new();
    let data = place.path().join("none");
    let data = data.to_str().unwrap();
    let ran = place.run(&["env", "--domain", "sb.localhost:8443", "--key", "k", "--data", data]);
    ran.expect_status(1).expect_text("").expect_words(&[
        "cannot read the authority",
        "none/tls/ca.pem",
        "--data names the server's data directory",
        "--public-ca",
    ]);
    let args = ["env", "--domain", "sb.example.com", "--key", "k", "--data", data, "--public-ca"];
    let ran = place.run(&args);
    let text = String::from_utf8_lossy(&ran.expect_status(0).stdout).into_owned();
    assert!(text.contains("E2B_DOMAIN='sb.example.com'") && !text.contains("CERT"), "{text}");
}
