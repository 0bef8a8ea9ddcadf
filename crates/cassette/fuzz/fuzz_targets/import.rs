//! See `belljar_cassette_fuzz::import`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_cassette_fuzz::import(input);
});
