//! A stand-in until tasks are written.

use bincode::{Decode, Encode};

use super::team::Team;
use crate::base::{Id, Result};
use crate::store::{Record, View};

#[derive(Clone, Debug, Encode, Decode)]
pub struct Task {
    pub id: Id<Task>,
    pub team_id: Id<Team>,
}

impl Record for Task {
    const TABLE: &'static str = "teams.tasks";
    type Key = (Id<Team>, Id<Task>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
}

pub fn fetch_task(view: &View, team: Id<Team>, id: Id<Task>) -> Result<Task> {
    view.fetch(&(team, id))
}
