//! See `belljar_template_fuzz::unpack`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_template_fuzz::unpack(input);
});
