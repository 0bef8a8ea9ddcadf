//! The control plane: proves who asks, decides where it is done, and passes it on.
//!
//! ```text
//!   request ─► route ─┬─ names a sandbox ──────────────► its node   (forward)
//!                     ├─ makes one ─► turn ─► place ─► admit ─► node (create)
//!                     ├─ asks for many ────────────────► all nodes  (merge)
//!                     └─ is about runs ─► whoever offers them here  (inside)
//!   node (mutual TLS) ─► enrol, renew, register, sync               (enrol, nodes)
//! ```
//!
//! Nothing here is remembered: replicas hold what nodes said last, and PostgreSQL
//! decides. What a replica decides in memory (placement, turns) is checked by the
//! node and by the store afterwards. `docs/design/0019-platform.md` has the rest.

mod answer;
mod believe;
mod control;
mod create;
mod dial;
mod enrol;
mod events;
mod fair;
mod fork;
mod forward;
mod inside;
mod keyed;
mod keyring;
mod keys;
mod known_tenants;
mod look_after;
mod merge;
mod node_budgets;
mod node_places;
mod node_rows;
mod node_stored;
mod nodes;
mod observe;
mod placement;
mod places;
pub mod publisher;
mod random;
mod refuse;
mod route;
mod scale;
mod scope;
mod sign;
mod templates;
mod turns;

pub use control::{Control, Settings};
pub use fair::{Fair, Full, Turn};
pub use inside::Inside;
pub use keyring::{Keyring, KeyringError};
pub use placement::{Heard, NoNode, Placement, Roster, Wish};
pub use random::Random;
