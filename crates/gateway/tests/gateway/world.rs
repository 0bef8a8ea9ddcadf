//! A world of one name server and a few servers, all on loopback.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_domain::network::{CallRef, Policy, Reach, Row, Rule, Subject};
use belljar_gateway::{Config, Gateway};
use belljar_peer_proto::gateway::{Belongs, FromGateway, Session};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// Nothing takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) names: Arc<Names>,
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    /// What signs the servers' certificates.
    pub(crate) roots: RootCertStore,
    authority: CertifiedIssuer<'static, KeyPair>,
    rows: watch::Receiver<Vec<Row>>,
    folder: tempfile::TempDir,
}

/// What names lead to, and how often each was asked for.
#[derive(Default)]
pub(crate) struct Names {
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.addresses.lock().unwrap().insert(name.to_owned(), addresses);
    }

    pub(crate) fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == name).count()
    }
}

/// A sandbox's way out, seen from inside.
pub(crate) struct Sandbox {
    pub(crate) id: SandboxId,
    pub(crate) address: SocketAddr,
    pub(crate) authority: String,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// With more settings.
    pub(crate) async fn with(settings: &str) -> Self {
        let names = Arc::new(Names::default());
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let resolver = server.local_addr().unwrap();
        tokio::spawn(serve_names(server, Arc::clone(&names)));
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let pem = folder.path().join("roots.pem");
        std::fs::write(&pem, authority.pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let text = format!(
            "[gateway]\nopenings = [\"127.0.0.0/8\"]\nresolver = [\"{resolver}\"]\n\
             trusted_roots = [{pem:?}]\ncassettes = {:?}\n{settings}",
            folder.path().join("cassettes")
        );
        let config = Config::parse(&text).unwrap();
        let (gateway, mut events) = Gateway::new(config).unwrap();
        let (sender, rows) = watch::channel(Vec::new());
        let answering = gateway.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    FromGateway::Rows { rows } => sender.send_modify(|all| all.extend(rows)),
                    FromGateway::Whose { question, socket, .. } => {
                        let number = if socket.inode > 0 { 7 } else { 0 };
                        let call = Some(CallRef { number, name: None, ended: false });
                        answering.answer(question, Belongs { call, ..Belongs::default() });
                    }
                    other => panic!("not an event: {other:?}"),
                }
            }
        });
        let seen = Arc::default();
        Self { gateway, names, seen, roots, authority, rows, folder }
    }

    /// A plain server. It answers by path: see [`answer`].
    pub(crate) async fn plain(&self) -> u16 {
        self.plain_at("127.0.0.1:0".parse().unwrap()).await.unwrap()
    }

    pub(crate) async fn plain_at(&self, address: SocketAddr) -> std::io::Result<u16> {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(port)
    }

    /// The same behind TLS, as `name`; with HTTP/2 if the client wants it.
    pub(crate) async fn secure(&self, name: &str) -> u16 {
        self.secure_at(name, "127.0.0.1:0".parse().unwrap()).await.unwrap()
    }

    pub(crate) async fn secure_at(&self, name: &str, address: SocketAddr) -> std::io::Result<u16> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let leaf = params.signed_by(&key, &self.authority).unwrap();
        let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(port)
    }

    /// Opens a sandbox with this policy.
    pub(crate) fn sandbox(&self, policy: Policy) -> Sandbox {
        self.sandbox_of("tenant", policy, false)
    }

    pub(crate) fn sandbox_of(&self, tenant: &str, policy: Policy, diagnosed: bool) -> Sandbox {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let id = SandboxId::from_random([NEXT.fetch_add(1, Ordering::Relaxed); 16]);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subject = Subject {
            tenant: tenant.to_owned(),
            sandbox: id.clone(),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let session = Session { subject, policy, operations: vec![], charged: None };
        let diagnosis = diagnosed.then(|| belljar_sys::diag::open().unwrap());
        let opened = self.gateway.open(session, Some(listener), diagnosis).unwrap();
        Sandbox { id, address, authority: opened.authority }
    }

    /// The rows of a sandbox, once `enough` says so.
    pub(crate) async fn rows(
        &self,
        sandbox: &Sandbox,
        enough: impl Fn(&[Row]) -> bool,
    ) -> Vec<Row> {
        let mut rows = self.rows.clone();
        let of = |rows: &[Row]| -> Vec<Row> {
            rows.iter().filter(|row| row.subject.sandbox == sandbox.id).cloned().collect()
        };
        let waited = tokio::time::timeout(PATIENCE, rows.wait_for(|rows| enough(&of(rows)))).await;
        match waited {
            Ok(rows) => of(&rows.unwrap()),
            Err(_) => panic!("not among the rows: {:#?}", of(&self.rows.borrow())),
        }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

/// Allows these hosts on these ports.
pub(crate) fn allow(hosts: &[(&str, u16)]) -> Policy {
    let rule =
        |(host, port): &(&str, u16)| Rule { ports: vec![*port], ..Rule::of(host.parse().unwrap()) };
    Policy { reach: Reach::Allow(hosts.iter().map(rule).collect()), ..Policy::default() }
}

/// What every server answers: the method, path and body that it saw. `/redirect`
/// leads elsewhere; `/headers` shows what came with the request.
async fn answer(
    request: hyper::Request<Incoming>,
    seen: Arc<Mutex<Vec<String>>>,
) -> Result<hyper::Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    seen.lock().unwrap().push(parts.uri.path().to_owned());
    let respond = |text: String| hyper::Response::new(Full::new(Bytes::from(text)));
    Ok(match parts.uri.path() {
        "/redirect" => {
            let mut response = respond(String::new());
            *response.status_mut() = hyper::StatusCode::FOUND;
            let to = hyper::header::HeaderValue::from_static("http://denied.test/");
            response.headers_mut().insert("location", to);
            response
        }
        "/headers" => respond(format!("{:?}", parts.headers)),
        "/version" => respond(format!("{:?}", parts.version)),
        "/early" => respond("early".to_owned()),
        "/large" => hyper::Response::new(Full::new(Bytes::from(vec![b'x'; 1 << 20]))),
        path => {
            let body = body.collect().await?.to_bytes();
            respond(format!("{} {} {}", parts.method, path, String::from_utf8_lossy(&body)))
        }
    })
}

/// Answers A questions; AAAA get an empty answer, unknown names "no such name".
async fn serve_names(socket: UdpSocket, names: Arc<Names>) {
    let mut buffer = [0; 512];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
        let question = &buffer[12..length];
        let mut labels = Vec::new();
        let mut at = 0;
        while question[at] != 0 {
            let length = usize::from(question[at]);
            labels.push(String::from_utf8_lossy(&question[at + 1..=at + length]).to_lowercase());
            at += length + 1;
        }
        let name = labels.join(".");
        let is_a = question[at + 1..at + 3] == [0, 1];
        let addresses = names.addresses.lock().unwrap().get(&name).cloned();
        if is_a {
            names.asked.lock().unwrap().push(name);
        }
        let found: Vec<Ipv4Addr> = addresses
            .iter()
            .flatten()
            .filter_map(|address| match address {
                IpAddr::V4(address) if is_a => Some(*address),
                _ => None,
            })
            .collect();
        let code = if addresses.is_some() { 0x80 } else { 0x83 };
        let mut answer = vec![buffer[0], buffer[1], 0x81, code, 0, 1, 0];
        answer.push(u8::try_from(found.len()).unwrap());
        answer.extend_from_slice(&[0, 0, 0, 0]);
        answer.extend_from_slice(&question[..at + 5]);
        for address in found {
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend_from_slice(&address.octets());
        }
        let _ = socket.send_to(&answer, peer).await;
    }
}
