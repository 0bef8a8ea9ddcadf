//! See `belljar_llm_fuzz::answers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    belljar_llm_fuzz::answers(input);
});
