//! See `belljar_egress_fuzz::http1`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_egress_fuzz::http1(input);
});
