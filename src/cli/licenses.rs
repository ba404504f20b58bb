//! `roadstead licenses`

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::output;

/// What is in the program, with the notices of its authors, as `packaging/notices` has made it.
static NOTICES: &str = include_str!("../../packaging/NOTICES.txt");

/// Print the license, and the notices of everything that the program contains
#[derive(Args)]
pub struct Licenses {
    #[command(flatten)]
    common: Common,
}

impl Licenses {
    pub(super) fn run(self) -> Result<(), Failure> {
        let contains: Vec<_> =
            contents().map(|(name, license)| json!({"name": name, "license": license})).collect();
        let license = env!("CARGO_PKG_LICENSE");
        let value = json!({"license": license, "contains": contains, "notices": NOTICES});
        output::print(self.common.json, &value, NOTICES)
    }
}

/// Returns what the program contains: name with version, and license.
fn contents() -> impl Iterator<Item = (&'static str, &'static str)> {
    // A line of the list: the name, the license, the numbers of its texts.
    NOTICES
        .lines()
        .skip_while(|line| *line != "== Contents ==")
        .take_while(|line| *line != "== Texts ==")
        .filter_map(|line| {
            let (name, rest) = line.split_once(" | ")?;
            Some((name, rest.split_once(" | ")?.0))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_contained_has_a_name_and_a_license() {
        let listed: Vec<_> = contents().collect();
        assert!(listed.len() > 100, "{listed:?}");
        assert!(listed.iter().all(|(name, license)| !name.is_empty() && !license.is_empty()));
        assert!(listed.iter().any(|(name, _)| name.starts_with("redb ")), "{listed:?}");
    }

    #[test]
    fn nothing_in_the_notices_is_printed_in_another_way() {
        assert_eq!(output::shown(NOTICES), NOTICES);
    }
}
