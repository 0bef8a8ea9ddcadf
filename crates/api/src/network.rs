//! What sandboxes reach, and what became of it.

mod connection;
mod policy;
mod token;

pub use connection::{
    CallName, Charge, Connection, ConnectionPage, Decision, Kind, ListConnections, ProcessName,
    Transferred,
};
pub use policy::{
    Index, InvalidNetwork, Miss, Network, NetworkShown, OperationName, Reach, Rule, Tape, Throttle,
};
pub use token::{Budget, CreateToken, Token};
