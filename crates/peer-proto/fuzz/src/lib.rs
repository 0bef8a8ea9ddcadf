//! Messages between control, nodes and gateways, as bytes that a stranger made up. The fuzz
//! target makes bytes up; `tests/seeds.rs` of the crate runs the seeds through the same check.

use std::fmt::Debug;

use belljar_peer_proto::gateway::{FromGateway, ToGateway, decode, encode};
use belljar_peer_proto::member::{Register, Registered, Sync, Synced};
use belljar_peer_proto::platform::{Beat, SignedBeat, Told};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How many kinds of messages an input is: what can be read is written and read again.
pub fn messages(input: &[u8]) -> usize {
    let kinds = [
        again::<ToGateway>(input),
        again::<FromGateway>(input),
        again::<Register>(input),
        again::<Registered>(input),
        again::<Sync>(input),
        again::<Synced>(input),
        again::<Beat>(input),
        again::<SignedBeat>(input),
        again::<Told>(input),
    ];
    kinds.iter().filter(|is_read| **is_read).count()
}

fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(input: &[u8]) -> bool {
    let Ok(message) = decode::<T>(input) else { return false };
    if let Ok(packet) = encode(&message) {
        assert_eq!(decode::<T>(&packet), Ok(message));
    }
    true
}
