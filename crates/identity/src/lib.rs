//! Keys, certificates and mutual TLS between control and nodes.
//!
//! ```text
//!   control's secret (a file of control's) ──seals──► authorities (rows of the database)
//!   an authority = a CA key, which issues certificates
//!                + a signing key, which signs requests to nodes
//!   a node       = a key of its own, enrolled once under its name
//! ```
//!
//! A certificate names one peer: control, or one node by its number. Nodes accept
//! connections of control only; control accepts connections of nodes, and believes each
//! of them about itself only. `docs/design/0029-node-identity.md` has the reasons.

mod authority;
mod beat;
mod certificate;
mod clock;
mod connect;
mod control_key;
mod keys;
mod node;
pub mod private_file;
mod replay;
mod signature;
mod tls;
mod token;

pub use authority::{Authority, AuthorityError};
pub use beat::{read_beat, sign_beat};
pub use certificate::{Peer, PeerError, PeerIdentity};
pub use clock::PlatformClock;
pub use connect::{ConnectError, Connector, Route};
pub use control_key::{ControlKeyError, ControlKeys};
pub use keys::{KeyError, KeyPair, PublicKey, digest, random};
pub use node::{NodeIdentity, NodeIdentityError, pending_key};
pub use private_file::PrivateFileError;
pub use replay::ReplayCache;
pub use signature::{Purpose, SignatureError, sign, sign_bytes, verify, verify_bytes};
pub use tls::{Clients, Endpoint, TlsConfigError, pinned_client, unverified_client};
pub use token::{EnrolmentToken, InvalidToken};
