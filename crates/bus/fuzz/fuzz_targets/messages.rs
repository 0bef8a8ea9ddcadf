//! See `belljar_bus_fuzz::messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_bus_fuzz::messages(input);
});
