//! Prices of models, by which the cost of a run follows from what it used (reference: teams-and-wakes,
//! "Prices of models"), and what a run used of a model.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, MEMBER, ScopeName, User};
use crate::base::{Error, Id, Int, Issue, Result, Text, Time, Usd};
use crate::store::{Export, ListSource, Order, Page, Record, TableInfo, Tx, View};

/// The prices of models.
pub const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<ModelPrice>()], ..Resource::EMPTY };

/// An organization has at most 1,000 prices: more than there are models that are sold.
const MAX_PRICES: usize = 1000;

/// Tokens of a run: more than any uses, and sums of many stay far below what a number holds.
type Tokens = Int<0, 1_000_000_000_000>;

/// The name of a model, as runs report it.
pub type ModelName = Text<1, 128>;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// What a model costs.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// The name of the model, as runs report it.
    pub model: ModelName,
    /// US dollars for a million input tokens.
    pub input_usd: f64,
    /// US dollars for a million output tokens.
    pub output_usd: f64,
    /// US dollars for a million input tokens that came from a cache; null if they cost as others.
    pub cached_usd: Option<f64>,
    /// When it was set.
    pub updated_at: Time,
    /// The user who last set it, also through a key; null if an earlier release did.
    pub updated_by: Option<Id<User>>,
}
}

impl Output for ModelPrice {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(&self.model)
    }
}

impl Record for ModelPrice {
    const TABLE: &'static str = "model_prices";
    const NOUN: &'static str = "price";
    const EXPORT: Export<Self> = Export::WHOLE;
    type Key = ModelName;
    fn key(&self) -> Self::Key {
        self.model.clone()
    }
}

crate::base::portable! {
/// What a run used of a model.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    /// The name of the model.
    pub model: ModelName,
    /// Input tokens, also those from a cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Those of the input tokens that came from a cache.
    pub cached: u64,
    /// The cost in US dollars: as reported, or by the organization's price of that time; null if neither is
    /// known.
    pub cost_usd: Option<f64>,
}
}

// ── What callers send ────────────────────────────────────────────────────────

/// The price of a model to set.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"inputUsd": 1.25, "outputUsd": 10, "cachedUsd": 0.125}]))]
pub struct NewModelPrice {
    /// US dollars for a million input tokens.
    input_usd: Usd,
    /// US dollars for a million output tokens.
    output_usd: Usd,
    /// US dollars for a million input tokens that came from a cache. As for others if absent.
    cached_usd: Option<Usd>,
}
impl Input for NewModelPrice {}

/// What a run used of a model.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewModelUsage {
    /// The name of the model; each once.
    model: ModelName,
    /// Input tokens, also those from a cache. 0 if absent.
    input: Option<Tokens>,
    /// Output tokens. 0 if absent.
    output: Option<Tokens>,
    /// Those of the input tokens that came from a cache. 0 if absent.
    cached: Option<Tokens>,
    /// The cost in US dollars. If absent, it follows from the organization's price of the model.
    cost_usd: Option<Usd>,
}

fn tokens(count: Option<Tokens>) -> u64 {
    count.map_or(0, |count| count.get().unsigned_abs())
}

/// Checks what a run says that it used.
pub fn check(usage: &[NewModelUsage], issues: &mut Vec<Issue>) {
    let mut models = BTreeSet::new();
    for (n, part) in usage.iter().enumerate() {
        if !models.insert(part.model.as_str()) {
            let message = "is in the list before: add up what was used of a model";
            issues.push(Issue::new(format!("usage[{n}].model"), message));
        }
        if tokens(part.cached) > tokens(part.input) {
            let message = "must be at most input, which counts tokens from a cache, too";
            issues.push(Issue::new(format!("usage[{n}].cached"), message));
        }
    }
}

// ── For runs ─────────────────────────────────────────────────────────────────

/// Returns what a run used, with its cost where that is known.
pub fn priced(view: &View, usage: &[NewModelUsage]) -> Result<Vec<ModelUsage>> {
    let priced = |new: &NewModelUsage| {
        let (input, output, cached) = (tokens(new.input), tokens(new.output), tokens(new.cached));
        let model = new.model.clone();
        let cost_usd = match new.cost_usd {
            Some(cost) => Some(cost.get()),
            None => view.get::<ModelPrice>(&model)?.map(|price| price.of(input, output, cached)),
        };
        Ok(ModelUsage { model, input, output, cached, cost_usd })
    };
    usage.iter().map(priced).collect()
}

/// Returns what these tokens cost by the organization's price of this model; `None` if it has none. They are
/// those of the input, of the output, and those of the input that came from a cache.
pub fn cost(view: &View, model: &str, [input, output, cached]: [u64; 3]) -> Result<Option<f64>> {
    let Ok(model) = ModelName::parse(model) else { return Ok(None) };
    // A server may say anything.
    let cached = cached.min(input);
    Ok(view.get::<ModelPrice>(&model)?.map(|price| price.of(input, output, cached)))
}

/// Returns what a run cost by what is known; `None` if nothing is.
pub fn total(usage: &[ModelUsage]) -> Option<f64> {
    usage.iter().filter_map(|part| part.cost_usd).reduce(|sum, cost| sum + cost).map(within_bounds)
}

/// Rounds a cost to a billionth of a dollar, and bounds it as those that are reported are.
fn within_bounds(usd: f64) -> f64 {
    ((usd * 1e9).round() / 1e9).min(1e9)
}

impl ModelPrice {
    fn of(&self, input: u64, output: u64, cached: u64) -> f64 {
        let cost = |tokens: u64, usd: f64| tokens as f64 * usd / 1e6;
        let from_cache = cost(cached, self.cached_usd.unwrap_or(self.input_usd));
        let others = cost(input.saturating_sub(cached), self.input_usd);
        within_bounds(others + from_cache + cost(output, self.output_usd))
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<ModelPrice>> {
    view.page(ListSource::TABLE, &(), Order::Ascending, &req.page, |_| true)
}

/// Returns the price that a path names.
///
/// # Errors
/// 404 if there is none.
fn named(view: &View, model: &str) -> Result<ModelPrice> {
    let model = ModelName::parse(model).map_err(|_| Error::no_such("price").at("model"))?;
    view.fetch(&model)
}

fn get(view: &View, req: &Req<String>) -> Result<ModelPrice> {
    named(view, &req.params)
}

fn set(tx: &mut Tx, req: &Req<ModelName, NewModelPrice>) -> Result<ModelPrice> {
    let new = &req.input;
    let price = ModelPrice {
        model: req.params.clone(),
        input_usd: new.input_usd.get(),
        output_usd: new.output_usd.get(),
        cached_usd: new.cached_usd.map(Usd::get),
        updated_at: tx.now(),
        updated_by: Some(req.caller().user()),
    };
    let is_new = !tx.view().has::<ModelPrice>(&price.model)?;
    if is_new && tx.view().count(ListSource::<ModelPrice>::TABLE, &(), MAX_PRICES)? == MAX_PRICES {
        let message = "an organization has at most 1000 prices; delete one that is not needed";
        return Err(Error::conflict("too_many_model_prices", message));
    }
    tx.put(&price)?;
    Ok(price)
}

fn delete(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    let price = named(&tx.view(), &req.params)?;
    tx.remove(&price)?;
    Ok(Deleted::new(price.model))
}

fn routes() -> Vec<Route> {
    const ONE: &str = "/model-prices/{model}";
    vec![
        Route::get("/model-prices", MEMBER, "model_price.list", op::list(list))
            .needs(ScopeName::TeamRead)
            .about("List the prices of models, by name"),
        Route::get(ONE, MEMBER, "model_price.get", op::read(get))
            .needs(ScopeName::TeamRead)
            .about("Get the price of a model"),
        Route::put(ONE, ADMIN, "model_price.set", op::write(set))
            .needs(ScopeName::TeamWrite)
            .about("Set the price of a model"),
        Route::delete(ONE, ADMIN, "model_price.delete", op::write(delete))
            .needs(ScopeName::TeamWrite)
            .about("Delete the price of a model"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::testing::Fixture;

    fn put(fixture: &Fixture, model: &str, body: serde_json::Value) -> Result<ModelPrice> {
        let model = ModelName::parse(model).unwrap();
        fixture.write_as(&fixture.owner, set, model, Fixture::input(body)?)
    }

    #[test]
    fn the_cost_follows_from_the_price_of_the_model() {
        let fixture = Fixture::new();
        put(&fixture, "a/b", json!({"inputUsd": 2, "outputUsd": 10, "cachedUsd": 0.5})).unwrap();
        put(&fixture, "plain", json!({"inputUsd": 2, "outputUsd": 10})).unwrap();
        let used = |body| -> Vec<Option<f64>> {
            let usage: Vec<NewModelUsage> = serde_json::from_value(body).unwrap();
            let view = |view: &View| priced(view, &usage);
            let priced = fixture.store.read_now(fixture.org, view).unwrap();
            priced.iter().map(|part| part.cost_usd).collect()
        };
        // A million from the cache, a million others, half a million of output.
        let tokens = json!({"input": 2_000_000, "cached": 1_000_000, "output": 500_000});
        for (model, cost) in [("a/b", Some(7.5)), ("plain", Some(9.0)), ("A/B", None)] {
            let mut one = tokens.clone();
            one["model"] = json!(model);
            assert_eq!(used(json!([one])), [cost], "{model}");
            one["costUsd"] = json!(0.25);
            assert_eq!(used(json!([one])), [Some(0.25)], "what is reported counts");
        }
    }

    #[test]
    fn tokens_of_a_cache_cost_their_price_and_are_no_more_than_all() {
        let fixture = Fixture::new();
        put(&fixture, "m", json!({"inputUsd": 2, "outputUsd": 10, "cachedUsd": 0.5})).unwrap();
        let of = |tokens: [u64; 3]| {
            fixture.store.read_now(fixture.org, |view| cost(view, "m", tokens)).unwrap()
        };
        assert_eq!(of([2_000_000, 0, 1_000_000]), Some(2.5));
        assert_eq!(of([1_000_000, 0, u64::MAX]), Some(0.5));
    }

    #[test]
    fn a_run_costs_what_is_known_of_its_parts() {
        let part = |cost_usd| ModelUsage {
            model: ModelName::parse("m").unwrap(),
            input: 0,
            output: 0,
            cached: 0,
            cost_usd,
        };
        assert_eq!(total(&[]), None);
        assert_eq!(total(&[part(None)]), None);
        assert_eq!(total(&[part(Some(0.1)), part(None), part(Some(0.2))]), Some(0.3));
    }

    #[test]
    fn what_is_said_twice_or_cannot_be_is_refused_by_its_place() {
        let usage: Vec<NewModelUsage> = serde_json::from_value(json!([
            {"model": "a", "input": 1, "cached": 2},
            {"model": "b"},
            {"model": "a"},
        ]))
        .unwrap();
        let mut issues = Vec::new();
        check(&usage, &mut issues);
        let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["usage[0].cached", "usage[2].model"]);
    }

    #[test]
    fn prices_are_set_replaced_and_deleted_by_the_name_of_the_model() {
        let fixture = Fixture::new();
        let body = json!({"inputUsd": 1, "outputUsd": 2});
        put(&fixture, "b", body.clone()).unwrap();
        put(&fixture, "a", body).unwrap();
        put(&fixture, "b", json!({"inputUsd": 0, "outputUsd": 3})).unwrap();
        let all = fixture.read(list, (), ()).unwrap().items;
        let all: Vec<_> = all.iter().map(|one| (one.model.as_str(), one.output_usd)).collect();
        assert_eq!(all, [("a", 2.0), ("b", 3.0)]);
        fixture.write_as(&fixture.owner, delete, "a".to_string(), ()).unwrap();
        assert_eq!(fixture.read(get, "a".to_string(), ()).unwrap_err().code(), "not_found");
        fixture.assert_sound();
    }
}
