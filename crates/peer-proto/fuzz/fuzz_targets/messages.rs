//! See `belljar_peer_proto_fuzz::messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_peer_proto_fuzz::messages(input);
});
