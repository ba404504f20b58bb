#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| roadstead::fuzzing::run("stream", input));
