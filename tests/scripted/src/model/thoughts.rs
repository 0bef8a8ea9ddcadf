//! Thoughts that a client carries and cannot change: signed, or sealed.

use crate::record::digest;

/// What a client has to send back with a thought.
pub(crate) fn signature(text: &str) -> String {
    format!("sig_{}", &digest(format!("signed:{text}").as_bytes())[..32])
}

/// A thought that its carrier cannot read. (Here it could; no test depends on it.)
pub(crate) fn seal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("enc_{hex}_{}", signature(text))
}

/// Whether a sealed thought is one of ours, whole.
pub(crate) fn is_sealed(sealed: &str) -> bool {
    let Some((hex, _)) = sealed.strip_prefix("enc_").and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let bytes = hex.as_bytes().chunks(2).map(|pair| {
        std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let text = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| String::from_utf8(bytes).ok());
    text.is_some_and(|text| seal(&text) == sealed)
}
