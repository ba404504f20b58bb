//! Space inside of the database file: on a full disk, what deletions have freed there.

/// So many bytes of the file, at most, a byte of the log takes: pages that are half full, and copies of
/// those that change while a step of a checkpoint writes them.
const PAGES_PER_BYTE: u64 = 3;

/// Knows how much space the database file has inside that nothing uses, from counts now and then.
#[derive(Default)]
pub struct SpaceInFile {
    counted: u64,
    /// Bytes that were appended to the log since.
    appended: u64,
}

impl SpaceInFile {
    /// Notes that so many bytes were appended to the log.
    pub fn append(&mut self, bytes: usize) {
        self.appended = self.appended.saturating_add(bytes as u64);
    }

    /// Returns whether so much is left for certain. `counted` is the newest count, in bytes.
    pub fn has(&mut self, bytes: u64, counted: u64) -> bool {
        if counted != self.counted {
            *self = SpaceInFile { counted, appended: 0 };
        }
        counted >= bytes.saturating_add(self.appended.saturating_mul(PAGES_PER_BYTE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_used_up_until_it_is_counted_again() {
        let mut space = SpaceInFile::default();
        assert!(!space.has(100, 0));
        assert!(space.has(100, 400));
        space.append(100);
        assert!(space.has(100, 400));
        space.append(1);
        assert!(!space.has(100, 400), "three times 101 and 100 are more");
        assert!(space.has(100, 401), "counted again");
    }
}
