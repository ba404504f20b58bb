//! Room in the log: when a checkpoint is due, and who waits for it.

use std::time::Instant;

use super::checkpoint::Progress;
use super::{Broken, LoggedRedb, micros, not_now};
use crate::base::Result;
use crate::store::engine::LocalStorage as _;

/// A checkpoint is due once so many keys are deleted: a scan passes them one by one, in some 0.6 µs each
/// with what was there before.
pub const MAX_DELETIONS: usize = 8192;

/// Commits wait for the checkpoint before there are more: a scan that meets all of them takes some 20 ms.
const MOST_DELETIONS: usize = 4 * MAX_DELETIONS;

impl LoggedRedb {
    /// How large the live part may become: while the disk is full, as large as its file is.
    fn part_bytes(&self) -> usize {
        let file = if self.redb.is_suspect() { self.log.file_bytes() } else { usize::MAX };
        self.settings.part_bytes.min(file)
    }

    /// Whether the live part is to be written to the database before so many bytes are added.
    pub(super) fn is_due(&self, bytes: usize) -> bool {
        self.live.memory() >= self.settings.checkpoint_bytes
            || self.live.memory() + bytes > self.part_bytes()
            || self.live.deletions() >= MAX_DELETIONS
            || self.live_since.is_some_and(|since| since.elapsed() >= self.settings.max_age)
    }

    /// Makes room for a record of so many bytes: begins a checkpoint if it is time for one, and waits
    /// for the running one if the log becomes too long.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let mut waits_since = None;
        // Whether one that failed is tried again before it is time: there is no room without it.
        let mut is_retried = false;
        loop {
            let progress = match self.look() {
                Err(failed) if is_retried => return Err(failed),
                // Nothing of the log is lost: commits go on over what is read again. Not if the map was
                // wrong: what the attempts have read from it may not be so.
                Err(_) if self.broken == Some(Broken::Database) => {
                    let reader = self.reopen().map_err(|error| not_now().detail(error))?;
                    (self.renew)(reader);
                    Progress::default()
                }
                progress => progress?,
            };
            self.begin_checkpoint(self.is_due(bytes), is_retried)?;
            if let Some(running) = &self.running {
                // Small steps need less space.
                running.set_urgent(self.is_behind(&progress) && self.failed_at.is_none());
            }
            if self.has_room(bytes, &progress) {
                break;
            }
            match &mut self.running {
                Some(running) => {
                    waits_since.get_or_insert_with(Instant::now);
                    running.wait(&progress);
                }
                None if is_retried => return Err(not_now()),
                None => is_retried = true,
            }
        }
        if let Some(since) = waits_since {
            self.meters.log_wait_micros.observe(micros(since.elapsed()));
        }
        Ok(())
    }

    /// Whether the live part may become larger by so many bytes, while the checkpoint of the frozen one is
    /// so far. It may use the second half of its room as the checkpoint goes on, so that many commits
    /// wait a little instead of one for all of it.
    fn has_room(&self, bytes: usize, progress: &Progress) -> bool {
        let half = self.part_bytes() as f64 / 2.0;
        let allowed = match &self.frozen {
            Some(_) if self.running.is_some() => half + half * progress.share(),
            _ => half * 2.0,
        };
        let is_within = (self.live.memory() + bytes) as f64 <= allowed
            && self.live.deletions() < MOST_DELETIONS;
        self.live.is_empty() || is_within
    }

    /// Whether the live part fills faster, by an eighth of its room, than the frozen one is written to
    /// the database.
    fn is_behind(&self, progress: &Progress) -> bool {
        self.live.memory() as f64 / (self.part_bytes() as f64 / 2.0) > progress.share() + 0.125
    }
}
