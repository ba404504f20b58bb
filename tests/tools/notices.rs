//! The notices of what the program contains are those that `packaging/notices` finds.

use std::process::Command;

use crate::optional::{is_left_out, run};
use crate::python;

#[test]
fn the_notices_are_those_of_everything_that_is_in_the_program() {
    if is_left_out("NOTICES", "the sources of all dependencies", python::missing()) {
        return;
    }
    run(Command::new("python3")
        .args(["packaging/notices", "--check"])
        .current_dir(env!("CARGO_MANIFEST_DIR")));
}
