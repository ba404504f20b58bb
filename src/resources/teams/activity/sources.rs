//! The rows that make up a team's activity: ranges of tables and indexes, each in the order of ids, and
//! their merge. Nothing is stored for it but changes of tasks and of the team: every other row is part of
//! something else.

use std::collections::VecDeque;

use super::draft::{self, Draft};
use super::entry::{ActivityEntry, ActivityKind};
use crate::base::{Id, Result};
use crate::outbox::{EVENTS_BY_TASK, EVENTS_BY_TEAM};
use crate::resources::teams::changes;
use crate::resources::teams::message;
use crate::resources::teams::schedules::RUNS_BY_TEAM;
use crate::resources::teams::task::Task;
use crate::resources::teams::team::Team;
use crate::resources::teams::{approvals, memories, runs};
use crate::store::{Key, ListSource, Order, PageRequest, Record, View};

/// The first chunk of a source: a page needs few of most. Each next one is twice as large.
const FIRST_CHUNK: usize = 16;

/// Which rows are merged.
pub struct Selection {
    pub team: Id<Team>,
    /// Only those about this task.
    pub task: Option<Id<Task>>,
    /// Only those of this kind.
    pub kind: Option<ActivityKind>,
}

/// A page ends after so many chunks of 4 MiB.
const MAX_LONG_CHUNKS: usize = 16;

/// A part of a source: so many rows in this order, from the one after an id on.
struct Part {
    order: Order,
    after: Option<Id<ActivityEntry>>,
    limit: usize,
}

/// Rows of a part, and whether there are more.
type Chunk = (VecDeque<Draft>, bool);

/// A range of rows in the order of their ids, read in chunks.
struct Source<'a> {
    read: Read<'a>,
    next: Part,
    rows: VecDeque<Draft>,
    has_more: bool,
    /// How many chunks ended before they had as many rows as they were to have: with 4 MiB.
    long_chunks: usize,
}

impl Source<'_> {
    /// Returns the first row that was not taken.
    fn peek(&mut self) -> Result<Option<&Draft>> {
        if self.rows.is_empty() && self.has_more {
            (self.rows, self.has_more) = (self.read)(&self.next)?;
            self.long_chunks += usize::from(self.has_more && self.rows.len() < self.next.limit);
            self.next.limit *= 2;
            if let Some(last) = self.rows.back() {
                self.next.after = Some(last.id);
            }
        }
        Ok(self.rows.front())
    }
}

/// Returns a part of the records under a prefix of a source whose keys go on with the id. `rest` is how
/// many bytes of a key follow the id.
fn chunk<R: Record>(
    view: &View,
    source: impl Into<ListSource<R>>,
    (prefix, rest): (&impl Key, usize),
    part: &Part,
    draft: impl Fn(R) -> Draft,
) -> Result<Chunk> {
    // Beyond all keys with the id, on the side where the scan goes on.
    let fill = match part.order {
        Order::Ascending => 0xFF,
        Order::Descending => 0,
    };
    let after = part.after.map(|id| {
        let mut position = prefix.to_bytes();
        position.extend_from_slice(id.bytes());
        position.resize(position.len() + rest, fill);
        position
    });
    let request = PageRequest { limit: part.limit, after };
    let page = view.page(source, prefix, part.order, &request, |_| true)?;
    Ok((page.items.into_iter().map(draft).collect(), page.next.is_some()))
}

/// The bytes of an id, and of the time in the key of an event.
const ID: usize = 16;
const TIME: usize = 8;

/// Returns a task as a source of its own: that it was created.
fn only(task: Option<Task>, part: &Part) -> Chunk {
    let draft = task.map(draft::created).filter(|draft| {
        part.after.is_none_or(|after| match part.order {
            Order::Ascending => draft.id > after,
            Order::Descending => draft.id < after,
        })
    });
    (draft.into_iter().collect(), false)
}

type Read<'a> = Box<dyn Fn(&Part) -> Result<Chunk> + 'a>;

/// The rows of a source under this prefix.
fn rows<'a, R: Record>(
    view: &'a View<'a>,
    source: impl Fn() -> ListSource<R> + 'a,
    (prefix, rest): (impl Key + 'a, usize),
    draft: fn(R) -> Draft,
) -> Read<'a> {
    Box::new(move |part| chunk(view, source(), (&prefix, rest), part, draft))
}

/// The sources of a team, with the kinds of entries that they have.
fn of_team<'a>(view: &'a View<'a>, team: Id<Team>) -> Vec<(&'static [ActivityKind], Read<'a>)> {
    use ActivityKind as Kind;
    let runs = || ListSource::from(&runs::BY_TEAM);
    let memories = || ListSource::from(&memories::BY_TEAM);
    let schedules = || ListSource::from(&RUNS_BY_TEAM);
    let events = || ListSource::from(&EVENTS_BY_TEAM);
    const OF_EVENTS: &[Kind] = &[
        Kind::ApprovalDecided,
        Kind::AgentHired,
        Kind::AgentLeft,
        Kind::SkillsGranted,
        Kind::WakeFailed,
        Kind::BudgetExhausted,
        Kind::ExternalRequest,
    ];
    const OF_CHANGES: &[Kind] = &[
        Kind::Paused,
        Kind::Resumed,
        Kind::BudgetChanged,
        Kind::BudgetExhausted,
        Kind::BudgetRenewed,
        Kind::ScheduleCreated,
        Kind::ScheduleChanged,
        Kind::ScheduleDeleted,
    ];
    let own = (team, 0);
    vec![
        (&[Kind::TaskCreated], rows(view, || ListSource::TABLE, own, draft::created)),
        (&[Kind::TaskChanged], rows(view, || ListSource::TABLE, own, draft::changed)),
        (&[Kind::MessageSent], rows(view, || ListSource::TABLE, own, draft::sent)),
        (&[Kind::ApprovalRequested], rows(view, || ListSource::TABLE, own, draft::requested)),
        (&[Kind::TimelineEntry], rows(view, || ListSource::TABLE, own, draft::told)),
        (&[Kind::RunReported], rows(view, runs, (team, 3 * ID), draft::reported)),
        (&[Kind::MemoryStored], rows(view, memories, (team, 3 * ID), draft::stored)),
        (&[Kind::ScheduleRan], rows(view, schedules, (team, 2 * ID), draft::ran)),
        (OF_EVENTS, rows(view, events, (team, TIME + ID), draft::happened)),
        (OF_CHANGES, rows(view, || ListSource::TABLE, (Some(team), 0), draft::team_changed)),
        (&[Kind::Paused, Kind::Resumed], of_all(view, team)),
    ]
}

/// What became of all teams since this one was created.
fn of_all<'a>(view: &'a View<'a>, team: Id<Team>) -> Read<'a> {
    let all: Option<Id<Team>> = None;
    let created = team.cast();
    Box::new(move |part| {
        let after = match part.order {
            Order::Ascending => Some(part.after.map_or(created, |after| after.max(created))),
            Order::Descending => part.after,
        };
        let part = Part { after, ..*part };
        let read = chunk(view, ListSource::TABLE, (&all, 0), &part, draft::team_changed);
        let (mut rows, has_more) = read?;
        let before = rows.len();
        rows.retain(|draft| draft.id > created);
        let is_end = rows.len() < before;
        Ok((rows, has_more && !is_end))
    })
}

/// The sources of a task.
fn of_task<'a>(
    view: &'a View<'a>,
    team: Id<Team>,
    task: Id<Task>,
) -> Vec<(&'static [ActivityKind], Read<'a>)> {
    use ActivityKind as Kind;
    let changes = || ListSource::from(&changes::BY_TASK);
    let messages = || ListSource::from(&message::BY_TASK);
    let approvals = || ListSource::from(&approvals::BY_TASK);
    let runs = || ListSource::from(&runs::BY_TASK);
    let events = || ListSource::from(&EVENTS_BY_TASK);
    let created = move |part: &Part| Ok(only(view.get::<Task>(&(team, task))?, part));
    // The keys of records begin with the team.
    let own = ((task, team), 0);
    vec![
        (&[Kind::TaskCreated], Box::new(created)),
        (&[Kind::TaskChanged], rows(view, changes, own, draft::changed)),
        (&[Kind::MessageSent], rows(view, messages, own, draft::sent)),
        (&[Kind::ApprovalRequested], rows(view, approvals, own, draft::requested)),
        (&[Kind::RunReported], rows(view, runs, ((team, task), 3 * ID), draft::reported)),
        (
            &[Kind::ApprovalDecided, Kind::WakeFailed],
            rows(view, events, ((team, task), TIME + ID), draft::happened),
        ),
    ]
}

/// The rows of a selection, in an order, from the one after an id on.
pub struct Merge<'a> {
    sources: Vec<Source<'a>>,
    order: Order,
}

impl<'a> Merge<'a> {
    /// Begins to merge them.
    pub fn of(
        view: &'a View<'a>,
        selection: &Selection,
        order: Order,
        after: Option<Id<ActivityEntry>>,
    ) -> Self {
        let all = match selection.task {
            None => of_team(view, selection.team),
            Some(task) => of_task(view, selection.team, task),
        };
        let is_selected =
            |kinds: &[ActivityKind]| selection.kind.is_none_or(|kind| kinds.contains(&kind));
        let begin = |(_, read)| {
            let next = Part { order, after, limit: FIRST_CHUNK };
            Source { read, next, rows: VecDeque::new(), has_more: true, long_chunks: 0 }
        };
        let sources = all.into_iter().filter(|(kinds, _)| is_selected(kinds)).map(begin).collect();
        Merge { sources, order }
    }

    /// Whether the rows read so far are so long that a page ends: some 64 MiB.
    pub fn are_long(&self) -> bool {
        self.sources.iter().map(|source| source.long_chunks).sum::<usize>() >= MAX_LONG_CHUNKS
    }

    /// Returns the id of the next row.
    pub fn peek(&mut self) -> Result<Option<Id<ActivityEntry>>> {
        Ok(self.first()?.map(|(id, _)| id))
    }

    /// Takes the next row.
    pub fn take(&mut self) -> Result<Option<Draft>> {
        let Some((_, place)) = self.first()? else { return Ok(None) };
        Ok(self.sources[place].rows.pop_front())
    }

    fn first(&mut self) -> Result<Option<(Id<ActivityEntry>, usize)>> {
        let mut first: Option<(Id<ActivityEntry>, usize)> = None;
        for (place, source) in self.sources.iter_mut().enumerate() {
            let Some(id) = source.peek()?.map(|draft| draft.id) else { continue };
            let is_first = first.is_none_or(|(other, _)| match self.order {
                Order::Ascending => id < other,
                Order::Descending => id > other,
            });
            if is_first {
                first = Some((id, place));
            }
        }
        Ok(first)
    }
}
