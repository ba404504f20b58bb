//! What is kept of a damaged log, and what is said to be missing.

use std::ops::Range;

use redb::StorageBackend;

use super::super::record::changes;
use super::super::replay;
use super::*;
use crate::store::engine::{Redb, WriteBatch, WriteOp};

/// A file in memory of which a part cannot be read.
#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    unreadable: Range<usize>,
}

impl Content {
    fn copy(&self) -> Self {
        Content { bytes: self.bytes.clone(), unreadable: self.unreadable.clone() }
    }
}

impl StorageBackend for Content {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let wanted = offset as usize..offset as usize + out.len();
        if wanted.start < self.unreadable.end && self.unreadable.start < wanted.end {
            return Err(io::Error::other("a bad sector"));
        }
        out.copy_from_slice(&self.bytes[wanted]);
        Ok(())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!("a salvage reads alone")
    }
    fn sync_data(&self) -> io::Result<()> {
        unreachable!("a salvage reads alone")
    }
    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("a salvage reads alone")
    }
}

/// A log whose records change one row each, named after their number.
struct Written {
    log: LogId,
    files: [Content; 2],
    last: Link,
    ends: [usize; 2],
}

impl Written {
    fn of(log: LogId) -> Self {
        let front = |()| {
            let file: LogFile = Arc::new(InMemoryBackend::new());
            write_front(&file, log).unwrap();
            let mut bytes = vec![0; FIRST as usize];
            file.read(0, &mut bytes).unwrap();
            Content { bytes, ..Content::default() }
        };
        let files = [(), ()].map(front);
        Written { log, files, last: Link::default(), ends: [FIRST as usize; 2] }
    }

    fn new() -> Self {
        Self::of(LogId::new([3; 16]))
    }

    /// Appends so many records to a file; returns where they are.
    fn append(&mut self, file: usize, count: u64) -> Vec<Range<usize>> {
        self.append_rows(file, count, 0)
    }

    /// As [`Written::append`], with rows that are named after their number and `above`.
    fn append_rows(&mut self, file: usize, count: u64, above: u64) -> Vec<Range<usize>> {
        let append = |_| {
            let mut writes = WriteBatch::default();
            let name = (self.last.number + 1 + above).to_string();
            let value = vec![7; 900 * (self.last.number as usize % 3)];
            writes.add("t", name.into_bytes(), WriteOp::Put(value));
            let (record, link) = record::encode(self.log, self.last, &writes).unwrap();
            let begin = self.ends[file];
            let (bytes, end) = (&mut self.files[file].bytes, begin + record.len());
            bytes.resize(bytes.len().max(end), 0);
            bytes[begin..end].copy_from_slice(&record);
            (self.last, self.ends[file]) = (link, end);
            begin..end
        };
        (0..count).map(append).collect()
    }

    /// The next record is the first of this file; returns what the database then has.
    fn covered(&mut self, next_file: usize) -> Position {
        self.ends[next_file] = FIRST as usize;
        Position { log: self.log, covered: self.last, next_file, is_closed: false }
    }
}

fn nothing(log: LogId) -> Position {
    Position { log, covered: Link::default(), next_file: 0, is_closed: false }
}

/// What is kept of the files of a database at `position`: the rows in the order in which they are
/// written, and what is missing.
fn kept(position: &Position, files: [Option<Content>; 2]) -> (Vec<u64>, Vec<String>) {
    let database = Redb::builder().create_with_backend(InMemoryBackend::new()).unwrap();
    position.store(&database).unwrap();
    kept_of(&database, files)
}

fn kept_of(database: &Database, files: [Option<Content>; 2]) -> (Vec<u64>, Vec<String>) {
    let files = files.map(|file| file.map(|file| Arc::new(file) as LogFile));
    let Salvaged { place, missing } = salvage(database, files).unwrap();
    // As the log is opened: the strict reading takes every record of it.
    let files = place.open().unwrap().unwrap();
    let log = read_front(&files[0]).unwrap().unwrap();
    let position = Position::read(database).unwrap().unwrap();
    assert_eq!(position.log.id, log.id);
    let runs = replay::read(&files, &Position { log, ..position }).unwrap().unwrap();
    let mut rows = Vec::new();
    for record in runs.iter().flat_map(|run| &run.records) {
        let row = |_: &str, place: record::Place| {
            let key = &record[place.key_at as usize..][..usize::from(place.key_len)];
            rows.push(std::str::from_utf8(key).unwrap().parse().unwrap());
        };
        changes(record, row).unwrap();
    }
    (rows, missing)
}

#[test]
fn what_is_whole_before_and_after_a_gap_is_kept_in_order_and_the_gap_is_named() {
    let mut log = Written::new();
    let places = log.append(0, 6);
    log.append(1, 3);
    log.files[0].bytes[places[2].start + 40] ^= 1;
    log.files[0].bytes[places[3].start] ^= 1;
    let position = nothing(log.log);
    let (rows, missing) = kept(&position, log.files.map(Some));
    assert_eq!(rows, [1, 2, 5, 6, 7, 8, 9]);
    assert_eq!(missing, ["the records 3 to 4 of the log are missing or broken"]);
}

#[test]
fn one_flipped_byte_anywhere_loses_one_record_at_most() {
    let mut log = Written::new();
    let places = log.append(0, 4);
    for at in FIRST as usize..log.files[0].bytes.len() {
        let mut bytes = log.files[0].bytes.clone();
        bytes[at] ^= 0x80;
        let hit = places.iter().position(|place| place.contains(&at)).unwrap() as u64 + 1;
        let front = log.files[1].copy();
        let content = Content { bytes, ..Content::default() };
        let (rows, _) = kept(&nothing(log.log), [Some(content), Some(front)]);
        let others: Vec<u64> = (1..=4).filter(|number| *number != hit).collect();
        // Padding is in no checksum.
        assert!(rows == others || rows == [1, 2, 3, 4], "byte {at}: {rows:?}");
    }
}

#[test]
fn what_the_database_has_is_not_written_again() {
    let mut log = Written::new();
    log.append(0, 3);
    log.append(1, 2);
    let position = log.covered(0);
    let places = log.append(0, 2);
    log.files[0].bytes[places[0].start + 40] ^= 1;
    let (rows, missing) = kept(&position, log.files.map(Some));
    assert_eq!(rows, [7]);
    assert_eq!(missing, ["the record 6 of the log is missing or broken"]);
}

#[test]
fn records_are_found_behind_fronts_that_are_broken() {
    for log in [LogId::new([3; 16]), LogId::of_first_format([3; 16])] {
        for broken in [1, 2] {
            let mut written = Written::of(log);
            written.append(0, 3);
            for file in &mut written.files[..broken] {
                file.bytes[..FIRST as usize].fill(0);
            }
            // Of which format it is the database does not know.
            let position = nothing(LogId::new([3; 16]));
            let (rows, missing) = kept(&position, written.files.map(Some));
            // The second has nothing besides: it may have been emptied.
            assert_eq!((rows, missing.len()), (vec![1, 2, 3], broken - 1));
        }
    }
}

#[test]
fn a_file_that_was_emptied_or_overwritten_is_said() {
    type Breaks = dyn Fn(&mut Vec<u8>);
    let broken: [&Breaks; 5] = [
        &|bytes| bytes.clear(),
        &|bytes| bytes.truncate(100),
        &|bytes| bytes.fill(0),
        &|bytes| bytes.fill(b'x'),
        &|bytes| bytes.truncate(FIRST as usize),
    ];
    for (nth, breaks) in broken.into_iter().enumerate() {
        let mut log = Written::new();
        log.append(0, 2);
        log.append(1, 3);
        breaks(&mut log.files[1].bytes);
        let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [1, 2], "{nth}");
        // Behind a front that is whole nothing shows that there were records.
        let is_said = missing.iter().any(|sentence| sentence.contains("as if it was emptied"));
        assert_eq!(is_said, nth != 4, "{nth}: {missing:?}");
    }
}

#[test]
fn a_file_without_its_beginning_is_said_also_if_it_has_old_records_behind() {
    let mut log = Written::new();
    log.append(0, 4);
    log.append(1, 1);
    let position = log.covered(0);
    let places = log.append(0, 1);
    log.files[0].bytes[..places[0].end].fill(0);
    let (rows, missing) = kept(&position, log.files.map(Some));
    assert!(rows.is_empty());
    assert!(missing[0].contains("no beginning that can be read"), "{missing:?}");
}

#[test]
fn a_bad_sector_at_the_front_of_a_file_is_not_called_an_empty_file() {
    let mut log = Written::new();
    log.append(0, 2);
    log.files[1].unreadable = 0..1;
    let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
    assert_eq!((rows, missing), (vec![1, 2], vec!["4096 bytes of the log cannot be read".into()]));
}

#[test]
fn nothing_is_said_to_be_missing_where_the_database_has_all() {
    let mut log = Written::new();
    log.append(0, 3);
    let has_all = log.covered(1);
    log.files[1].bytes[0] ^= 1;
    let closed = Position { is_closed: true, ..has_all };
    let [first, second] = log.files;
    assert_eq!(kept(&has_all, [Some(first), Some(second)]), (vec![], vec![]));
    assert_eq!(kept(&closed, [None, None]), (vec![], vec![]));
    let [empty, _] = Written::new().files;
    let (_, missing) = kept(&has_all, [Some(empty), None]);
    assert_eq!(missing.last().unwrap(), "nothing of the log after its record 3 can be read");
}

#[test]
fn what_another_history_has_is_left_out() {
    let mut log = Written::new();
    log.append(0, 2);
    let mut copy = Written::new();
    copy.append(0, 1);
    let other = copy.covered(0);
    // The copy's next record has the same number and other changes.
    copy.last = Link { number: 2, checksum: 7 };
    copy.append(1, 1);
    let [first, _] = log.files;
    let [_, second] = copy.files;
    let (rows, missing) = kept(&nothing(other.log), [Some(first), Some(second)]);
    assert_eq!(rows, [1, 2]);
    assert!(missing[0].contains("the record 3 of the log does not follow record 2"), "{missing:?}");
}

#[test]
fn a_newest_record_that_is_broken_is_said() {
    let mut log = Written::new();
    let places = log.append(0, 3);
    log.files[0].bytes[places[2].start + 40] ^= 1;
    let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
    assert_eq!(rows, [1, 2]);
    assert!(missing[0].contains("after its record 2 is broken"), "{missing:?}");
}

#[test]
fn without_a_position_the_newest_records_that_follow_each_other_are_kept() {
    let mut log = Written::new();
    log.append(0, 9);
    log.append(1, 3);
    // The first file is used again; of what it had, records 6 to 9 are still there.
    log.covered(0);
    log.append(0, 2);
    let (rows, missing) = kept_of(&database_without_position(), log.files.map(Some));
    assert_eq!(rows, (3..=14).collect::<Vec<_>>());
    assert!(missing[0].contains("its records from 3 on"), "{missing:?}");
    // If the newest are not whole, what is read could undo what the database has.
    let mut log = Written::new();
    log.append(0, 2);
    let places = log.append(1, 1);
    log.files[1].bytes[places[0].start + 40] ^= 1;
    let (rows, missing) = kept_of(&database_without_position(), log.files.map(Some));
    assert!(rows.is_empty() && missing[0].contains("nothing of it was read"), "{missing:?}");
}

#[test]
fn different_records_of_one_number_are_said_and_without_a_position_none_is_read() {
    for copy_is in [0, 1] {
        for newer in [0, 1] {
            let mut log = Written::new();
            log.append(1 - copy_is, 1);
            // A copy of the database went on from here, too.
            let before = log.last;
            log.append_rows(copy_is, 1, 10);
            log.last = before;
            log.append(1 - copy_is, 1 + newer);
            let said = "the log has different records 2: some are a copy's";
            let files = log.files.each_ref().map(|file| Some(file.copy()));
            let (rows, missing) = kept_of(&database_without_position(), files);
            assert!(rows.is_empty() && missing[0].starts_with(said), "{rows:?} {missing:?}");
            // With one, what follows what the database has is read.
            let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
            assert!(missing[0].starts_with(said), "{missing:?}");
            // Of two of one length that of the first file.
            let longest: &[u64] = match (newer, copy_is) {
                (1, _) => &[1, 2, 3],
                (_, 0) => &[1, 12],
                _ => &[1, 2],
            };
            assert_eq!(rows, longest);
        }
    }
}

#[test]
fn behind_a_gap_the_records_of_the_longer_history_are_kept() {
    for copy_is in [0, 1] {
        let mut log = Written::new();
        let places = log.append(1 - copy_is, 4);
        log.files[1 - copy_is].bytes[places[1].start + 40] ^= 1;
        log.last = Link { number: 2, checksum: 7 };
        log.append_rows(copy_is, 1, 10);
        let (rows, _) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [1, 3, 4]);
    }
}

#[test]
fn of_two_histories_with_damage_that_with_more_records_is_kept() {
    for copy_is in [0, 1] {
        // The copy went on with two records where one of the database's own is broken.
        let mut log = Written::new();
        log.append(1 - copy_is, 1);
        let before = log.last;
        log.append_rows(copy_is, 2, 10);
        log.last = before;
        let places = log.append(1 - copy_is, 8);
        log.files[1 - copy_is].bytes[places[1].start + 40] ^= 1;
        let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(missing[1], "the record 3 of the log is missing or broken");
        assert!(
            missing[2].starts_with("the record 3 that the log has was left out"),
            "{missing:?}"
        );
        assert_eq!(missing.len(), 3);
    }
}

#[test]
fn a_stray_record_of_a_copy_does_not_hide_those_behind_a_gap() {
    let mut log = Written::new();
    let places = log.append(0, 4);
    log.files[0].bytes[places[0].start + 40] ^= 1;
    log.last = Link { number: 0, checksum: 7 };
    log.append_rows(1, 1, 10);
    let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
    assert_eq!(rows, [2, 3, 4], "{missing:?}");
}

#[test]
fn a_gap_in_another_history_does_not_make_it_the_database_s() {
    for broken in [false, true] {
        let mut log = Written::new();
        log.append(0, 2);
        let position = log.covered(0);
        // What is behind the gap is less than what is before it, and all is of a copy.
        log.last = Link { number: 2, checksum: 7 };
        let places = log.append_rows(1, 9, 10);
        if broken {
            log.files[1].bytes[places[5].start + 40] ^= 1;
        }
        let (rows, missing) = kept(&position, log.files.map(Some));
        assert!(rows.is_empty(), "{rows:?}");
        assert!(
            missing[0].starts_with("the record 3 of the log does not follow record 2"),
            "{missing:?}"
        );
    }
}

/// Another history's records with these numbers, each named after its number and 100. The first follows
/// a record that is not there.
fn append_of_copy(log: &mut Written, file: usize, numbers: std::ops::RangeInclusive<u64>) {
    let own = log.last;
    log.last = Link { number: numbers.start() - 1, checksum: 7 };
    log.append_rows(file, numbers.count() as u64, 100);
    log.last = own;
}

#[test]
fn what_is_surely_the_database_s_is_kept_before_a_gap_in_which_a_copy_has_more() {
    for copy_is in [0, 1] {
        let mut log = Written::new();
        log.append(1 - copy_is, 2);
        let position = Position { covered: log.last, ..nothing(log.log) };
        let places = log.append(1 - copy_is, 10);
        for broken in [0, 3, 4, 5, 6] {
            log.files[1 - copy_is].bytes[places[broken].start + 40] ^= 1;
        }
        append_of_copy(&mut log, copy_is, 3..=9);
        let (rows, missing) = kept(&position, log.files.map(Some));
        // Of 10 to 12 nothing says whose they are.
        assert_eq!(rows, [4, 5], "{missing:?}");
        let said = "the record 6 of the log does not follow record 5";
        assert!(missing.iter().any(|sentence| sentence.starts_with(said)), "{missing:?}");
    }
}

#[test]
fn a_farther_longer_history_does_not_hide_a_nearer_one() {
    // Behind the gap at 3 the database has 4 and 5, and from 7 on more; of 4 to 6 a copy has others.
    for copy_is in [0, 1] {
        let mut log = Written::new();
        let places = log.append(1 - copy_is, 12);
        for broken in [2, 5] {
            log.files[1 - copy_is].bytes[places[broken].start + 40] ^= 1;
        }
        append_of_copy(&mut log, copy_is, 4..=6);
        let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [1, 2, 4, 5, 7, 8, 9, 10, 11, 12], "{missing:?}");
    }
}

#[test]
fn of_ways_with_as_many_records_that_which_follows_is_kept() {
    for copy_is in [0, 1] {
        let mut log = Written::new();
        log.append(1 - copy_is, 4);
        // Also 1 and 103 to 105 would be as many.
        append_of_copy(&mut log, copy_is, 3..=5);
        let (rows, _) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [1, 2, 3, 4]);
    }
}

#[test]
fn a_way_behind_a_nearer_gap_comes_before_one_as_long_behind_a_farther() {
    // Own 4, 6 and 7, a copy's 1 to 3, 5, 6, 8 and 9: all else is broken.
    for copy_is in [0, 1] {
        let mut log = Written::new();
        let places = log.append(1 - copy_is, 7);
        for broken in [0, 1, 2, 4] {
            log.files[1 - copy_is].bytes[places[broken].start + 40] ^= 1;
        }
        log.last = Link { number: 0, checksum: 7 };
        let places = log.append_rows(copy_is, 9, 100);
        for broken in [3, 6] {
            log.files[copy_is].bytes[places[broken].start + 40] ^= 1;
        }
        let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
        assert_eq!(rows, [4, 6, 108, 109], "{missing:?}");
    }
}

#[test]
fn a_record_in_place_of_a_broken_one_of_its_number_is_said() {
    let mut log = Written::new();
    let places = log.append(1, 5);
    log.files[1].bytes[places[4].start + 40] ^= 1;
    // A copy went on after the fourth.
    let fourth = &log.files[1].bytes[places[3].clone()];
    let header = record::header(log.log, fourth).unwrap();
    log.last = header.link;
    log.append_rows(0, 1, 100);
    let (rows, missing) = kept(&nothing(log.log), log.files.map(Some));
    assert_eq!(rows, [1, 2, 3, 4, 105]);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].starts_with("beside its record 5 the log has a broken one"), "{missing:?}");
}

#[test]
fn a_file_that_was_overwritten_by_the_other_is_said_and_without_a_position_none_is_read() {
    let mut log = Written::new();
    log.append(0, 3);
    let position = log.covered(1);
    log.append(1, 2);
    log.files[1] = log.files[0].copy();
    let files = log.files.each_ref().map(|file| Some(file.copy()));
    let (rows, missing) = kept(&position, files);
    assert!(rows.is_empty() && missing[0].contains("record 3 twice"), "{missing:?}");
    let (rows, missing) = kept_of(&database_without_position(), log.files.map(Some));
    assert!(rows.is_empty() && missing[0].contains("record 3 twice"), "{missing:?}");
}

#[test]
fn without_a_position_nothing_is_read_if_two_neighbours_do_not_follow_each_other() {
    let mut log = Written::new();
    log.append(0, 2);
    log.last = Link { number: 2, checksum: 7 };
    log.append(1, 3);
    let (rows, missing) = kept_of(&database_without_position(), log.files.map(Some));
    assert!(rows.is_empty() && missing[0].contains("do not follow each other"), "{missing:?}");
}

#[test]
fn a_log_without_records_is_not_called_broken() {
    let files = Written::new().files.map(Some);
    let (_, missing) = kept_of(&database_without_position(), files);
    let said = "the database does not say up to where it has the log, in which no record was found: \
                nothing of it was read";
    assert_eq!(missing, [said]);
}

fn database_without_position() -> Database {
    let database = Redb::builder().create_with_backend(InMemoryBackend::new()).unwrap();
    super::super::position::damage(&database);
    database
}

#[test]
fn a_part_that_the_disk_does_not_read_costs_the_records_in_it() {
    let mut log = Written::new();
    let places = log.append(0, 12);
    log.files[0].unreadable = 2 * PIECE_BYTES..2 * PIECE_BYTES + 1;
    let lost = 2 * PIECE_BYTES..3 * PIECE_BYTES;
    let whole = |place: &Range<usize>| place.end <= lost.start || lost.end <= place.start;
    let numbers = (1..).zip(&places).filter(|(_, place)| whole(place)).map(|(number, _)| number);
    let numbers: Vec<u64> = numbers.collect();
    assert!(numbers.len() < 12 && numbers.last() == Some(&12), "{numbers:?}");
    let position = nothing(log.log);
    let (rows, missing) = kept(&position, log.files.map(Some));
    assert_eq!(rows, numbers);
    assert_eq!(missing[0], "4096 bytes of the log cannot be read");
}

#[test]
fn files_that_are_not_there_or_another_database_s_are_said() {
    let mut log = Written::new();
    log.append(0, 2);
    log.append(1, 1);
    let position = nothing(log.log);
    let [first, _] = log.files;
    let (rows, missing) = kept(&position, [Some(first), None]);
    assert_eq!((rows, missing), (vec![1, 2], vec!["a file of the log is not there".to_string()]));
    let (rows, missing) = kept(&position, [None, None]);
    assert!(rows.is_empty());
    assert_eq!(missing, ["a file of the log is not there"; 2]);
    let mut other = Written::of(LogId::new([4; 16]));
    other.append(0, 2);
    let (rows, missing) = kept(&position, other.files.map(Some));
    assert!(rows.is_empty());
    assert!(missing[0].contains("another database's"), "{missing:?}");
}
