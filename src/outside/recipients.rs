//! Recipients of mails that are being sent: who has got one, and whom it was tried for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::Email;

/// Mails that are being sent, each with one of its recipients, the newest at the end. After a restart a
/// mail is sent to all, with the id by which readers drop duplicates.
#[derive(Default)]
pub struct Recipients(Mutex<VecDeque<(String, Email)>>);

impl Recipients {
    /// More than are being retried at any time.
    const MOST: usize = 10_000;

    /// Whether this recipient of a mail is noted.
    pub fn has(&self, mail: &str, to: &Email) -> bool {
        self.lock().iter().any(|(id, recipient)| id == mail && recipient == to)
    }

    /// Notes a recipient of a mail, once.
    pub fn note(&self, mail: &str, to: &Email) {
        let mut noted = self.lock();
        noted.retain(|(id, recipient)| id != mail || recipient != to);
        if noted.len() == Self::MOST {
            noted.pop_front();
        }
        noted.push_back((mail.into(), to.clone()));
    }

    /// Forgets all recipients of a mail.
    pub fn forget(&self, mail: &str) {
        self.lock().retain(|(id, _)| id != mail);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Email)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
