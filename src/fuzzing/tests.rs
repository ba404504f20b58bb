//! The corpus of each target, and mutations of it, which are the same in every run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use super::*;

/// Of all random numbers here.
const SEED: u64 = 2026;
const MUTATIONS: usize = 400;
const MAX_BYTES: usize = 4096;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    /// The begin and end of a part of so many bytes.
    fn part(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        from..from + self.below((len - from).min(64) + 1)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.next().to_le_bytes()[0],
            2 => drop(bytes.drain(self.part(bytes.len()))),
            3 => {
                let repeated = bytes[self.part(bytes.len())].to_vec();
                bytes.splice(at..at, repeated);
            }
            4 => {
                let other = &corpus[self.below(corpus.len())];
                bytes.splice(at..at, other[self.part(other.len())].to_vec());
            }
            _ => bytes.insert(at, self.next().to_le_bytes()[0]),
        }
    }
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(fuzz().join("corpus").join(name)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run_noting(name: &str, input: &[u8], what: &str) {
    if let Err(fault) = catch_unwind(AssertUnwindSafe(|| run(name, input))) {
        eprintln!("{name}, {what} (seed {SEED}): b\"{}\"", input.escape_ascii());
        resume_unwind(fault);
    }
}

fn holds(name: &str) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} is empty");
    for (nth, input) in corpus.iter().enumerate() {
        run_noting(name, input, &format!("file {nth} of the corpus"));
    }
    let mut random = Random(SEED);
    for nth in 0..MUTATIONS {
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut input, &corpus);
        }
        input.truncate(MAX_BYTES);
        run_noting(name, &input, &format!("mutation {nth}"));
    }
}

#[test]
fn the_map_of_the_log_answers_as_a_sorted_map_after_any_history() {
    holds("map");
}

#[test]
fn any_bytes_are_read_as_the_record_that_was_written_or_as_none() {
    holds("record");
}

#[test]
fn of_a_damaged_log_what_follows_the_database_is_read_or_the_damage_is_named() {
    holds("replay");
}

#[test]
fn heads_are_found_where_hyper_and_httparse_find_them() {
    holds("framing");
}

#[test]
fn any_body_or_query_is_read_or_refused_with_bounded_issues() {
    holds("input");
}

#[test]
fn only_cursors_of_the_server_are_taken() {
    holds("cursor");
}

#[test]
fn plain_files_that_can_be_read_are_written_as_files_that_say_the_same() {
    holds("files");
}

#[test]
fn of_a_damaged_backup_no_block_is_taken_that_was_not_written() {
    holds("backup");
}

#[test]
fn any_event_is_read_or_refused_and_an_accepted_one_has_its_own_id() {
    holds("event");
}

#[test]
fn of_any_text_a_page_has_its_own_elements_each_with_its_end() {
    holds("markdown");
}

#[test]
fn each_target_is_one_of_cargo_fuzz() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        let text = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

#[test]
fn a_stream_of_a_model_is_the_same_answer_wherever_its_pieces_end() {
    holds("stream");
}
