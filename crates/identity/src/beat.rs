//! Heartbeats: on NATS every node hears and could say everything, so each signs its own.

use belljar_peer_proto::encoded::Encoded;
use belljar_peer_proto::platform::{Beat, SignedBeat};

use crate::keys::{KeyError, KeyPair, PublicKey};
use crate::signature::{Purpose, sign_bytes, verify_bytes};

/// A beat says how a node is now: one that is older is not worth hearing.
const BEAT_LIFE_MS: u64 = 10_000;

/// Signs a node's own beat.
pub fn sign_beat(key: &KeyPair, beat: &Beat) -> Result<SignedBeat, KeyError> {
    // A beat is numbers and names; all of it can be written as JSON.
    let text = serde_json::to_string(beat).unwrap_or_default();
    let signature = Encoded(sign_bytes(key, Purpose::Beat, b"", text.as_bytes())?);
    Ok(SignedBeat { number: beat.number, beat: text, signature })
}

/// Reads a beat that the node with this key signed just now.
pub fn read_beat(key: &PublicKey, signed: &SignedBeat, now: u64) -> Option<Beat> {
    let SignedBeat { number, beat, signature } = signed;
    if !verify_bytes(&[*key], Purpose::Beat, b"", beat.as_bytes(), &signature.0) {
        return None;
    }
    let beat: Beat = serde_json::from_str(beat).ok()?;
    let is_recent = beat.at.abs_diff(now) <= BEAT_LIFE_MS;
    Some(beat).filter(|beat| beat.number == *number && is_recent)
}

#[cfg(test)]
mod tests {
    use belljar_domain::NodeNumber;
    use belljar_peer_proto::member::Load;

    use super::*;

    #[test]
    fn beat_counts_for_its_own_node_and_for_a_moment() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let number = NodeNumber::new(3).unwrap();
        let beat = Beat { number, epoch: 1, load: Load::default(), hits: 0, misses: 0, at: 50_000 };
        let signed = sign_beat(&key, &beat).unwrap();
        let read =
            |key: &KeyPair, signed: &SignedBeat, now| read_beat(&key.public_key(), signed, now);
        assert_eq!(read(&key, &signed, 51_000), Some(beat));
        assert_eq!(read(&key, &signed, 70_000), None, "too old");
        assert_eq!(read(&other, &signed, 51_000), None, "another node's key");
        let four = NodeNumber::new(4).unwrap();
        let moved = SignedBeat { number: four, ..signed.clone() };
        assert_eq!(read(&key, &moved, 51_000), None, "another node's number");
        let changed = SignedBeat { beat: signed.beat.replace("50000", "50001"), ..signed };
        assert_eq!(read(&key, &changed, 51_000), None);
    }
}
