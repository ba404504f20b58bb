//! Rules of the console's own files.

use super::pages;

#[test]
fn pages_of_an_organization_are_below_it_and_no_others() {
    use super::page::Audience;
    for page in pages::all() {
        let is_below = page.path == "/o/{org}" || page.path.starts_with("/o/{org}/");
        assert_eq!(page.audience == Audience::Members, is_below, "{}", page.path);
    }
}
