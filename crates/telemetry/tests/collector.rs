//! A collector that is slow to come up, encrypted, and wants to know who sends.
//!
//! Requirements: O1

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use belljar_telemetry::{
    Context, ExportOptions, KnownSpan, Role, Settings, record_known, start_traces,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Keys {
    folder: tempfile::TempDir,
}

impl Keys {
    /// An authority, and with it a certificate of the server and one of the client.
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("authority"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let names = vec!["localhost".to_owned()];
            let signed = CertificateParams::new(names).unwrap().signed_by(&key, &authority);
            std::fs::write(folder.path().join(name), signed.unwrap().pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Accepts only clients with a certificate of the authority.
    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authority = CertificateDer::from_pem_file(self.at("authority")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let chain = vec![CertificateDer::from_pem_file(self.at("server")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(self.at("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// The head and the body of one request.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> (String, serde_json::Value) {
    let mut bytes = Vec::new();
    let end = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "the request ends within its head");
        bytes.extend_from_slice(&piece[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        body.extend_from_slice(&piece[..read]);
    }
    (head, serde_json::from_slice(&body).unwrap())
}

/// O1: a batch is sent again when the collector says so, over TLS, with the operator's header.
#[tokio::test]
async fn a_batch_is_sent_again_when_the_collector_asks_for_it() {
    let keys = Keys::make();
    let acceptor = keys.acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let collector = tokio::spawn(async move {
        let mut taken = Vec::new();
        for answer in [
            "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        ] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            taken.push((Instant::now(), request(&mut stream).await));
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
        taken
    });
    let export = ExportOptions {
        headers: Some("Authorization=Bearer%20sesame".to_owned()),
        authorities: Some(keys.at("authority")),
        client_certificate: Some(keys.at("client")),
        client_key: Some(keys.at("client.key")),
    };
    let otlp = Some(format!("https://localhost:{port}"));
    let settings = Settings { otlp, export, ..Settings::default() };
    let telemetry = start_traces(Role::Ask, &settings).unwrap();
    let (trace, run) = (0xabc, Context::known(0xabc, 1, true));
    record_known(KnownSpan {
        name: "chat m".to_owned(),
        context: Context::known(trace, 2, true),
        parent: Some(run),
        links: vec![Context::known(7, 8, true)],
        is_client: true,
        start: 1,
        end: 2,
        fields: vec![("gen_ai.request.model", "m".into())],
    });
    // One that is not to be kept.
    record_known(KnownSpan {
        name: "turn".to_owned(),
        context: Context::known(trace, 3, false),
        parent: None,
        links: vec![],
        is_client: false,
        start: 1,
        end: 2,
        fields: vec![],
    });
    let taken = tokio::time::timeout(PATIENCE, collector).await.unwrap().unwrap();
    telemetry.stop().await;
    let [(first, (_, refused)), (second, (head, body))] = &taken[..] else { panic!("{taken:?}") };
    // As the collector asks, and not earlier.
    assert!(*second - *first >= Duration::from_millis(1900), "{:?}", *second - *first);
    assert_eq!(refused, body, "the same batch");
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer sesame\r\n"), "{head}");
    let service = &body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"];
    assert_eq!(service, "belljar-ask");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span["traceId"], "00000000000000000000000000000abc");
    assert_eq!(
        (&span["spanId"], &span["parentSpanId"]),
        (&"0000000000000002".into(), &"0000000000000001".into())
    );
    assert_eq!((&span["kind"], &span["name"]), (&3.into(), &"chat m".into()));
    assert_eq!(span["links"][0]["spanId"], "0000000000000008");
}
