//! The nearest of some known names, for "did you mean".

/// Longer keys are compared with no name, which keeps the comparison cheap: no name is as long.
const MAX_COMPARED_BYTES: usize = 64;

/// Returns the known name that `key` is probably a misspelling of.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if key.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let key = folded(key);
    let distances = known.map(|name| {
        let folded = folded(name);
        let allowed = key.len().max(folded.len()) / 3;
        (distance(&key, &folded), allowed, name)
    });
    let near = distances.filter(|(distance, allowed, _)| distance <= allowed);
    near.min_by_key(|(distance, ..)| *distance).map(|(.., name)| name)
}

/// A name without the differences between conventions: `assignee_agent_id` and `AssigneeAgentID`
/// are one.
fn folded(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The number of characters to insert, delete, replace or swap with a neighbour to make one text of
/// the other.
fn distance(a: &[char], b: &[char]) -> usize {
    // Three rows of the table of distances between the beginnings of both.
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            row[j + 1] = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let known = ["assigneeAgentId", "title", "description", "projectId", "priority", "orgSlug"];
        for (key, expected) in [
            ("assigneAgentId", Some("assigneeAgentId")),
            ("assignee_agent_id", Some("assigneeAgentId")),
            ("ASSIGNEEAGENTID", Some("assigneeAgentId")),
            ("agentId", None),
            ("titel", Some("title")),
            ("tilte", Some("title")),
            ("desciption", Some("description")),
            ("project", Some("projectId")),
            ("prioritie", Some("priority")),
            ("org", None),
            ("id", None),
            ("", None),
            ("completely-different", None),
        ] {
            assert_eq!(nearest(key, known.into_iter()), expected, "{key}");
        }
        assert_eq!(nearest(&"title".repeat(20), known.into_iter()), None);
    }

    #[test]
    fn a_swap_of_neighbours_is_one_change() {
        let of = |a: &str, b: &str| distance(&folded(a), &folded(b));
        assert_eq!(of("ab", "ba"), 1);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("same", "same"), 0);
    }
}
