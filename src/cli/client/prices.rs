//! `roadstead prices`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api::segment;
use super::flags::ClientFlags;
use super::listed::Listed;
use super::table::{Table, cell};
use crate::cli::failure::Failure;
use crate::cli::output;

/// List, set and delete the prices of models
#[derive(Args)]
#[command(
    after_help = "A run that reports tokens and no cost costs by them. Prices are in US dollars for a \
                  million tokens; a model is named as runs report it.\n\n\
                  A key needs the scopes team:read and, to change anything, team:write and the role of \
                  an admin."
)]
pub struct Prices {
    #[command(subcommand)]
    command: PricesCommand,
}

#[derive(Subcommand)]
enum PricesCommand {
    List(List),
    Set(Set),
    Delete(Delete),
}

impl Prices {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            PricesCommand::List(command) => command.run(),
            PricesCommand::Set(command) => command.run(),
            PricesCommand::Delete(command) => command.run(),
        }
    }
}

fn path(model: &str) -> String {
    format!("/model-prices/{}", segment(model))
}

/// List prices, by model
#[derive(Args)]
struct List {
    #[command(flatten)]
    client: ClientFlags,
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let listed = Listed::whole(api.list_in_org("/model-prices", &[])?);
        let table = Table::of(["INPUT", "CACHED", "OUTPUT", "MODEL"], &listed.items, |price| {
            [
                cell(&price["inputUsd"]),
                cached(price),
                cell(&price["outputUsd"]),
                cell(&price["model"]),
            ]
        });
        listed.print(self.client.json, table.text("no prices"))
    }
}

/// The price of input from a cache, which is that of others unless it is set.
fn cached(price: &Value) -> String {
    let own = &price["cachedUsd"];
    cell(if own.is_null() { &price["inputUsd"] } else { own })
}

/// Set the price of a model
#[derive(Args)]
#[command(
    after_help = "Example: roadstead prices set gpt-5 --input 1.25 --output 10 --cached 0.125"
)]
struct Set {
    /// Model, as runs report it
    model: String,

    /// US dollars for a million input tokens
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    input: f64,

    /// US dollars for a million output tokens
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    output: f64,

    /// US dollars for a million input tokens that came from a cache; as for others if absent
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    cached: Option<f64>,

    #[command(flatten)]
    client: ClientFlags,
}

impl Set {
    fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let mut body = json!({"inputUsd": self.input, "outputUsd": self.output});
        if let Some(cached) = self.cached {
            body["cachedUsd"] = json!(cached);
        }
        api.put_in_org(&path(&self.model), body)?;
        let price = api.get_in_org(&path(&self.model), &[])?;
        let [model, input, out] =
            ["model", "inputUsd", "outputUsd"].map(|field| cell(&price[field]));
        let from_cache = cached(&price);
        let text = format!("{model}: input {input}, from a cache {from_cache}, output {out} USD");
        output::print(self.client.json, &price, text)
    }
}

/// Delete the price of a model; what runs cost before stays
#[derive(Args)]
#[command(after_help = "Example: roadstead prices delete gpt-5")]
struct Delete {
    /// Model, as runs report it
    model: String,

    #[command(flatten)]
    client: ClientFlags,
}

impl Delete {
    fn run(self) -> Result<(), Failure> {
        let api = self.client.connect()?;
        let deleted = api.delete_in_org(&path(&self.model), &[])?;
        let text = if deleted { "deleted" } else { "there is no price of this model" };
        output::print(self.client.json, &json!({"deleted": deleted}), text)
    }
}
