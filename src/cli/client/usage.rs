//! `roadstead usage`

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::flags::ClientFlags;
use super::listed::Listed;
use super::lookup::{Team, TeamFlag};
use super::table::{Table, cell};
use crate::cli::failure::Failure;

/// Show what the runs of a team have used and cost
#[derive(Args)]
#[command(
    after_help = "Days and months are those of the team's time zone. What cost most comes first, \
                        but for months, of which the newest does, and days. Tokens without a price \
                        cost nothing, unless their run reports the cost.\n\n\
                        A key needs the scope team:read.\n\n\
                        Example: roadstead usage --team shipping --by model --month 2026-11"
)]
pub struct Usage {
    /// What is summed by
    #[arg(long, value_enum, value_name = "WHAT", default_value = "day")]
    by: By,

    /// Month, such as 2026-11; by default the current one, with --by month all
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,

    #[command(flatten)]
    team: TeamFlag,

    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Month,
    Day,
    Model,
    Agent,
    Task,
}

impl By {
    /// What a sum is of, for people.
    fn subject(self, sum: &Value) -> String {
        let (field, none) = match self {
            By::Month => ("month", ""),
            By::Day => ("day", ""),
            By::Model => ("model", "no model named"),
            By::Agent => ("agentName", "an agent that has left"),
            By::Task => ("taskTitle", "no task"),
        };
        if sum[field].is_null() { none.into() } else { cell(&sum[field]) }
    }
}

impl Usage {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let team = Team::find(&api, &self.team)?;
        let by = self.by.to_possible_value();
        let query = [("by", by.as_ref().map(|by| by.get_name())), ("month", self.month.as_deref())];
        let listed = Listed::whole(api.list_in_org(&team.path("/usage"), &query)?);
        let head = ["USD", "RUNS", "INPUT", "CACHED", "OUTPUT", "OF"];
        let table = Table::of(head, &listed.items, |sum| {
            let [runs, input, cached, output] =
                ["runs", "input", "cached", "output"].map(|field| cell(&sum[field]));
            [cost(sum), runs, input, cached, output, self.by.subject(sum)]
        });
        listed.print(self.client.json, table.text("no runs"))
    }
}

/// What is known of a cost, to a hundredth of a cent; with `+` where tokens have no price.
fn cost(sum: &Value) -> String {
    let has_unpriced = sum["unpricedTokens"].as_u64().is_some_and(|tokens| tokens > 0);
    match sum["costUsd"].as_f64() {
        None => "-".into(),
        Some(usd) if !has_unpriced => format!("{usd:.4}"),
        Some(usd) if usd > 0.0 => format!("{usd:.4}+"),
        Some(_) => "no price".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sum_is_named_by_what_it_is_of() {
        let sum =
            json!({"month": "2026-11", "model": null, "agentName": null, "taskTitle": "Count"});
        let names = [By::Month, By::Model, By::Agent, By::Task].map(|by| by.subject(&sum));
        assert_eq!(names, ["2026-11", "no model named", "an agent that has left", "Count"]);
    }

    #[test]
    fn what_has_no_price_is_not_shown_as_nothing() {
        let cost = |usd: Value, unpriced: Value| {
            cost(&json!({"costUsd": usd, "unpricedTokens": unpriced}))
        };
        let shown = [
            cost(json!(1.25), json!(0)),
            cost(json!(0), json!(0)),
            cost(json!(0), json!(7)),
            cost(json!(1.25), json!(7)),
            // A server that does not say.
            cost(json!(0), Value::Null),
            cost(Value::Null, Value::Null),
        ];
        assert_eq!(shown, ["1.2500", "0.0000", "no price", "1.2500+", "0.0000", "-"]);
    }
}
