//! The names of the values of enumerations. In Go those of all enumerations stand in one namespace,
//! and openapi-generator names them by the values alone: without a name of its own, a value that two
//! enumerations have does not compile there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The word before the names of an enumeration's values. Of enumerations with a common value all but
/// one are here. A new one is added rather than one that is there already, whose names programs know.
const PREFIXES: [(&str, &str); 22] = [
    ("ActivityKind", "ACTIVITY"),
    ("ApprovalDecision", "APPROVAL"),
    ("CardState", "CARD"),
    ("ContactPolicy", "CONTACT"),
    ("DomainState", "DOMAIN"),
    ("JobState", "JOB"),
    ("LabelChangeState", "LABEL_CHANGE_STATE"),
    ("MessageSenderType", "SENDER"),
    ("Overlap", "OVERLAP"),
    ("PauseScope", "PAUSE"),
    ("PeerState", "PEER"),
    ("PolicySeverity", "SEVERITY"),
    ("RegistryVisibility", "REGISTRY"),
    ("ResourceAccess", "ACCESS"),
    ("RunStatus", "RUN"),
    ("ScheduleOutcome", "SCHEDULE"),
    ("SearchKind", "KIND"),
    ("TargetState", "TARGET"),
    ("TeamAgentRole", "TEAM"),
    ("TeamApprovalState", "TEAM_APPROVAL"),
    ("UsageBy", "BY"),
    ("VerificationOutcome", "VERIFICATION"),
];

/// Names the values of the enumerations that have a prefix. What is sent and received stays as it is.
pub fn name_values(schemas: &mut Map<String, Value>) {
    for (name, _) in PREFIXES {
        let Some(schema) = schemas.get_mut(name) else { continue };
        if let Some(names) = value_names(name, schema) {
            schema["x-enum-varnames"] = json!(names);
        }
    }
}

/// Returns a sentence for each name that two values have.
pub fn problems(schemas: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeMap::new();
    for (name, schema) in schemas {
        for value in value_names(name, schema).unwrap_or_default() {
            if let Some(other) = seen.get(&value) {
                problems.push(format!(
                    "{other} and {name} have values that Go calls {value}: give one of them a prefix"
                ));
            } else {
                seen.insert(value, name);
            }
        }
    }
    problems
}

/// The names of an enumeration's values: their words in capitals, after the prefix if it has one.
fn value_names(name: &str, schema: &Value) -> Option<Vec<String>> {
    let prefix = PREFIXES.iter().find(|(prefixed, _)| *prefixed == name);
    let named = |value: &Value| {
        let word = value.as_str()?.to_ascii_uppercase();
        let word = word.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        Some(prefix.map_or_else(|| word.clone(), |(_, prefix)| format!("{prefix}_{word}")))
    };
    schema["enum"].as_array()?.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn values_that_another_enumeration_has_get_names_of_their_own() {
        let mut all = schemas(json!({
            "JobState": {"enum": ["pending_approval", "error"]},
            "AgentStatus": {"enum": ["error"]},
            "Text": {"type": "string"},
        }));
        name_values(&mut all);
        assert_eq!(
            all["JobState"]["x-enum-varnames"],
            json!(["JOB_PENDING_APPROVAL", "JOB_ERROR"])
        );
        assert_eq!(all["JobState"]["enum"], json!(["pending_approval", "error"]));
        assert_eq!(all["AgentStatus"], json!({"enum": ["error"]}));
        assert_eq!(problems(&all), Vec::<String>::new());
    }

    #[test]
    fn two_values_of_one_name_are_a_problem() {
        let all = schemas(json!({
            "Tide": {"enum": ["low.water"]},
            "Level": {"enum": ["low_water"]},
            "JobState": {"enum": ["low_water"]},
        }));
        let expected =
            "Tide and Level have values that Go calls LOW_WATER: give one of them a prefix";
        assert_eq!(problems(&all), [expected]);
    }
}
