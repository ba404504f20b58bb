//! `roadstead activity`

use clap::Args;
use serde_json::Value;
use uuid::Uuid;

use super::api::Api;
use super::backoff::Backoff;
use super::flags::ClientFlags;
use super::listed::require_some;
use super::lookup::{Team, TeamFlag};
use super::refusal::Refusal;
use super::stop::Stop;
use super::table::{Table, cell, one_line, time};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::outside::Method;

/// The longest wait of a request: the server ends it before, and a proxy later.
const WAIT_SECS: &str = "60";

/// No wait: whether the server is back is known at once.
const AT_ONCE: &str = "0";

/// Show what happened in a team
#[derive(Args)]
#[command(
    after_help = "Oldest first. With --follow what happens is shown until Ctrl-C, or until nobody reads it; \
                        with --json each entry is then a line of its own. While the server is away it is asked \
                        again after growing pauses, and nothing that happens meanwhile is missed; once the team may \
                        not be read any more the command fails.\n\n\
                        ROADSTEAD_TEAM takes the place of --team. A key needs the scope team:read.\n\n\
                        Example: roadstead activity --team shipping --follow"
)]
pub struct Activity {
    /// Only what is about this task, by number or id
    #[arg(long, value_name = "TASK")]
    task: Option<String>,

    /// Only what this agent did, or what happened to it, by stable key or id
    #[arg(long, value_name = "AGENT")]
    by: Option<String>,

    /// Only entries of this kind, such as task_changed
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// How many at most, the newest; 0 with --follow: only what comes
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,

    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,

    #[command(flatten)]
    team: TeamFlag,

    #[command(flatten)]
    client: ClientFlags,
}

/// What is asked for.
struct Asked<'a> {
    path: String,
    task: Option<String>,
    agent: Option<String>,
    kind: Option<&'a str>,
    org: &'a str,
}

impl Activity {
    pub(crate) fn run(self) -> Result<(), Failure> {
        require_some(self.limit, self.follow)?;
        let api = self.client.connect()?;
        let team = Team::find(&api, &self.team)?;
        let asked = Asked {
            path: team.path("/activity"),
            task: self.task.as_deref().map(|task| team.task(task)).transpose()?,
            agent: self.by.as_deref().map(|agent| team.agent(agent)).transpose()?,
            kind: self.kind.as_deref(),
            org: api.org()?,
        };
        // Also where none is shown: it says from where on.
        let most = self.limit.max(1);
        let mut listed = api.list(&asked.path, &asked.query(None, None), most)?;
        listed.items.reverse();
        if !self.follow {
            let head = ["TIME (UTC)", "KIND", "BY", "TASK", "ID", "WHAT"];
            let table = Table::of(head, &listed.items, row);
            return listed.print(self.client.json, table.text("nothing has happened"));
        }
        api.block_on(self.follow(&api, &asked, listed.items))
    }

    /// Shows entries, and then those that come. Of the newest, those that are not settled are left to what
    /// comes: another one may still come before them.
    async fn follow(
        &self,
        api: &Api,
        asked: &Asked<'_>,
        mut entries: Vec<Value>,
    ) -> Result<(), Failure> {
        let mut stop = Stop::new().map_err(Failure::io("signals"))?.or_without_reader();
        let mut backoff = Backoff::default();
        let mut after = place(&entries);
        entries.retain(|entry| entry["settled"] == true);
        entries.drain(..entries.len().saturating_sub(self.limit));
        loop {
            for entry in entries.drain(..) {
                output::print(self.client.json, &entry, one_line(&row(&entry).join("  ")))?;
                after = cell(&entry["id"]);
            }
            let wait = if backoff.is_pausing() { AT_ONCE } else { WAIT_SECS };
            let next = tokio::select! {
                () = stop.asked() => return Ok(()),
                next = asked.after(api, &after, wait) => next,
            };
            match next {
                Ok(next) => {
                    entries = next;
                    backoff.end();
                }
                Err(refusal) => {
                    if !backoff.pause(refusal, &mut stop).await? {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl Asked<'_> {
    fn query<'a>(
        &'a self,
        after: Option<&'a str>,
        wait: Option<&'a str>,
    ) -> [(&'a str, Option<&'a str>); 6] {
        [
            ("orgSlug", Some(self.org)),
            ("taskId", self.task.as_deref()),
            ("agentId", self.agent.as_deref()),
            ("kind", self.kind),
            ("after", after),
            ("wait", wait),
        ]
    }

    /// The next entries, once there are some, or none.
    async fn after(&self, api: &Api, after: &str, wait: &str) -> Result<Vec<Value>, Refusal> {
        let mut cursor = None;
        loop {
            let [a, b, c, d, e, f] = self.query(Some(after), Some(wait));
            let query = [a, b, c, d, e, f, ("cursor", cursor.as_deref())];
            let mut page = api.request(Method::GET, &self.path, &query, None).await?;
            let next = page["nextCursor"].as_str().map(str::to_string);
            match page["items"].take() {
                Value::Array(items) if !items.is_empty() => return Ok(items),
                // It has looked through many that were not asked for.
                _ if next.is_some() => cursor = next,
                _ => return Ok(Vec::new()),
            }
        }
    }
}

/// The place after those entries, oldest first, that are settled: if none is, before all of them.
fn place(entries: &[Value]) -> String {
    if let Some(last) = entries.iter().rfind(|entry| entry["settled"] == true) {
        return cell(&last["id"]);
    }
    let first = entries.first().and_then(|entry| Uuid::try_parse(entry["id"].as_str()?).ok());
    let before = |first: Uuid| Uuid::from_u128(first.as_u128().saturating_sub(1)).to_string();
    first.map_or("start".into(), before)
}

fn row(entry: &Value) -> [String; 6] {
    let by = if entry["name"].is_null() { &entry["userId"] } else { &entry["name"] };
    let task = entry["task"]["number"].as_u64().map_or("-".into(), |number| format!("#{number}"));
    let what = ["status", "text"].map(|field| entry[field].as_str().unwrap_or_default());
    let what = what.join(" ");
    let id = cell(&entry["resourceId"]);
    [time(&entry["createdAt"]), cell(&entry["kind"]), cell(by), task, id, what.trim().into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_goes_on_after_the_last_entry_that_is_settled() {
        let id = |last: u8| format!("01890a5d-ac96-774b-bcce-b302099a80{last:02x}");
        let of = |ids: &[(u8, bool)]| {
            let entry = |&(last, settled): &(u8, bool)| json!({"id": id(last), "settled": settled});
            ids.iter().map(entry).collect::<Vec<_>>()
        };
        assert_eq!(place(&of(&[(1, true), (3, true), (5, false)])), id(3));
        assert_eq!(place(&of(&[(3, false), (5, false)])), id(2));
        assert_eq!(place(&[]), "start");
    }
}
