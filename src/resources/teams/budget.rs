//! A monthly budget: what of it is used up, and what happens then (reference: teams-and-wakes, "Budgets").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Nullable, Usd};

/// People are warned when this part of a budget is spent.
const WARNED_AT: f64 = 0.8;

/// What happens when a budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// People are told.
    #[default]
    Notify,
    /// Those whose budget it is are held back, too, until the month ends or the budget is raised.
    Pause,
}
crate::store::stored_enum!(OnExhausted { Notify = 0, Pause = 1 });

crate::base::portable! {
/// What may be spent in a calendar month.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub struct Budget {
    /// In US dollars.
    pub monthly_usd: f64,
    pub on_exhausted: OnExhausted,
}
}

/// How much of a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetLevel {
    Fine,
    /// Four fifths or more.
    Low,
    Exhausted,
}

impl Budget {
    /// Whether nothing may be spent at all, in whichever month.
    pub fn is_nothing(&self) -> bool {
        self.monthly_usd <= 0.0
    }

    /// Returns how much of it is used up when this much is spent.
    pub fn level(&self, spent_usd: f64) -> BudgetLevel {
        let is_exhausted = match self.on_exhausted {
            OnExhausted::Notify => spent_usd > self.monthly_usd,
            // With nothing left, nothing more is begun.
            OnExhausted::Pause => spent_usd >= self.monthly_usd,
        };
        if is_exhausted {
            BudgetLevel::Exhausted
        } else if spent_usd > 0.0 && spent_usd >= to_nano(self.monthly_usd * WARNED_AT) {
            BudgetLevel::Low
        } else {
            BudgetLevel::Fine
        }
    }
}

/// Rounds a sum to a billionth of a dollar: the decimal result, so that ten runs of ten cents do not
/// exceed a budget of a dollar.
pub fn to_nano(usd: f64) -> f64 {
    (usd * 1e9).round() / 1e9
}

/// A budget to set.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewBudget {
    /// US dollars per calendar month in the team's time zone.
    monthly_usd: Usd,
    /// What happens when it is used up: `notify` tells people, `pause` holds agents back, too. `notify` if
    /// absent.
    on_exhausted: Option<OnExhausted>,
}

impl NewBudget {
    /// The budget that it sets.
    pub fn stored(self) -> Budget {
        let on_exhausted = self.on_exhausted.unwrap_or_default();
        Budget { monthly_usd: self.monthly_usd.get(), on_exhausted }
    }

    /// Sets it in place of another one. What happens when it is used up stays as it was if it says
    /// nothing of that.
    pub fn patch(new: &Nullable<Self>, old: Option<Budget>) -> Option<Budget> {
        match new {
            Nullable::Absent => old,
            Nullable::Clear => None,
            Nullable::Set(new) => {
                let kept = old.map(|old| old.on_exhausted);
                Some(NewBudget { on_exhausted: new.on_exhausted.or(kept), ..*new }.stored())
            }
        }
    }
}

/// A budget, and what is spent of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Budget")]
pub struct BudgetInfo {
    /// US dollars per calendar month in the team's time zone.
    monthly_usd: f64,
    /// The cost of the runs reported this month, in US dollars.
    spent_usd: f64,
    /// What happens when it is used up.
    on_exhausted: OnExhausted,
    /// Tokens of the runs reported this month that count nothing: neither was their cost reported, nor had
    /// their model a price.
    unpriced_tokens: u64,
}

impl BudgetInfo {
    /// The budget when this much is spent, and so many tokens were used of which nobody knows the cost.
    pub fn of(
        Budget { monthly_usd, on_exhausted }: Budget,
        spent_usd: f64,
        unpriced_tokens: u64,
    ) -> Self {
        BudgetInfo { monthly_usd, spent_usd, on_exhausted, unpriced_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_pauses_is_used_up_when_nothing_is_left_and_another_when_it_is_passed() {
        let level =
            |on_exhausted, monthly_usd, spent| Budget { monthly_usd, on_exhausted }.level(spent);
        for (spent, notify, pause) in [
            (0.0, BudgetLevel::Fine, BudgetLevel::Fine),
            (7.99, BudgetLevel::Fine, BudgetLevel::Fine),
            (8.0, BudgetLevel::Low, BudgetLevel::Low),
            (9.99, BudgetLevel::Low, BudgetLevel::Low),
            (10.0, BudgetLevel::Low, BudgetLevel::Exhausted),
            (10.01, BudgetLevel::Exhausted, BudgetLevel::Exhausted),
        ] {
            assert_eq!(level(OnExhausted::Notify, 10.0, spent), notify, "{spent}");
            assert_eq!(level(OnExhausted::Pause, 10.0, spent), pause, "{spent}");
        }
        assert_eq!(level(OnExhausted::Notify, 1.1, 0.88), BudgetLevel::Low, "four fifths exactly");
        // Of nothing, nothing is to be spent.
        assert_eq!(level(OnExhausted::Notify, 0.0, 0.0), BudgetLevel::Fine);
        assert_eq!(level(OnExhausted::Pause, 0.0, 0.0), BudgetLevel::Exhausted);
    }
}
