//! Monthly budgets, as pages show and ask for them.

use serde::Deserialize;
use serde_json::Value;

use super::field::Field;
use super::visit::Visit;

/// What happens when a budget is used up. The first is what happens unless something else is chosen.
const ON_EXHAUSTED: [(&str, &str); 2] = [
    ("notify", "Tell people"),
    ("pause", "Tell people, and begin nothing until the month ends or the budget is raised"),
];

/// People are warned when this part of a budget is spent.
const WARNED_AT: f64 = 0.8;

/// A budget, and what is spent of it this month, in US dollars.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    pub monthly_usd: f64,
    pub spent_usd: f64,
    pub on_exhausted: String,
    /// Tokens that count nothing in what is spent: nobody knows what they cost.
    pub unpriced_tokens: u64,
}

impl Budget {
    /// The part that is spent, in percent of the budget; at most 100.
    pub fn percent(&self) -> String {
        percent(self.spent_usd, self.monthly_usd)
    }

    /// Whether it holds agents back when it is used up.
    pub fn pauses(&self) -> bool {
        self.on_exhausted == "pause"
    }

    /// Whether nothing is left. One that holds nobody back may be spent to the last cent.
    pub fn is_used_up(&self) -> bool {
        let left = self.monthly_usd - self.spent_usd;
        if self.pauses() { left <= 0.0 } else { left < 0.0 }
    }

    /// Whether little is left.
    pub fn is_low(&self) -> bool {
        !self.is_used_up() && self.spent_usd > 0.0 && self.spent_usd >= self.monthly_usd * WARNED_AT
    }

    /// Class, icon and word of how it stands; `None` if there is nothing to say.
    pub fn state(&self) -> Option<(&'static str, &'static str, &'static str)> {
        match (self.is_used_up(), self.is_low()) {
            (true, _) if self.pauses() => Some(("bad", "octagon", "Used up")),
            (true, _) => Some(("warning", "triangle", "Used up")),
            (false, true) => Some(("warning", "triangle", "Low")),
            (false, false) => None,
        }
    }

    /// What happens when it is used up, as a sentence.
    pub fn consequence(&self) -> &'static str {
        match (self.pauses(), self.is_used_up()) {
            (true, _) if self.monthly_usd <= 0.0 => "Nothing is begun until the budget is raised.",
            (true, true) => "Nothing is begun until the month ends or the budget is raised.",
            (true, false) => "When it is used up, nothing is begun until the month ends.",
            (false, _) => "People are told when it is low and when it is passed.",
        }
    }

    /// That some of what was used counts nothing, as a sentence; `None` if all of it has a cost.
    pub fn unpriced(&self) -> Option<String> {
        unpriced(self.unpriced_tokens)
    }

    /// What is spent.
    pub fn spent(&self) -> String {
        usd(self.spent_usd)
    }

    /// What there is.
    pub fn monthly(&self) -> String {
        usd(self.monthly_usd)
    }
}

/// That so many tokens count nothing, as a sentence; `None` of none.
pub fn unpriced(tokens: u64) -> Option<String> {
    let count = match tokens {
        0 => return None,
        1 => "1 token counts".into(),
        many => format!("{} tokens count", grouped(many)),
    };
    Some(format!("{count} nothing: no cost was reported, and the model had no price."))
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A part of a whole, in percent; all of it where there is no whole.
pub fn percent(part: f64, whole: f64) -> String {
    let part = if whole > 0.0 { part / whole } else { 1.0 };
    format!("{:.1}", (part * 100.0).clamp(0.0, 100.0))
}

/// An amount of US dollars. What is less than a cent is not shown as nothing.
pub fn usd(amount: f64) -> String {
    if amount > 0.0 && amount < 0.005 {
        return "<$0.01".into();
    }
    format!("${amount:.2}")
}

/// The fields of a budget: what may be spent, and what happens then.
pub fn fields(label: &'static str, hint: &'static str) -> [Field; 2] {
    [
        Field::text("monthlyUsd", label).at("budget.monthlyUsd").number().optional().hint(hint),
        Field::select("onExhausted", "When it is used up", ON_EXHAUSTED)
            .at("budget.onExhausted")
            .unset(ON_EXHAUSTED[0].0)
            .hint("People are warned in any case when four fifths are spent."),
    ]
}

/// Without an amount there is no budget.
pub fn refine(_: &Visit, _: &Value, body: &mut Value) {
    if body["budget"]["monthlyUsd"].is_null() {
        body["budget"] = Value::Null;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(monthly_usd: f64, spent_usd: f64, on_exhausted: &str) -> Budget {
        Budget { monthly_usd, spent_usd, on_exhausted: on_exhausted.into(), unpriced_tokens: 0 }
    }

    #[test]
    fn a_budget_is_shown_in_percent_up_to_all_of_it() {
        let part = |monthly, spent| budget(monthly, spent, "notify").percent();
        assert_eq!(part(50.0, 12.5), "25.0");
        assert_eq!(part(50.0, 80.0), "100.0");
        assert_eq!(part(0.0, 0.0), "100.0");
        let spent = |spent| budget(50.0, spent, "notify").spent();
        assert_eq!([spent(0.055), spent(0.0), spent(0.0004)], ["$0.06", "$0.00", "<$0.01"]);
    }

    #[test]
    fn what_is_left_is_said_as_the_server_counts_it() {
        let word = |spent, then| budget(10.0, spent, then).state().map(|(_, _, word)| word);
        for (spent, notify, pause) in [
            (0.0, None, None),
            (7.99, None, None),
            (8.0, Some("Low"), Some("Low")),
            (10.0, Some("Low"), Some("Used up")),
            (10.01, Some("Used up"), Some("Used up")),
        ] {
            assert_eq!((word(spent, "notify"), word(spent, "pause")), (notify, pause), "{spent}");
        }
        assert!(budget(0.0, 0.0, "pause").is_used_up() && !budget(0.0, 0.0, "notify").is_used_up());
        let consequence = |monthly| budget(monthly, 1.0, "pause").consequence();
        assert_eq!(consequence(0.0), "Nothing is begun until the budget is raised.");
        assert!(consequence(1.0).contains("until the month ends"));
    }

    #[test]
    fn tokens_that_count_nothing_are_said() {
        assert_eq!(unpriced(0), None);
        assert!(unpriced(1).unwrap().starts_with("1 token counts nothing: "));
        assert!(unpriced(1234).unwrap().starts_with("1,234 tokens count nothing: "));
        assert_eq!([grouped(7), grouped(1234), grouped(12_345_678)], ["7", "1,234", "12,345,678"]);
    }
}
